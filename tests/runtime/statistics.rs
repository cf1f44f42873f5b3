//! What the runtime counts: kernels, rows, shapes and rejections, evaluations, pipelines.

use mlx::{Array, Device, Dtype, Result, fast, ops, vulkan::stats};
use mlx_tests::{array, in_child, init};

/// Attention with so many queries and keys, and a quantized product with so many rows.
fn layer(queries: usize, keys: usize) -> Result<()> {
    let ones = |shape: &[usize]| array(&vec![0.5; shape.iter().product()], shape, Dtype::Float32);
    let kv = ones(&[1, 2, keys, 128]);
    let q = ones(&[1, 4, queries, 128]);
    fast::scaled_dot_product_attention(&q, &kv, &kv, 0.1, fast::Mask::None)?.eval()?;
    let (words, scales, biases) = ops::quantize(&ones(&[96, 64]), 32, 4)?;
    let x: Array = ones(&[queries, 64]);
    ops::quantized_matmul(&x, &words, &scales, &biases, true, 32, 4)?.eval()
}

fn count() {
    init();
    let evals = stats::snapshot().evals;
    mlx::with_device(Device::GPU, || {
        layer(1, 60)?;
        layer(1, 61)?;
        layer(2, 300)
    })
    .unwrap()
    .unwrap();
    let uses = stats::uses();
    let (sdpa, qmm) = (&uses["sdpa"], &uses["qmm"]);
    assert_eq!((sdpa.total, qmm.total), (3, 3));
    assert_eq!((qmm.rows["1"], qmm.rows["2"]), (2, 1));
    assert_eq!((sdpa.rows["1"], sdpa.rows["2"]), (2, 1));
    assert_eq!(sdpa.shapes["heads 4/2 width 128 keys<=64 float32"], 2, "{sdpa:?}");
    assert_eq!(qmm.shapes["96x64 b4 g32 gpc2 float32"], 3, "{qmm:?}");
    assert_eq!(qmm.kernels.values().sum::<u64>(), 3);
    assert!(qmm.kernels.keys().all(|kernels| !kernels.is_empty()), "{qmm:?}");
    let closed = qmm.rejected.iter().find(|(why, _)| why.contains("MLX_VK_ENABLE_QMM_NATIVE_M2=0"));
    assert_eq!(closed.map(|(_, n)| *n), Some(1), "{qmm:?}");
    let seen = stats::snapshot();
    assert!(seen.evals >= evals + 6);
    let (sum, most) = stats::evaluations();
    assert!(sum.dispatches >= sum.operations && most.dispatches <= sum.dispatches);
    assert!(sum.dispatches <= seen.dispatches && sum.barriers <= seen.barriers);
    assert_eq!(stats::pipelines_created().values().sum::<u64>(), seen.pipeline_creations);
    mlx::shutdown();
}

#[test]
fn uses_are_counted_and_printed_at_the_end() {
    let variables = [
        ("MLX_VK_STATS", "1"),
        ("MLX_VK_ALGO_STATS", "1"),
        ("MLX_VK_ENABLE_QMM_NATIVE_M2", "0"),
        ("MLX_VK_ENABLE_SDPA_NATIVE", "0"),
        ("MLX_VK_DEBUG_SDPA_REJECT", "1"),
    ];
    let test = "statistics::uses_are_counted_and_printed_at_the_end";
    let Some(printed) = in_child(test, &variables, count) else { return };
    for part in [
        "mlx vulkan: qmm: 3 evaluations",
        "mlx vulkan: sdpa: 3 evaluations",
        "mlx vulkan: per evaluation: ",
        "mlx vulkan: pipelines: ",
        "rejected MLX_VK_ENABLE_QMM_NATIVE_M2=0 for rows 2, 96x64 b4",
    ] {
        assert!(printed.contains(part), "no {part:?} in:\n{printed}");
    }
    let logged = |line: &&str| line.contains("sdpa: not used: MLX_VK_ENABLE_SDPA_NATIVE=0");
    // The kernel for one token was kept from one shape; two queries go to the general one anyway.
    assert_eq!(printed.lines().filter(logged).count(), 1, "once per shape:\n{printed}");
    assert!(!printed.contains("qmm: not used"), "its gate is not set:\n{printed}");
}
