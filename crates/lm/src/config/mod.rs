//! What a model file says about its model: the same [`ModelConfig`] from `config.json` and GGUF.

mod experts;
mod gguf;
mod hf;
mod presets;
mod quantization;
mod rope;

use std::path::{Path, PathBuf};

pub use self::{
    experts::{ExpertsConfig, Scores, SlidingWindow},
    presets::{PRESETS, preset},
    quantization::{Format, Quantization, QuantizationConfig},
    rope::{RopeConfig, RopeScaling, Yarn},
};
use crate::{Error, Result};

/// Families of models that run here. They share one transformer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Llama, and what was built like it: SmolLM, TinyLlama, Mistral.
    Llama,
    /// Qwen 2 and 2.5: biases on queries, keys and values.
    Qwen2,
    /// Qwen 3: normalized queries and keys.
    Qwen3,
    /// Qwen 3 with a mixture of experts.
    Qwen3Moe,
    /// gpt-oss: a mixture of experts, biases everywhere, attention with sinks, every second layer with a
    /// window.
    GptOss,
}

/// `model_type` of config.json and `general.architecture` of GGUF, with the family they mean.
const ARCHITECTURES: [(&str, Family); 8] = [
    ("llama", Family::Llama),
    ("mistral", Family::Llama),
    ("qwen2", Family::Qwen2),
    ("qwen3", Family::Qwen3),
    ("qwen3_moe", Family::Qwen3Moe),
    ("qwen3moe", Family::Qwen3Moe),
    ("gpt_oss", Family::GptOss),
    ("gpt-oss", Family::GptOss),
];

impl Family {
    /// The family of an architecture's name.
    pub fn of(architecture: &str) -> Option<Family> {
        ARCHITECTURES.iter().find(|(name, _)| *name == architecture).map(|(_, family)| *family)
    }

    /// Whether queries and keys are normalized per head.
    pub fn has_qk_norm(self) -> bool {
        matches!(self, Family::Qwen3 | Family::Qwen3Moe)
    }

    /// Whether every head has a sink, which takes its share of attention.
    pub fn has_sinks(self) -> bool {
        self == Family::GptOss
    }

    /// Whether activations leave float16's range.
    pub fn leaves_float16(self) -> bool {
        self != Family::Llama
    }

    /// Message about an architecture that does not run here.
    fn unknown(architecture: &str) -> String {
        let known: Vec<&str> = ARCHITECTURES.iter().map(|(name, _)| *name).collect();
        format!("unknown architecture {architecture:?}; supported: {}", known.join(", "))
    }
}

/// Shape of a transformer and everything else that is not a weight.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// File the values came from, for messages.
    pub path: PathBuf,
    /// Architecture.
    pub family: Family,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Number of layers.
    pub num_layers: usize,
    /// Width inside the feed-forward block.
    pub intermediate_size: usize,
    /// Experts in place of one feed-forward block, if there are any.
    pub experts: Option<ExpertsConfig>,
    /// Layers that see only the last tokens, if there are any.
    pub window: Option<SlidingWindow>,
    /// Number of query heads.
    pub num_heads: usize,
    /// Number of key and value heads.
    pub num_kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// Epsilon of the norms.
    pub rms_norm_eps: f32,
    /// Longest sequence the model was made for, in tokens.
    pub max_context: usize,
    /// Whether the embedding is the output head too; `None` if the file leaves it to the weights.
    pub tied_embeddings: Option<bool>,
    /// Rotary position embedding.
    pub rope: RopeConfig,
    /// Quantization that config.json declares; the weights must agree.
    pub quantization: Option<QuantizationConfig>,
    /// Tokens that end a generation.
    pub eos: Vec<u32>,
}

