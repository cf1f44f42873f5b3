//! Models in one GGUF file.

use std::{collections::BTreeMap, path::Path};

use mlx::{
    Array, Dtype,
    io::{GgufArray, GgufValue},
};

use super::{LoadOptions, LoadedModel, assemble, template, weights::Weights};
use crate::{
    Error, Result,
    config::{self, Family, ModelConfig, RopeScaling},
    metadata::{Metadata, Value},
    models::Transformer,
    tokenizer::Tokenizer,
};

/// What is in a file.
pub(crate) struct Contents {
    pub(crate) metadata: Metadata,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) model: Transformer,
}

pub(super) fn load(path: &Path, options: &LoadOptions) -> Result<LoadedModel> {
    let compute = |config: &ModelConfig, weights: &Weights| Some(dtype(config, weights, options));
    let Contents { tokenizer, model, .. } = read(path, compute)?;
    let template = template(&tokenizer)?;
    Ok(LoadedModel { model, tokenizer, template })
}

/// The contents of a file with the weights as they are stored.
pub(crate) fn read_stored(path: &Path) -> Result<Contents> {
    read(path, |_, _| None)
}

fn read(
    path: &Path,
    dtype: impl FnOnce(&ModelConfig, &Weights) -> Option<Dtype>,
) -> Result<Contents> {
    let file = mlx::io::load_gguf(path)?;
    let metadata = metadata(path, file.metadata);
    let mut config = config::from_gguf(&metadata)?;
    let tokenizer = Tokenizer::from_gguf(&metadata)?;
    let mut tensors = file.tensors;
    if let Some(factors) = tensors.remove("rope_freqs.weight") {
        config.rope.scaling = frequency_factors(path, &config, &factors)?;
    }
    let family = config.family;
    let mut weights = Weights::new(rename, None);
    weights.add(path, tensors.into_iter().map(|(name, array)| (as_usual(family, name), array)))?;
    if let Some(dtype) = dtype(&config, &weights) {
        weights.set_dtype(dtype);
    }
    let model = assemble::transformer(config, weights)?;
    Ok(Contents { metadata, tokenizer, model })
}

/// The dtype to compute in; see [`LoadOptions::dtype`].
fn dtype(config: &ModelConfig, weights: &Weights, options: &LoadOptions) -> Dtype {
    let stored = weights.stored_dtype("model.embed_tokens").unwrap_or(Dtype::Float32);
    let wide = config.family.leaves_float16() && stored == Dtype::Float16;
    options.dtype.unwrap_or(if wide { Dtype::Bfloat16 } else { stored })
}

/// Llama 3.1's stretched frequencies, which converters store as divisors.
fn frequency_factors(path: &Path, config: &ModelConfig, factors: &Array) -> Result<RopeScaling> {
    let field = "rope_freqs.weight";
    let half = config.head_dim / 2;
    if factors.shape() != [half] || factors.dtype() != Dtype::Float32 {
        let (shape, dtype) = (factors.shape(), factors.dtype());
        let message =
            format!("has shape {shape:?} and dtype {dtype} instead of [{half}] and float32");
        return Err(Error::file(path, field, message));
    }
    let factors: Vec<f32> = factors.to_vec()?;
    match factors.iter().find(|factor| !factor.is_finite() || **factor == 0.0) {
        Some(factor) => Err(Error::file(path, field, format!("{factor} is no possible divisor"))),
        None => Ok(RopeScaling::Factors(factors)),
    }
}

/// From module paths as Hugging Face has them to GGUF's.
fn rename(module: &str) -> String {
    let whole = match module {
        "model.embed_tokens" => "token_embd",
        "model.norm" => "output_norm",
        "lm_head" => "output",
        _ => "",
    };
    let Some(inside) = module.strip_prefix("model.layers.").filter(|_| whole.is_empty()) else {
        return whole.to_owned();
    };
    let (layer, part) = inside.split_once('.').unwrap_or((inside, ""));
    let part = match part {
        "input_layernorm" => ".attn_norm",
        "post_attention_layernorm" => ".ffn_norm",
        "self_attn.q_proj" => ".attn_q",
        "self_attn.k_proj" => ".attn_k",
        "self_attn.v_proj" => ".attn_v",
        "self_attn.o_proj" => ".attn_output",
        "self_attn.q_norm" => ".attn_q_norm",
        "self_attn.k_norm" => ".attn_k_norm",
        "mlp.gate_proj" => ".ffn_gate",
        "mlp.up_proj" => ".ffn_up",
        "mlp.down_proj" => ".ffn_down",
        "self_attn.sinks" => ".attn_sinks",
        "mlp.gate" | "mlp.router" => ".ffn_gate_inp",
        "mlp.switch_mlp.gate_proj" | "mlp.experts.gate_proj" => ".ffn_gate_exps",
        "mlp.switch_mlp.up_proj" | "mlp.experts.up_proj" => ".ffn_up_exps",
        "mlp.switch_mlp.down_proj" | "mlp.experts.down_proj" => ".ffn_down_exps",
        _ => "",
    };
    format!("blk.{layer}{part}")
}

