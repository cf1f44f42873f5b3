//! The configuration inside a GGUF file's metadata.

use super::{
    ExpertsConfig, Family, ModelConfig, RopeConfig, RopeScaling, Scores, SlidingWindow, Yarn,
};
use crate::{Result, metadata::Metadata};

pub(super) fn read(meta: &Metadata) -> Result<ModelConfig> {
    const ARCHITECTURE: &str = "general.architecture";
    let arch = meta.text(ARCHITECTURE)?.ok_or_else(|| meta.error(ARCHITECTURE, "missing"))?;
    let family = Family::of(arch).ok_or_else(|| meta.error(ARCHITECTURE, Family::unknown(arch)))?;
    let key = |name: &str| format!("{arch}.{name}");
    let hidden_size = meta.need_size(&key("embedding_length"))?;
    let num_heads = meta.need_size(&key("attention.head_count"))?;
    let head_dim = match meta.size(&key("attention.key_length"))? {
        Some(dim) => dim,
        None => hidden_size / num_heads.max(1),
    };
    refuse_partial(meta, arch, head_dim)?;
    let experts = experts(meta, arch, family)?;
    ModelConfig {
        path: meta.path.clone(),
        family,
        hidden_size,
        num_layers: meta.need_size(&key("block_count"))?,
        intermediate_size: feed_forward(meta, arch, experts.as_ref())?,
        experts,
        window: window(meta, arch, family)?,
        num_heads,
        num_kv_heads: meta.size(&key("attention.head_count_kv"))?.unwrap_or(num_heads),
        head_dim,
        vocab_size: vocab_size(meta, arch)?,
        rms_norm_eps: meta.need_float(&key("attention.layer_norm_rms_epsilon"))? as f32,
        max_context: meta.need_size(&key("context_length"))?,
        tied_embeddings: None,
        rope: RopeConfig {
            base: meta.float(&key("rope.freq_base"))?.unwrap_or(10_000.0) as f32,
            // Converters interleave the rows of queries and keys for Llama only.
            traditional: family == Family::Llama,
            scaling: rope_scaling(meta, arch)?,
        },
        quantization: None,
        eos: Vec::new(),
    }
    .check(|name| format!("{arch}.{}", field(name)))
}

