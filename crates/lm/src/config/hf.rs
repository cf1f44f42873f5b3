//! `config.json` of Hugging Face and MLX model folders.

use std::path::Path;

use super::{
    ExpertsConfig, Family, ModelConfig, QuantizationConfig, RopeConfig, RopeScaling, Scores,
    SlidingWindow, Yarn,
};
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
    let window = match family {
        Family::GptOss => Some(sliding_window(&f)?),
        _ => refuse_sliding_window(&f).map(|()| None)?,
    };
    let hidden_size = f.need_size("hidden_size")?;
    let num_heads = f.need_size("num_attention_heads")?;
    let rope = RopeConfig {
        base: rope_base(&f, family)?,
        traditional: f.bool("rope_traditional")?.unwrap_or(false),
        scaling: rope_scaling(&f)?,
    };
    ModelConfig {
        path: path.to_owned(),
        family,
        hidden_size,
        num_layers: f.need_size("num_hidden_layers")?,
        intermediate_size: f.need_size("intermediate_size")?,
        experts: experts(&f, family)?,
        window,
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
        "experts.count" => "num_experts",
        "experts.per_token" => "num_experts_per_tok",
        "experts.width" => "moe_intermediate_size",
        "experts.step" => "decoder_sparse_step",
        "window" => "sliding_window",
        same => same,
    }
}

/// The experts of the families that have some.
fn experts(f: &Fields<'_>, family: Family) -> Result<Option<ExpertsConfig>> {
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

fn rope_base(f: &Fields<'_>, family: Family) -> Result<f32> {
    let default = if family == Family::GptOss { 150_000.0 } else { 10_000.0 };
    let nested = f.object("rope_parameters")?.map(|p| p.float("rope_theta")).transpose()?.flatten();
    Ok(f.float("rope_theta")?.or(nested).unwrap_or(default) as f32)
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
    let above_zero = |field: &str, number: f64| match number.is_finite() && number > 0.0 {
        true => Ok(number as f32),
        false => Err(block.error(field, format_args!("{number} must be above zero"))),
    };
    let need = |field: &str| -> Result<f32> {
        let number = block.float(field)?.ok_or_else(|| block.error(field, "missing"))?;
        above_zero(field, number)
    };
    let or = |field: &str, default: f32| -> Result<f32> {
        block.float(field)?.map_or(Ok(default), |number| above_zero(field, number))
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
        "yarn" => Ok(RopeScaling::Yarn(Yarn {
            factor: need("factor")?,
            original_context: or(
                "original_max_position_embeddings",
                Yarn::DEFAULT.original_context,
            )?,
            beta_fast: or("beta_fast", Yarn::DEFAULT.beta_fast)?,
            beta_slow: or("beta_slow", Yarn::DEFAULT.beta_slow)?,
            mscale: weight(&block, "mscale", Yarn::DEFAULT.mscale)?,
            mscale_all_dim: weight(&block, "mscale_all_dim", Yarn::DEFAULT.mscale_all_dim)?,
        })),
        other => Err(block.error(
            "rope_type",
            format_args!("{other:?} is not supported; supported: default, linear, llama3, yarn"),
        )),
    }
}

/// A number that may be zero, but not below.
fn weight(block: &Fields<'_>, field: &str, default: f32) -> Result<f32> {
    match block.float(field)? {
        None => Ok(default),
        Some(number) if number.is_finite() && number >= 0.0 => Ok(number as f32),
        Some(number) => Err(block.error(field, format_args!("{number} must not be negative"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::{Format, Quantization};
    use mlx::ops::FpMode;

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
        assert_eq!(q.of("x"), Some(Quantization { group_size: 64, bits: 4 }.into()));
        assert_eq!(q.of("lm_head"), None);
        let eight = Format::Affine(Quantization { group_size: 32, bits: 8 });
        assert_eq!(q.of("model.layers.0.mlp.down_proj"), Some(eight));
        assert_eq!(
            message("quantization", json!({"group_size": 64, "bits": 7})),
            "c.json: quantization.bits: 7 is not one of 2, 3, 4, 5, 6, 8"
        );
        assert!(message("quantization_config", json!({"quant_method": "gptq"})).contains("gptq"));
        assert_eq!(
            message("quantization", json!({"group_size": 64, "bits": 4, "mode": "mxfp4"})),
            "c.json: quantization.mode: mxfp4 has 4 bits in groups of 32, not 4 in groups of 64"
        );
        assert!(
            message("quantization", json!({"group_size": 32, "bits": 4, "mode": "fp2"}))
                .contains("supported: affine, mxfp4")
        );
    }

    #[test]
    fn rope_scaling_kinds() {
        let linear = with("rope_scaling", json!({"type": "linear", "factor": 4.0})).unwrap();
        assert_eq!(linear.rope.scaling, RopeScaling::Linear(4.0));
        let missing = message("rope_scaling", json!({"rope_type": "llama3", "factor": 8.0}));
        assert_eq!(missing, "c.json: rope_scaling.low_freq_factor: missing");
        assert!(
            message("rope_scaling", json!({"type": "su"})).contains("supported: default, linear")
        );
    }

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