/// gpt-oss's name of the norm before a feed-forward block is its own.
fn as_usual(family: Family, name: String) -> String {
    match name.strip_suffix(".post_attention_norm.weight") {
        Some(layer) if family == Family::GptOss => format!("{layer}.ffn_norm.weight"),
        _ => name,
    }
}

/// The metadata with numbers of all widths widened.
fn metadata(path: &Path, values: BTreeMap<String, GgufValue>) -> Metadata {
    let values = values.into_iter().filter_map(|(key, value)| Some((key, widen(value)?)));
    Metadata::new(path, values.collect())
}

fn widen(value: GgufValue) -> Option<Value> {
    Some(match value {
        GgufValue::Uint8(v) => Value::Int(v.into()),
        GgufValue::Int8(v) => Value::Int(v.into()),
        GgufValue::Uint16(v) => Value::Int(v.into()),
        GgufValue::Int16(v) => Value::Int(v.into()),
        GgufValue::Uint32(v) => Value::Int(v.into()),
        GgufValue::Int32(v) => Value::Int(v.into()),
        // What does not fit is no size either: it becomes a number that no check accepts.
        GgufValue::Uint64(v) => Value::Int(i64::try_from(v).unwrap_or(i64::MIN)),
        GgufValue::Int64(v) => Value::Int(v),
        GgufValue::Float32(v) => Value::Float(v.into()),
        GgufValue::Float64(v) => Value::Float(v),
        GgufValue::Bool(v) => Value::Bool(v),
        GgufValue::String(v) => Value::Text(v),
        GgufValue::Array(array) => widen_array(array)?,
    })
}

fn widen_array(array: GgufArray) -> Option<Value> {
    fn ints<T: Into<i64>>(values: Vec<T>) -> Option<Value> {
        Some(Value::Ints(values.into_iter().map(Into::into).collect()))
    }
    match array {
        GgufArray::Uint8(v) => ints(v),
        GgufArray::Int8(v) => ints(v),
        GgufArray::Uint16(v) => ints(v),
        GgufArray::Int16(v) => ints(v),
        GgufArray::Uint32(v) => ints(v),
        GgufArray::Int32(v) => ints(v),
        GgufArray::Int64(v) => ints(v),
        GgufArray::Uint64(v) => {
            Some(Value::Ints(v.into_iter().map(|v| i64::try_from(v).unwrap_or(i64::MIN)).collect()))
        }
        GgufArray::Bool(v) => ints(v),
        GgufArray::Float32(v) => Some(Value::Floats(v.into_iter().map(f64::from).collect())),
        GgufArray::Float64(v) => Some(Value::Floats(v)),
        GgufArray::String(v) => Some(Value::Texts(v)),
        // Arrays of arrays say nothing that is needed here.
        GgufArray::Array(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_of_frequencies_are_numbers() {
        let config = ModelConfig { head_dim: 4, ..config::preset("qwen3-0.6b").unwrap() };
        let scaling = |factors: [f32; 2]| {
            let factors = Array::from_slice(&factors, &[2]).unwrap();
            frequency_factors(Path::new("m.gguf"), &config, &factors).map_err(|e| e.to_string())
        };
        assert_eq!(scaling([1.0, 8.0]), Ok(RopeScaling::Factors(vec![1.0, 8.0])));
        for (wrong, name) in [(0.0, "0"), (f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
            let message = format!("m.gguf: rope_freqs.weight: {name} is no possible divisor");
            assert_eq!(scaling([1.0, wrong]), Err(message));
        }
    }

    #[test]
    fn modules_have_their_gguf_names() {
        assert_eq!(rename("model.embed_tokens"), "token_embd");
        assert_eq!(rename("lm_head"), "output");
        assert_eq!(rename("model.layers.11.self_attn.o_proj"), "blk.11.attn_output");
        assert_eq!(rename("model.layers.3"), "blk.3");
        assert_eq!(rename("model.layers.3.mlp.switch_mlp.up_proj"), "blk.3.ffn_up_exps");
        let norm = |family| as_usual(family, "blk.3.post_attention_norm.weight".into());
        assert_eq!(norm(Family::GptOss), "blk.3.ffn_norm.weight");
        assert_eq!(norm(Family::Llama), "blk.3.post_attention_norm.weight");
    }
}
