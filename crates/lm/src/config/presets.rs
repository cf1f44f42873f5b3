//! Shapes of models whose weights need not be there: for benchmarks with random ones.

use std::path::PathBuf;

use super::{
    ExpertsConfig, Family, ModelConfig, RopeConfig, RopeScaling, Scores, SlidingWindow, Yarn,
};

/// Names that [`preset`] knows.
pub const PRESETS: [&str; 12] = [
    "qwen2.5-0.5b",
    "qwen2.5-7b",
    "qwen3-0.6b",
    "qwen3-1.7b",
    "qwen3-4b",
    "qwen3-8b",
    "qwen3-30b-a3b",
    "gpt-oss-20b",
    "qwen2.5-tiny",
    "qwen3-tiny",
    "qwen3-moe-tiny",
    "gpt-oss-tiny",
];

/// The configuration of a well-known model; Qwen3's sizes may be given without the family's name. Those named
/// `tiny` have the layers of the smallest one, or a few, and next to no weights: what they take is the
/// runtime's own time.
pub fn preset(name: &str) -> Option<ModelConfig> {
    if let Some(size) = name.strip_prefix("gpt-oss-") {
        return gpt_oss(size);
    }
    if let Some(size) = name.strip_prefix("qwen2.5-") {
        return qwen2(size);
    }
    let size = name.strip_prefix("qwen3-").unwrap_or(name);
    qwen3(size).or_else(|| qwen3_moe(size))
}

fn qwen2(size: &str) -> Option<ModelConfig> {
    let (hidden_size, intermediate_size, num_layers, heads, vocab_size) = match size {
        "0.5b" => (896, 4864, 24, [14, 2, 64], 151_936),
        "7b" => (3584, 18_944, 28, [28, 4, 128], 152_064),
        "tiny" => (128, 256, 28, [8, 2, 64], 1024),
        _ => return None,
    };
    let [num_heads, num_kv_heads, head_dim] = heads;
    Some(ModelConfig {
        path: PathBuf::from(format!("preset qwen2.5-{size}")),
        family: Family::Qwen2,
        hidden_size,
        num_layers,
        intermediate_size,
        num_heads,
        num_kv_heads,
        head_dim,
        vocab_size,
        max_context: 32_768,
        tied_embeddings: Some(size != "7b"),
        ..qwen3("0.6b")?
    })
}

fn qwen3(size: &str) -> Option<ModelConfig> {
    let (hidden_size, intermediate_size, num_layers, num_heads, tied) = match size {
        "0.6b" => (1024, 3072, 28, 16, true),
        "1.7b" => (2048, 6144, 28, 16, true),
        "4b" => (2560, 9728, 36, 32, true),
        "8b" => (4096, 12288, 36, 32, false),
        "tiny" => (128, 256, 28, 8, true),
        _ => return None,
    };
    Some(ModelConfig {
        path: PathBuf::from(format!("preset qwen3-{size}")),
        family: Family::Qwen3,
        hidden_size,
        num_layers,
        intermediate_size,
        experts: None,
        window: None,
        num_heads,
        num_kv_heads: 8,
        head_dim: 128,
        vocab_size: if size == "tiny" { 1024 } else { 151_936 },
        rms_norm_eps: 1e-6,
        max_context: 40_960,
        tied_embeddings: Some(tied),
        rope: RopeConfig { base: 1e6, traditional: false, scaling: RopeScaling::None },
        quantization: None,
        eos: vec![151_645, 151_643],
    })
}

/// Qwen3 with experts in every layer.
fn qwen3_moe(size: &str) -> Option<ModelConfig> {
    let experts = |count, per_token, width| ExpertsConfig {
        count,
        per_token,
        width,
        scores: Scores::OfAll { normalized: true },
        step: 1,
        dense_layers: Vec::new(),
    };
    let (like, experts) = match size {
        "30b-a3b" => ("1.7b", experts(128, 8, 768)),
        "moe-tiny" => ("tiny", experts(16, 4, 64)),
        _ => return None,
    };
    let large = size == "30b-a3b";
    let base = qwen3(like)?;
    Some(ModelConfig {
        path: PathBuf::from(format!("preset qwen3-{size}")),
        family: Family::Qwen3Moe,
        experts: Some(experts),
        num_layers: if large { 48 } else { 4 },
        num_heads: if large { 32 } else { base.num_heads },
        num_kv_heads: 4,
        tied_embeddings: Some(!large),
        ..base
    })
}

fn gpt_oss(size: &str) -> Option<ModelConfig> {
    let (width, num_layers, num_heads, num_kv_heads, count, vocab_size) = match size {
        "20b" => (2880, 24, 64, 8, 32, 201_088),
        "tiny" => (128, 4, 8, 2, 8, 1024),
        _ => return None,
    };
    let yarn = Yarn { factor: 32.0, ..Yarn::DEFAULT };
    Some(ModelConfig {
        path: PathBuf::from(format!("preset gpt-oss-{size}")),
        family: Family::GptOss,
        hidden_size: width,
        num_layers,
        intermediate_size: width,
        experts: Some(ExpertsConfig {
            count,
            per_token: 4,
            width,
            scores: Scores::OfPicked,
            step: 1,
            dense_layers: Vec::new(),
        }),
        window: Some(SlidingWindow { tokens: 128, layers: vec![true, false] }),
        num_heads,
        num_kv_heads,
        head_dim: 64,
        vocab_size,
        rms_norm_eps: 1e-5,
        max_context: 131_072,
        tied_embeddings: Some(false),
        rope: RopeConfig { base: 150_000.0, traditional: false, scaling: RopeScaling::Yarn(yarn) },
        quantization: None,
        eos: vec![200_002, 199_999, 200_012],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_the_models() {
        let billions = [
            0.494, 7.615, 0.596, 1.72, 4.02, 8.19, 30.53, 20.91, 0.007478, 0.0176, 0.003286,
            0.002496,
        ];
        for (name, want) in PRESETS.into_iter().zip(billions) {
            let got = preset(name).unwrap().num_parameters() as f64 / 1e9;
            assert!((got / want - 1.0).abs() < 0.01, "{name}: {got}");
        }
        assert_eq!(preset("8b"), preset("qwen3-8b"));
        assert_eq!(preset("9b"), None);
    }
}
