//! What config.json says of experts and of attention windows.

use crate::{
    Result,
    config::{ExpertsConfig, Family, Scores, SlidingWindow},
    json::Fields,
};

/// The experts of the families that have some.
pub(super) fn experts(f: &Fields<'_>, family: Family) -> Result<Option<ExpertsConfig>> {
    let per_token = "num_experts_per_tok";
    Ok(Some(match family {
        Family::Qwen3Moe => {
            let count = f.need_size("num_experts")?;
            if count == 0 {
                return Ok(None);
            }
            ExpertsConfig {
                count,
                per_token: f.need_size(per_token)?,
                width: f.need_size("moe_intermediate_size")?,
                scores: Scores::OfAll { normalized: f.bool("norm_topk_prob")?.unwrap_or(false) },
                step: f.size("decoder_sparse_step")?.unwrap_or(1),
                dense_layers: f.sizes("mlp_only_layers")?,
            }
        }
        Family::GptOss => ExpertsConfig {
            count: f.need_size("num_local_experts")?,
            per_token: f.size(per_token)?.unwrap_or(4),
            width: f.need_size("intermediate_size")?,
            scores: Scores::OfPicked,
            step: 1,
            dense_layers: Vec::new(),
        },
        Family::Llama | Family::Qwen2 | Family::Qwen3 => return Ok(None),
    }))
}

/// The layers that see only the last tokens: gpt-oss's.
pub(super) fn window(f: &Fields<'_>, family: Family) -> Result<Option<SlidingWindow>> {
    match family {
        Family::GptOss => sliding_window(f).map(Some),
        _ => refuse_sliding_window(f).map(|()| None),
    }
}

/// gpt-oss's window, and the layers that have it: every second one unless `layer_types` says others.
fn sliding_window(f: &Fields<'_>) -> Result<SlidingWindow> {
    let tokens = f.size("sliding_window")?.unwrap_or(128);
    let layers = match f.texts("layer_types")? {
        None => vec![true, false],
        Some(kinds) => {
            let count = f.need_size("num_hidden_layers")?;
            if kinds.len() != count {
                let message = format!("lists {} of {count} layers", kinds.len());
                return Err(f.error("layer_types", message));
            }
            kinds.iter().map(|kind| windowed(f, kind)).collect::<Result<_>>()?
        }
    };
    Ok(SlidingWindow { tokens, layers })
}

fn windowed(f: &Fields<'_>, kind: &str) -> Result<bool> {
    match kind {
        "sliding_attention" => Ok(true),
        "full_attention" => Ok(false),
        other => Err(f.error(
            "layer_types",
            format_args!("{other:?} is neither \"sliding_attention\" nor \"full_attention\""),
        )),
    }
}

/// Other families' windows do not run here, unless they are as long as the context.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use mlx::ops::FpMode;
    use serde_json::{Value, json};

    use super::*;
    use crate::config::{
        Format, ModelConfig, RopeScaling, Yarn,
        hf::{parse, tests::base},
    };

    fn gpt_oss(field: &str, value: Value) -> Result<ModelConfig> {
        let mut config = json!({
            "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 4,
            "intermediate_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8,
            "head_dim": 64, "vocab_size": 201088, "rms_norm_eps": 1e-5, "rope_theta": 150000,
            "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128,
            "max_position_embeddings": 131072, "tie_word_embeddings": false,
            "layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention"],
            "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
            "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0,
                "beta_slow": 1.0, "truncate": false, "original_max_position_embeddings": 4096},
        });
        config[field] = value;
        parse(Path::new("c.json"), &config)
    }

    #[test]
    fn gpt_oss_has_experts_windows_and_yarn() {
        let c = gpt_oss("eos_token_id", json!(200_002)).unwrap();
        let experts = c.experts.clone().unwrap();
        assert_eq!((experts.count, experts.per_token, experts.width), (32, 4, 2880));
        assert_eq!((experts.scores, experts.are_in(0)), (Scores::OfPicked, true));
        assert_eq!([0, 1, 2, 3].map(|i| c.window_of(i)), [None, Some(128), None, None]);
        assert_eq!(c.rope.scaling, RopeScaling::Yarn(Yarn { factor: 32.0, ..Yarn::DEFAULT }));
        let mxfp4 = Some(Format::Floats(FpMode::Mxfp4));
        assert_eq!(c.quantization.unwrap().of("model.layers.0.mlp.experts.up_proj"), mxfp4);
        let by_default = gpt_oss("layer_types", Value::Null).unwrap();
        assert_eq!([0, 1, 3].map(|i| by_default.window_of(i)), [Some(128), None, None]);

        let message = |field, value| gpt_oss(field, value).unwrap_err().to_string();
        assert_eq!(
            message("layer_types", json!(["full_attention"])),
            "c.json: layer_types: lists 1 of 4 layers"
        );
        let kinds = json!(["full_attention", "full_attention", "full_attention", "mamba"]);
        assert!(message("layer_types", kinds).contains("\"mamba\" is neither"));
        assert!(message("layer_types", json!([1])).contains("expected a list of strings"));
        assert!(message("num_experts_per_tok", json!(33)).contains("33 of 32 experts"));
        assert!(message("num_local_experts", json!(0)).contains("0 is no possible size"));
        assert!(message("sliding_window", json!(0)).contains("sliding_window: 0 is no possible"));
        assert!(
            message("rope_scaling", json!({"type": "yarn", "factor": 2, "mscale": -1}))
                .contains("rope_scaling.mscale: -1 must not be negative")
        );
    }

    #[test]
    fn qwen3_moe_has_experts_in_some_layers() {
        let mut config = base();
        config["model_type"] = json!("qwen3_moe");
        config["num_experts"] = json!(128);
        config["num_experts_per_tok"] = json!(8);
        config["moe_intermediate_size"] = json!(768);
        config["norm_topk_prob"] = json!(true);
        config["decoder_sparse_step"] = json!(2);
        config["mlp_only_layers"] = json!([3]);
        let read = |config: &Value| parse(Path::new("c.json"), config);
        let c = read(&config).unwrap();
        let layers: Vec<usize> = (0..8).filter(|i| c.experts_of(*i).is_some()).collect();
        assert_eq!((layers, c.family.has_qk_norm()), (vec![1, 5, 7], true));
        assert_eq!(c.experts.unwrap().scores, Scores::OfAll { normalized: true });
        config["mlp_only_layers"] = json!([-1]);
        let text = read(&config).unwrap_err().to_string();
        assert_eq!(text, "c.json: mlp_only_layers: expected a list of non-negative integers");
        config["mlp_only_layers"] = Value::Null;
        config["num_experts"] = json!(0);
        assert_eq!(read(&config).unwrap().experts, None);
    }
}