/// Keys behind the architecture's name.
fn field(name: &'static str) -> &'static str {
    match name {
        "hidden_size" => "embedding_length",
        "num_layers" => "block_count",
        "intermediate_size" => "feed_forward_length",
        "num_heads" => "attention.head_count",
        "num_kv_heads" => "attention.head_count_kv",
        "head_dim" => "attention.key_length",
        "max_context" => "context_length",
        "rms_norm_eps" => "attention.layer_norm_rms_epsilon",
        "rope_base" => "rope.freq_base",
        "experts.count" => "expert_count",
        "experts.per_token" => "expert_used_count",
        "experts.width" => "expert_feed_forward_length",
        "window" => "attention.sliding_window",
        same => same,
    }
}

/// The experts of the families that have some.
fn experts(meta: &Metadata, arch: &str, family: Family) -> Result<Option<ExpertsConfig>> {
    let scores = match family {
        // Nothing in a file says otherwise: llama.cpp always divides by the sum.
        Family::Qwen3Moe => Scores::OfAll { normalized: true },
        Family::GptOss => Scores::OfPicked,
        Family::Llama | Family::Qwen2 | Family::Qwen3 => return Ok(None),
    };
    let need = |name: &str| meta.need_size(&format!("{arch}.{name}"));
    Ok(Some(ExpertsConfig {
        count: need("expert_count")?,
        per_token: need("expert_used_count")?,
        width: need("expert_feed_forward_length")?,
        scores,
        step: 1,
        dense_layers: Vec::new(),
    }))
}

/// The width of the block that all tokens share; files of mixtures may leave it out, having none.
fn feed_forward(meta: &Metadata, arch: &str, experts: Option<&ExpertsConfig>) -> Result<usize> {
    let key = format!("{arch}.feed_forward_length");
    match (meta.size(&key)?, experts) {
        (Some(width), _) => Ok(width),
        (None, Some(experts)) => Ok(experts.width),
        (None, None) => meta.need_size(&key),
    }
}

/// gpt-oss's window, which every second layer has, beginning with the first.
fn window(meta: &Metadata, arch: &str, family: Family) -> Result<Option<SlidingWindow>> {
    if family != Family::GptOss {
        return Ok(None);
    }
    let tokens = meta.need_size(&format!("{arch}.attention.sliding_window"))?;
    Ok(Some(SlidingWindow { tokens, layers: vec![true, false] }))
}

/// The tokenizer decides where there is one: `vocab_size` is missing in many files.
fn vocab_size(meta: &Metadata, arch: &str) -> Result<usize> {
    const TOKENS: &str = "tokenizer.ggml.tokens";
    let key = format!("{arch}.vocab_size");
    match (meta.size(&key)?, meta.texts(TOKENS)?.map(<[String]>::len)) {
        (Some(size), _) => Ok(size),
        (None, Some(tokens)) => Ok(tokens),
        (None, None) => Err(meta.error(&key, "missing, and there is no tokenizer either")),
    }
}

/// Heads whose parts differ in width, or are rotated in part only, do not run here.
fn refuse_partial(meta: &Metadata, arch: &str, head_dim: usize) -> Result<()> {
    for name in ["attention.value_length", "rope.dimension_count"] {
        let key = format!("{arch}.{name}");
        if let Some(size) = meta.size(&key)?.filter(|size| *size != head_dim) {
            return Err(
                meta.error(&key, format_args!("{size} differs from the head width {head_dim}"))
            );
        }
    }
    Ok(())
}

fn rope_scaling(meta: &Metadata, arch: &str) -> Result<RopeScaling> {
    let key = |name: &str| format!("{arch}.rope.scaling.{name}");
    let kind = key("type");
    match meta.text(&kind)? {
        None | Some("none") => Ok(RopeScaling::None),
        Some("linear") => Ok(RopeScaling::Linear(need_above_zero(meta, &key("factor"))?)),
        Some("yarn") => {
            let or = |name: &str, default| above_zero(meta, &key(name), Some(default));
            Ok(RopeScaling::Yarn(Yarn {
                factor: need_above_zero(meta, &key("factor"))?,
                original_context: or("original_context_length", Yarn::DEFAULT.original_context)?,
                beta_fast: or("yarn_beta_fast", Yarn::DEFAULT.beta_fast)?,
                beta_slow: or("yarn_beta_slow", Yarn::DEFAULT.beta_slow)?,
                ..Yarn::DEFAULT
            }))
        }
        Some(other) => Err(meta.error(
            &kind,
            format_args!("{other:?} is not supported; supported: none, linear, yarn"),
        )),
    }
}

fn need_above_zero(meta: &Metadata, key: &str) -> Result<f32> {
    above_zero(meta, key, None)
}

/// A number above zero: the key's, or `default` if there is one.
fn above_zero(meta: &Metadata, key: &str, default: Option<f32>) -> Result<f32> {
    let number = match (meta.float(key)?, default) {
        (Some(number), _) => number,
        (None, Some(default)) => return Ok(default),
        (None, None) => meta.need_float(key)?,
    };
    match number as f32 {
        kept if kept.is_finite() && kept > 0.0 => Ok(kept),
        _ => Err(meta.error(key, format_args!("{number} must be above zero"))),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::metadata::Value;

    fn smollm(change: Option<(&str, Value)>) -> Result<ModelConfig> {
        let int = Value::Int;
        let mut meta = Metadata::new(
            Path::new("m.gguf"),
            [
                ("general.architecture", Value::Text("llama".into())),
                ("llama.block_count", int(30)),
                ("llama.context_length", int(8192)),
                ("llama.embedding_length", int(576)),
                ("llama.feed_forward_length", int(1536)),
                ("llama.attention.head_count", int(9)),
                ("llama.attention.head_count_kv", int(3)),
                ("llama.rope.freq_base", Value::Float(1e5)),
                ("llama.attention.layer_norm_rms_epsilon", Value::Float(1e-5)),
                ("llama.vocab_size", int(49152)),
                ("llama.rope.dimension_count", int(64)),
            ]
            .map(|(k, v)| (k.to_owned(), v))
            .into(),
        );
        meta.values.extend(change.map(|(k, v)| (k.to_owned(), v)));
        read(&meta)
    }

    #[test]
    fn smollm2() {
        let c = smollm(None).unwrap();
        assert_eq!((c.head_dim, c.num_kv_heads, c.max_context), (64, 3, 8192));
        assert!(c.rope.traditional && c.rope.scaling == RopeScaling::None);
    }

    #[test]
    fn wrong_values_are_refused_by_key() {
        let message = |key: &str, value| smollm(Some((key, value))).unwrap_err().to_string();
        assert!(
            message("general.architecture", Value::Text("mamba".into()))
                .contains("supported: llama")
        );
        assert!(
            message("llama.rope.dimension_count", Value::Int(32)).contains("differs from the head")
        );
        assert!(
            message("llama.attention.head_count_kv", Value::Int(0))
                .starts_with("m.gguf: llama.attention.head_count_kv: 0")
        );
        assert!(message("llama.rope.scaling.type", Value::Text("su".into())).contains("su"));
    }

    fn gpt_oss(change: Option<(&str, Value)>) -> Result<ModelConfig> {
        let int = Value::Int;
        let mut meta = Metadata::new(
            Path::new("m.gguf"),
            [
                ("general.architecture", Value::Text("gpt-oss".into())),
                ("gpt-oss.block_count", int(24)),
                ("gpt-oss.context_length", int(131_072)),
                ("gpt-oss.embedding_length", int(2880)),
                ("gpt-oss.expert_count", int(32)),
                ("gpt-oss.expert_used_count", int(4)),
                ("gpt-oss.expert_feed_forward_length", int(2880)),
                ("gpt-oss.attention.head_count", int(64)),
                ("gpt-oss.attention.head_count_kv", int(8)),
                ("gpt-oss.attention.key_length", int(64)),
                ("gpt-oss.attention.sliding_window", int(128)),
                ("gpt-oss.attention.layer_norm_rms_epsilon", Value::Float(1e-5)),
                ("gpt-oss.rope.freq_base", Value::Float(150_000.0)),
                ("gpt-oss.rope.scaling.type", Value::Text("yarn".into())),
                ("gpt-oss.rope.scaling.factor", Value::Float(32.0)),
                ("gpt-oss.rope.scaling.original_context_length", int(4096)),
                ("gpt-oss.vocab_size", int(201_088)),
            ]
            .map(|(k, v)| (k.to_owned(), v))
            .into(),
        );
        meta.values.extend(change.map(|(k, v)| (k.to_owned(), v)));
        read(&meta)
    }

    #[test]
    fn mixtures_of_experts() {
        let c = gpt_oss(None).unwrap();
        let experts = c.experts.as_ref().unwrap();
        assert_eq!((experts.count, experts.per_token, experts.width), (32, 4, 2880));
        assert_eq!((c.window_of(0), c.window_of(1), c.rope.traditional), (Some(128), None, false));
        assert_eq!(c.rope.scaling, RopeScaling::Yarn(Yarn { factor: 32.0, ..Yarn::DEFAULT }));
        let message = |key: &str, value| gpt_oss(Some((key, value))).unwrap_err().to_string();
        let key = "gpt-oss.expert_used_count";
        assert_eq!(
            message(key, Value::Int(33)),
            "m.gguf: gpt-oss.expert_used_count: 33 of 32 experts cannot be picked"
        );
        let key = "gpt-oss.rope.scaling.yarn_beta_fast";
        assert!(message(key, Value::Float(0.0)).contains("yarn_beta_fast: 0 must be above zero"));
        let key = "gpt-oss.rope.freq_base";
        assert!(message(key, Value::Float(1.0)).ends_with("1 must be above 1 for YaRN"));
    }
}
