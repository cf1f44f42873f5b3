//! What a decode step may create: nothing. A process of its own, because the counters belong to
//! the process.

use mlx::{Array, Device, Dtype, Result, ops, ops::FpMode, vulkan::stats};
use mlx_vulkan_lm::{
    config::{Format, Quantization, preset},
    load::random_model,
    models::{Cache, Transformer},
};

/// Steps before and while counting. They stay within the first growth of the KV cache.
const WARM: usize = 12;
const COUNTED: usize = 50;

const AFFINE: Format = Format::Affine(Quantization { group_size: 64, bits: 4 });

/// A small model of the family of a preset.
fn model(name: &str, format: Format) -> Transformer {
    let mut config = preset(name).expect("a preset");
    (config.num_layers, config.hidden_size, config.intermediate_size) = (3, 256, 512);
    (config.num_heads, config.num_kv_heads, config.head_dim) = (4, 2, 64);
    config.vocab_size = 1024;
    random_model(config, Some(format), Dtype::Bfloat16, 3).unwrap()
}

/// Decodes as generation does: a step is encoded before the token of the last one is read.
fn decode(model: &Transformer, cache: &mut Cache, token: Array, steps: usize) -> Result<Array> {
    let mut token = token;
    for _ in 0..steps {
        let logits = model.forward_last(&token, cache).unwrap();
        let next = ops::argmax(&logits, Some(-1), true)?;
        mlx::async_eval(&[&next])?;
        token.item::<u32>()?;
        token = next;
    }
    Ok(token)
}

/// What `COUNTED` steps do with a cache that is quantized, or dense: nothing is created.
/// The number of fused operations.
fn creates_nothing(model: &Transformer, kv: Option<Quantization>) -> Result<u64> {
    let mut cache = model.new_cache();
    kv.map_or(Ok(()), |format| cache.quantize(format)).unwrap();
    let first = Array::from_slice(&[1u32], &[1, 1])?;
    let token = decode(model, &mut cache, first, WARM)?;
    let before = stats::snapshot();
    decode(model, &mut cache, token, COUNTED)?.eval()?;
    let counted = stats::snapshot().since(&before);
    assert!(counted.dispatches > 0, "the model ran on Vulkan");
    assert_eq!(counted.driver_allocations, 0, "driver allocations");
    assert_eq!(counted.pipeline_creations, 0, "pipelines created");
    assert_eq!(counted.pipeline_waits, 0, "waits for pipelines");
    Ok(counted.fused)
}

#[test]
fn a_decode_step_creates_nothing() {
    mlx_tests::init();
    mlx::with_device(Device::GPU, || -> Result<()> {
        let model = model("qwen3-0.6b", AFFINE);
        let dense = creates_nothing(&model, None)?;
        let quantized = creates_nothing(&model, Some(Quantization { group_size: 64, bits: 8 }))?;
        // Attention of a layer is one operation either way: of a dense cache's 7, and of a quantized one's
        // 16.
        let layers = (model.config().num_layers * COUNTED) as u64;
        assert_eq!(quantized - dense, 9 * layers);
        // Three biases instead of two norms of heads.
        assert_eq!(creates_nothing(&self::model("qwen2.5-0.5b", AFFINE), None)? - dense, layers);
        // All that affine models have but the token's row of the embedding, which is three operations less.
        for mode in [FpMode::Mxfp4, FpMode::Nvfp4, FpMode::Mxfp8] {
            let floats = self::model("qwen3-0.6b", Format::Floats(mode));
            let fused = creates_nothing(&floats, None)?;
            assert_eq!(dense - fused, 3 * COUNTED as u64, "{mode:?}");
        }
        Ok(())
    })
    .unwrap()
    .unwrap();
}
