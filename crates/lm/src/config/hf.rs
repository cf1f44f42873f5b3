//! `config.json` of Hugging Face and MLX model folders.

use std::path::Path;

use super::{Family, ModelConfig, QuantizationConfig, RopeConfig, RopeScaling};
use crate::{
    Result,
    json::{self, Fields},
};

pub(super) fn read(path: &Path) -> Result<ModelConfig> {
    parse(path, &json::read(path)?)
}

fn parse(path: &Path, value: &serde_json::Value) -> Result<ModelConfig> {
    let f = Fields::new(path, value)?;
    let model_type = f.text("model_type")?.ok_or_else(|| f.error("model_type", "missing"))?;
    let family =
        Family::of(model_type).ok_or_else(|| f.error("model_type", Family::unknown(model_type)))?;
    refuse_sliding_window(&f)?;
    let hidden_size = f.need_size("hidden_size")?;
    let num_heads = f.need_size("num_attention_heads")?;
    let rope = RopeConfig {
        base: rope_base(&f)?,
        traditional: f.bool("rope_traditional")?.unwrap_or(false),
        scaling: rope_scaling(&f)?,
    };
    ModelConfig {
        path: path.to_owned(),
        family,
        hidden_size,
        num_layers: f.need_size("num_hidden_layers")?,
        intermediate_size: f.need_size("intermediate_size")?,
        num_heads,
        num_kv_heads: f.size("num_key_value_heads")?.unwrap_or(num_heads),
        head_dim: f.size("head_dim")?.unwrap_or(hidden_size / num_heads.max(1)),
        vocab_size: f.need_size("vocab_size")?,
        rms_norm_eps: f.float("rms_norm_eps")?.unwrap_or(1e-6) as f32,
        max_context: f.size("max_position_embeddings")?.unwrap_or(2048),
        // The default of the model class: absent means untied for Llama and Qwen alike.
        tied_embeddings: f.bool("tie_word_embeddings")?,
        rope,
        quantization: QuantizationConfig::read(&f)?,
        eos: f.tokens("eos_token_id")?,
    }
    .check(|name| field(name).to_owned())
}