impl ModelConfig {
    /// Checks what every value must satisfy, whatever the weights are. `field` maps the name of
    /// a value here to its name in the file.
    fn check(self, field: impl Fn(&'static str) -> String) -> Result<Self> {
        let window = self.window.as_ref().map_or(1, |window| window.tokens);
        let sizes = [
            ("window", window),
            ("hidden_size", self.hidden_size),
            ("num_layers", self.num_layers),
            ("intermediate_size", self.intermediate_size),
            ("num_heads", self.num_heads),
            ("num_kv_heads", self.num_kv_heads),
            ("head_dim", self.head_dim),
            ("vocab_size", self.vocab_size),
            ("max_context", self.max_context),
        ];
        for (name, size) in sizes {
            if !(1..1 << 31).contains(&size) {
                return Err(Error::file(
                    &self.path,
                    field(name),
                    format_args!("{size} is no possible size"),
                ));
            }
        }
        if let Some(Err((name, message))) = self.experts.as_ref().map(ExpertsConfig::check) {
            return Err(Error::file(&self.path, field(name), message));
        }
        let wrong = |name, message: String| Err(Error::file(&self.path, field(name), message));
        let (heads, kv) = (self.num_heads, self.num_kv_heads);
        if !heads.is_multiple_of(kv) {
            return wrong("num_kv_heads", format!("{kv} does not divide the {heads} heads"));
        }
        if !self.head_dim.is_multiple_of(2) {
            return wrong("head_dim", format!("{} is odd", self.head_dim));
        }
        if !(self.rms_norm_eps.is_finite() && self.rms_norm_eps >= 0.0) {
            return wrong("rms_norm_eps", format!("{} is no possible epsilon", self.rms_norm_eps));
        }
        if !(self.rope.base.is_finite() && self.rope.base > 0.0) {
            return wrong("rope_base", format!("{} is no possible base", self.rope.base));
        }
        // YaRN divides by its logarithm.
        if matches!(self.rope.scaling, RopeScaling::Yarn(_)) && self.rope.base <= 1.0 {
            return wrong("rope_base", format!("{} must be above 1 for YaRN", self.rope.base));
        }
        Ok(self)
    }

    /// The file's name of the number of layers.
    pub(crate) fn layers_field(&self) -> &'static str {
        match self.path.extension().is_some_and(|e| e == "json") {
            true => "num_hidden_layers",
            false => "block_count",
        }
    }

    /// The file's name of the longest sequence.
    pub(crate) fn context_field(&self) -> &'static str {
        match self.path.extension().is_some_and(|e| e == "json") {
            true => "max_position_embeddings",
            false => "context_length",
        }
    }

    /// Number of parameters, counting tied embeddings once.
    pub fn num_parameters(&self) -> usize {
        let queries = self.num_heads * self.head_dim;
        let values = self.num_kv_heads * self.head_dim;
        let attention = 2 * self.hidden_size * (queries + values);
        let embeddings = if self.tied_embeddings == Some(true) { 1 } else { 2 };
        let blocks: usize = (0..self.num_layers).map(|layer| self.feed_forward(layer)).sum();
        self.num_layers * (attention + 2 * self.hidden_size)
            + blocks
            + embeddings * self.vocab_size * self.hidden_size
            + self.hidden_size
    }
}

impl ModelConfig {
    /// Number of parameters of a layer's feed-forward block, without biases.
    fn feed_forward(&self, layer: usize) -> usize {
        match self.experts_of(layer) {
            Some(experts) => experts.count * self.hidden_size * (3 * experts.width + 1),
            None => 3 * self.hidden_size * self.intermediate_size,
        }
    }

    /// What attention multiplies scores with.
    pub fn attention_scale(&self) -> f32 {
        self.rope.sharpening() * (self.head_dim as f32).sqrt().recip()
    }

    /// The experts of a layer, counted from zero, if it has some.
    pub fn experts_of(&self, layer: usize) -> Option<&ExpertsConfig> {
        self.experts.as_ref().filter(|experts| experts.are_in(layer))
    }

    /// Tokens that a layer, counted from zero, sees, if not all.
    pub fn window_of(&self, layer: usize) -> Option<usize> {
        self.window.as_ref().and_then(|window| window.of(layer))
    }
}

/// Reads the `config.json` of a model folder.
///
/// # Errors
/// When the file is missing or damaged, or describes a model that does not run here.
pub fn from_folder(folder: &Path) -> Result<ModelConfig> {
    hf::read(&folder.join("config.json"))
}

/// End tokens of a folder's `generation_config.json`; none where there is no such file.
///
/// # Errors
/// When the file is damaged.
pub fn generation_eos(folder: &Path) -> Result<Vec<u32>> {
    let path = folder.join("generation_config.json");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let value: serde_json::Value = crate::json::read(&path)?;
    crate::json::Fields::new(&path, &value)?.tokens("eos_token_id")
}

/// Reads the configuration out of a GGUF file's metadata.
///
/// # Errors
/// When a value is missing or wrong, or describes a model that does not run here.
pub fn from_gguf(meta: &crate::metadata::Metadata) -> Result<ModelConfig> {
    gguf::read(meta)
}
