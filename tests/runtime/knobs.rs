//! Gates change which kernels run.

use mlx::{Array, Device, Dtype, Result, fast, ops, vulkan::stats};
use mlx_tests::{array, in_child, init};

/// Prints the kernels of a few operations, and the dispatches of a rotary embedding of a transposed array.
fn print_kernels() -> Result<()> {
    let ones = |shape: &[usize]| array(&vec![0.5; shape.iter().product()], shape, Dtype::Float32);
    fast::rms_norm(&ones(&[4, 64]), Some(&ones(&[64])), 1e-5)?.eval()?;
    // The harness leaves a line unfinished.
    println!();
    for (width, keys) in [(128, 40), (64, 40)] {
        let kv = ones(&[1, 2, keys, width]);
        let q = ones(&[1, 4, 1, width]);
        fast::scaled_dot_product_attention(&q, &kv, &kv, 0.1, fast::Mask::None)?.eval()?;
        println!("attention of {width}: {}", made().join(" "));
    }
    let (words, scales, biases) = ops::quantize(&ones(&[96, 64]), 32, 4)?;
    for rows in [1, 2] {
        let x: Array = ones(&[rows, 64]);
        ops::quantized_matmul(&x, &words, &scales, &biases, true, 32, 4)?.eval()?;
    }
    println!("all: {}", made().join(" "));
    let heads = ops::transpose(&ones(&[1, 8, 4, 64]), &[0, 2, 1, 3])?;
    fast::rope(&heads, 64, false, Some(1e4), 1.0, 0, None)?.eval()?;
    let before = stats::snapshot();
    fast::rope(&heads, 64, false, Some(1e4), 1.0, 1, None)?.eval()?;
    println!("rope: {} dispatches", stats::snapshot().since(&before).dispatches);
    Ok(())
}

/// The kernels that there are pipelines of.
fn made() -> Vec<&'static str> {
    stats::pipelines_created().into_keys().collect()
}

/// The line of `printed` that begins with `what`, as words.
fn words<'a>(printed: &'a str, what: &str) -> Vec<&'a str> {
    let found = printed.lines().find_map(|line| line.strip_prefix(what));
    found.unwrap_or_else(|| panic!("no {what:?} in:\n{printed}")).split_whitespace().collect()
}

#[test]
fn closed_gates_change_the_kernels_that_run() {
    let test = "knobs::closed_gates_change_the_kernels_that_run";
    let run = || {
        init();
        mlx::with_device(Device::GPU, print_kernels).unwrap().unwrap();
    };
    let gates = [
        ("MLX_VK_ENABLE_RMSNORM_NATIVE", "0"),
        ("MLX_VK_ENABLE_ROPE_HS_TRANSPOSED", "0"),
        ("MLX_VK_ENABLE_SDPA_DECODE_D128", "0"),
        ("MLX_VK_ENABLE_QMM_NATIVE_M1_REDUCE_SUBGROUP", "0"),
        ("MLX_VK_ENABLE_QMM_NATIVE_M2", "0"),
        ("MLX_VK_ENABLE_ADD_BF16", "0"),
    ];
    let Some(open) = in_child(test, &[], run) else { return };
    let Some(closed) = in_child(test, &gates, run) else { return };
    let limit = [("MLX_VK_SDPA_MAX_K_LEN_DECODE", "32")];
    let Some(limited) = in_child(test, &limit, run) else { return };
    for (printed, of128, of64) in
        [(&open, true, true), (&closed, false, true), (&limited, false, false)]
    {
        let has = |what| words(printed, what).contains(&"attention_decode");
        assert_eq!((has("attention of 128:"), has("attention of 64:")), (of128, of64), "{printed}");
    }
    let ran = |printed: &str, kernel: &str| words(printed, "all:").contains(&kernel);
    assert!(ran(&open, "rms_norm_subgroup") && !ran(&open, "rms_norm_shared"), "{open}");
    assert!(ran(&closed, "rms_norm_shared") && !ran(&closed, "rms_norm_subgroup"), "{closed}");
    assert!(ran(&closed, "qmv_shared") && !ran(&open, "qmv_shared"), "{closed}");
    let many = |printed: &str| words(printed, "all:").iter().any(|name| name.starts_with("qmm_"));
    assert!(many(&closed) && !many(&open), "two rows go to the kernels of many: {closed}");
    assert_eq!((words(&open, "rope:")[0], words(&closed, "rope:")[0]), ("1", "2"));
    assert!(closed.contains("MLX_VK_ENABLE_ADD_BF16 has no effect: "), "{closed}");
}
