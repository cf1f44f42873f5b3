//! The configuration inside a GGUF file's metadata.

use super::{Family, ModelConfig, RopeConfig, RopeScaling};
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
    ModelConfig {
        path: meta.path.clone(),
        family,
        hidden_size,
        num_layers: meta.need_size(&key("block_count"))?,
        intermediate_size: meta.need_size(&key("feed_forward_length"))?,
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
        same => same,
    }
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
    let (kind, factor) =
        (format!("{arch}.rope.scaling.type"), format!("{arch}.rope.scaling.factor"));
    match meta.text(&kind)? {
        None | Some("none") => Ok(RopeScaling::None),
        Some("linear") => match meta.need_float(&factor)? {
            f if f.is_finite() && f > 0.0 => Ok(RopeScaling::Linear(f as f32)),
            f => Err(meta.error(&factor, format_args!("{f} must be above zero"))),
        },
        Some(other) => {
            Err(meta
                .error(&kind, format_args!("{other:?} is not supported; supported: none, linear")))
        }
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
        assert!(message("llama.rope.scaling.type", Value::Text("yarn".into())).contains("yarn"));
    }
}
