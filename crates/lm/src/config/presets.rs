//! Shapes of models whose weights need not be there: for benchmarks with random ones.

use std::path::PathBuf;

use super::{Family, ModelConfig, RopeConfig, RopeScaling};

/// Names that [`preset`] knows.
pub const PRESETS: [&str; 5] = ["qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b", "qwen3-tiny"];

/// The configuration of a well-known model; sizes may be given without the family's name. `tiny`
/// has the layers of the smallest one and next to no weights: what it takes is the runtime's own time.
pub fn preset(name: &str) -> Option<ModelConfig> {
    let size = name.strip_prefix("qwen3-").unwrap_or(name);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_the_models() {
        let billions = [0.596, 1.72, 4.02, 8.19, 0.0176];
        for (name, want) in PRESETS.into_iter().zip(billions) {
            let got = preset(name).unwrap().num_parameters() as f64 / 1e9;
            assert!((got / want - 1.0).abs() < 0.01, "{name}: {got}");
        }
        assert_eq!(preset("8b"), preset("qwen3-8b"));
        assert_eq!(preset("9b"), None);
    }
}