/// Names in config.json.
fn field(name: &'static str) -> &'static str {
    match name {
        "num_layers" => "num_hidden_layers",
        "num_heads" => "num_attention_heads",
        "num_kv_heads" => "num_key_value_heads",
        "max_context" => "max_position_embeddings",
        "rope_base" => "rope_theta",
        same => same,
    }
}

/// A window shorter than the context would need a rotating cache.
fn refuse_sliding_window(f: &Fields<'_>) -> Result<()> {
    let window = f.size("sliding_window")?;
    let used = f.bool("use_sliding_window")?.unwrap_or(true);
    let context = f.size("max_position_embeddings")?.unwrap_or(usize::MAX);
    match window {
        Some(window) if used && window < context => Err(f.error(
            "sliding_window",
            format_args!("{window}: attention windows are not supported"),
        )),
        _ => Ok(()),
    }
}

fn rope_base(f: &Fields<'_>) -> Result<f32> {
    let nested = f.object("rope_parameters")?.map(|p| p.float("rope_theta")).transpose()?.flatten();
    Ok(f.float("rope_theta")?.or(nested).unwrap_or(10_000.0) as f32)
}

/// `rope_scaling`, or `rope_parameters` of newer files.
fn rope_scaling(f: &Fields<'_>) -> Result<RopeScaling> {
    let block = match f.object("rope_scaling")? {
        Some(block) => block,
        None => match f.object("rope_parameters")? {
            Some(block) => block,
            None => return Ok(RopeScaling::None),
        },
    };
    let kind = match block.text("rope_type")? {
        Some(kind) => kind,
        None => block.text("type")?.unwrap_or("default"),
    };
    let need = |field: &str| -> Result<f32> {
        let number = block.float(field)?.ok_or_else(|| block.error(field, "missing"))?;
        match number.is_finite() && number > 0.0 {
            true => Ok(number as f32),
            false => Err(block.error(field, format_args!("{number} must be above zero"))),
        }
    };
    match kind {
        "default" => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear(need("factor")?)),
        "llama3" => Ok(RopeScaling::Llama3 {
            factor: need("factor")?,
            low: need("low_freq_factor")?,
            high: need("high_freq_factor")?,
            original_context: need("original_max_position_embeddings")?,
        }),
        other => Err(block.error(
            "rope_type",
            format_args!("{other:?} is not supported; supported: default, linear, llama3"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::Quantization;

    fn base() -> Value {
        json!({
            "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28,
            "intermediate_size": 3072, "num_attention_heads": 16, "num_key_value_heads": 8,
            "head_dim": 128, "vocab_size": 151936, "rms_norm_eps": 1e-6,
            "rope_theta": 1000000, "max_position_embeddings": 40960, "sliding_window": null,
            "tie_word_embeddings": true, "eos_token_id": [151645, 151643], "rope_scaling": null,
        })
    }

    fn with(field: &str, value: Value) -> Result<ModelConfig> {
        let mut config = base();
        config[field] = value;
        parse(Path::new("c.json"), &config)
    }

    fn message(field: &str, value: Value) -> String {
        with(field, value).unwrap_err().to_string()
    }

    #[test]
    fn qwen3() {
        let c = parse(Path::new("c.json"), &base()).unwrap();
        assert_eq!((c.family, c.head_dim, c.rope.base), (Family::Qwen3, 128, 1e6));
        assert_eq!(c.eos, [151645, 151643]);
        assert_eq!(c.quantization, None);
        assert!((c.num_parameters() as f64 / 0.596e9 - 1.0).abs() < 0.01);
    }

    #[test]
    fn head_dim_follows_when_absent() {
        assert_eq!(with("head_dim", Value::Null).unwrap().head_dim, 64);
    }

    #[test]
    fn quantization_with_exceptions() {
        let block = json!({"group_size": 64, "bits": 4, "lm_head": false,
            "model.layers.0.mlp.down_proj": {"group_size": 32, "bits": 8}});
        let q = with("quantization", block).unwrap().quantization.unwrap();
        assert_eq!(q.of("x"), Some(Quantization { group_size: 64, bits: 4 }));
        assert_eq!(q.of("lm_head"), None);
        let eight = Quantization { group_size: 32, bits: 8 };
        assert_eq!(q.of("model.layers.0.mlp.down_proj"), Some(eight));
        assert_eq!(
            message("quantization", json!({"group_size": 64, "bits": 7})),
            "c.json: quantization.bits: 7 is not one of 2, 3, 4, 5, 6, 8"
        );
        assert!(message("quantization_config", json!({"quant_method": "gptq"})).contains("gptq"));
    }

    #[test]
    fn rope_scaling_kinds() {
        let linear = with("rope_scaling", json!({"type": "linear", "factor": 4.0})).unwrap();
        assert_eq!(linear.rope.scaling, RopeScaling::Linear(4.0));
        let missing = message("rope_scaling", json!({"rope_type": "llama3", "factor": 8.0}));
        assert_eq!(missing, "c.json: rope_scaling.low_freq_factor: missing");
        assert!(
            message("rope_scaling", json!({"type": "yarn"})).contains("supported: default, linear")
        );
    }

    #[test]
    fn wrong_values_are_refused_by_field() {
        assert!(
            message("model_type", json!("bert"))
                .contains("supported: llama, mistral, qwen2, qwen3")
        );
        assert_eq!(
            message("hidden_size", json!("a")),
            "c.json: hidden_size: expected a non-negative integer"
        );
        assert_eq!(
            message("num_hidden_layers", json!(0)),
            "c.json: num_hidden_layers: 0 is no possible size"
        );
        assert!(message("num_key_value_heads", json!(5)).contains("does not divide"));
        assert!(message("num_attention_heads", json!(0)).contains("num_attention_heads"));
        assert!(message("sliding_window", json!(4096)).contains("not supported"));
    }
}
