//! `config.json` and `generation_config.json`.

use std::path::Path;

use mlx::Dtype;
use serde_json::{Value, json};

use crate::{
    Error, Result,
    config::{Family, ModelConfig, RopeConfig, RopeScaling, Scores},
    json,
    tokenizer::{Special, Tokenizer},
};

/// Writes both files into `folder`.
pub(super) fn write(
    config: &ModelConfig,
    tokenizer: &Tokenizer,
    special: Special,
    dtype: Dtype,
    folder: &Path,
) -> Result<()> {
    json::write(&folder.join("config.json"), &model(config, special, dtype)?)?;
    json::write(&folder.join("generation_config.json"), &generation(tokenizer, special))
}

fn model(config: &ModelConfig, special: Special, dtype: Dtype) -> Result<Value> {
    let (model_type, class) = match config.family {
        Family::Llama => ("llama", "LlamaForCausalLM"),
        Family::Qwen2 => ("qwen2", "Qwen2ForCausalLM"),
        Family::Qwen3 => ("qwen3", "Qwen3ForCausalLM"),
        Family::Qwen3Moe => ("qwen3_moe", "Qwen3MoeForCausalLM"),
        Family::GptOss => {
            return Err(Error::file(
                &config.path,
                "general.architecture",
                "gpt-oss is not exported: its folders hold mxfp4, and not dequantized weights",
            ));
        }
    };
    let mut value = json!({
        "architectures": [class],
        "model_type": model_type,
        "hidden_act": "silu",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab_size,
        "rms_norm_eps": shortest(config.rms_norm_eps),
        "max_position_embeddings": config.max_context,
        "rope_theta": shortest(config.rope.base),
        "rope_scaling": rope_scaling(config)?,
        "tie_word_embeddings": config.tied_embeddings.unwrap_or(false),
        "bos_token_id": special.bos,
        "eos_token_id": special.eos,
        "pad_token_id": special.padding,
        "torch_dtype": dtype.name(),
    });
    if let Some(experts) = &config.experts {
        value["num_experts"] = experts.count.into();
        value["num_experts_per_tok"] = experts.per_token.into();
        value["moe_intermediate_size"] = experts.width.into();
        value["norm_topk_prob"] = (experts.scores == Scores::OfAll { normalized: true }).into();
        value["decoder_sparse_step"] = experts.step.into();
        value["mlp_only_layers"] = experts.dense_layers.clone().into();
    }
    Ok(value)
}

/// All tokens that end a generation, that of a sequence first.
fn generation(tokenizer: &Tokenizer, special: Special) -> Value {
    let others = tokenizer.eos_ids().filter(|id| Some(*id) != special.eos);
    let eos: Vec<u32> = special.eos.into_iter().chain(others).collect();
    let mut value = json!({"eos_token_id": eos});
    let optional =
        [("bos_token_id", special.bos), ("pad_token_id", special.padding.or(special.eos))];
    for (field, id) in optional {
        if let Some(id) = id {
            value[field] = id.into();
        }
    }
    value
}

/// The float64 with the fewest digits that is `x` in float32: 1e-5 and not 9.999999747378752e-6.
fn shortest(x: f32) -> f64 {
    x.to_string().parse().unwrap_or_else(|_| f64::from(x))
}

fn rope_scaling(config: &ModelConfig) -> Result<Value> {
    let scaling = match &config.rope.scaling {
        RopeScaling::Factors(factors) => &llama3(config, factors)?,
        other => other,
    };
    Ok(match scaling {
        RopeScaling::Linear(factor) => {
            let factor = shortest(*factor);
            json!({"rope_type": "linear", "type": "linear", "factor": factor})
        }
        RopeScaling::Llama3 { factor, low, high, original_context } => json!({
            "rope_type": "llama3",
            "factor": shortest(*factor),
            "low_freq_factor": shortest(*low),
            "high_freq_factor": shortest(*high),
            "original_max_position_embeddings": *original_context as u64,
        }),
        RopeScaling::Yarn(yarn) => json!({
            "rope_type": "yarn",
            "factor": shortest(yarn.factor),
            "original_max_position_embeddings": yarn.original_context as u64,
            "beta_fast": shortest(yarn.beta_fast),
            "beta_slow": shortest(yarn.beta_slow),
        }),
        RopeScaling::None | RopeScaling::Factors(_) => Value::Null,
    })
}

/// The parameters that a list of divisors was made from. Llama 3 and its kin differ in the factor, which
/// divides the lowest frequency, and in the first context, a power of two.
fn llama3(config: &ModelConfig, factors: &[f32]) -> Result<RopeScaling> {
    let base = config.rope.base;
    let frequencies = |scaling: RopeScaling| {
        RopeConfig { base, traditional: false, scaling }
            .inverse_frequencies(config.head_dim)
            .unwrap_or_default()
    };
    let wanted = frequencies(RopeScaling::Factors(factors.to_vec()));
    let factor = factors.iter().copied().fold(1.0, f32::max);
    let with =
        |original_context| RopeScaling::Llama3 { factor, low: 1.0, high: 4.0, original_context };
    let close = |(a, b): (f32, &f32)| (a / b - 1.0).abs() < 1e-4;
    let fits = |guess: &RopeScaling| frequencies(guess.clone()).into_iter().zip(&wanted).all(close);
    let contexts = std::iter::once(8192.0).chain((5..20).map(|n| 2f32.powi(n)));
    contexts.map(with).find(fits).ok_or_else(|| {
        Error::file(
            &config.path,
            "rope_freqs.weight",
            "these frequencies are not Llama 3's, and config.json has no name for others",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::preset;

    /// A model whose frequencies are divided by `factors`.
    fn divided(factors: Vec<f32>) -> ModelConfig {
        let config = preset("qwen3-0.6b").unwrap();
        let rope =
            RopeConfig { base: 5e5, traditional: true, scaling: RopeScaling::Factors(factors) };
        ModelConfig { family: Family::Llama, head_dim: 64, rope, ..config }
    }

    #[test]
    fn divisors_become_llama3s_parameters_again() {
        let llama32 =
            RopeScaling::Llama3 { factor: 32.0, low: 1.0, high: 4.0, original_context: 8192.0 };
        let plain = |i: usize| 5e5f64.powf(2.0 * i as f64 / 64.0) as f32;
        let rope = RopeConfig { base: 5e5, traditional: false, scaling: llama32 };
        let divisors: Vec<f32> = rope
            .inverse_frequencies(64)
            .unwrap()
            .into_iter()
            .enumerate()
            .map(|(i, x)| x / plain(i))
            .collect();
        let scaling = rope_scaling(&divided(divisors)).unwrap();
        assert_eq!(
            scaling,
            json!({
                "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            })
        );
        let strange = rope_scaling(&divided((1..=32).map(|i| i as f32).collect()));
        assert!(strange.unwrap_err().to_string().contains("rope_freqs.weight: "));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!((shortest(1e-5), shortest(1e6)), (1e-5, 1e6));
    }
}
