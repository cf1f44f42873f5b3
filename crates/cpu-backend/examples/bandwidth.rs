//! Times memory-bound operations: `cargo run --release --example bandwidth -p mlx-vulkan-cpu`.
//!
//! `examples/bandwidth.py` times the same in numpy.

use std::time::Instant;

use mlx_vulkan_core::{Array, Device, Dtype, Result, ops, with_device};

/// Best seconds of several runs.
fn best(mut f: impl FnMut() -> Result<Array>) -> f64 {
    let run = |f: &mut dyn FnMut() -> Result<Array>| {
        let start = Instant::now();
        f().and_then(|a| a.eval()).expect("evaluates");
        start.elapsed().as_secs_f64()
    };
    (0..15).map(|_| run(&mut f)).fold(f64::INFINITY, f64::min)
}

fn report(name: &str, bytes: usize, seconds: f64) {
    println!("{name:24} {:8.2} ms {:8.2} GB/s", seconds * 1e3, bytes as f64 / seconds / 1e9);
}

fn bench() -> Result<()> {
    let n = 1 << 24;
    let size = n * 4;
    let a = ops::divide(&ops::arange(0.0, n as f64, 1.0, Dtype::Float32)?, n as f64)?;
    let b = ops::add(&a, 1.0f32)?;
    mlx_vulkan_core::eval(&[&a, &b])?;
    let matrix = ops::reshape(&a, &[4096, 4096])?;
    let row = ops::slice_axis(&b, 0, 0, 4096)?;
    let half = ops::astype(&a, Dtype::Bfloat16)?;
    mlx_vulkan_core::eval(&[&matrix, &row, &half])?;
    report("a + b", 3 * size, best(|| ops::add(&a, &b)));
    report("a + 1", 2 * size, best(|| ops::add(&a, 1.0f32)));
    report("matrix + row", 2 * size, best(|| ops::add(&matrix, &row)));
    report("a + b in bfloat16", 3 * size / 2, best(|| ops::add(&half, &half)));
    report("exp(a)", 2 * size, best(|| ops::exp(&a)));
    report("tanh(a)", 2 * size, best(|| ops::tanh(&a)));
    report("sum(a)", size, best(|| ops::sum(&a, &[], false)));
    report("sum of rows", size, best(|| ops::sum(&matrix, &[1], false)));
    report("sum of columns", size, best(|| ops::sum(&matrix, &[0], false)));
    report("max(a)", size, best(|| ops::max(&a, &[], false)));
    report("softmax of rows", 2 * size, best(|| ops::softmax(&matrix, &[-1], true)));
    let turned = ops::transpose(&matrix, &[])?;
    report("transposed copy", 2 * size, best(|| ops::contiguous(&turned, false)));
    report("a as bfloat16", size + size / 2, best(|| ops::astype(&a, Dtype::Bfloat16)));
    report("argmax of rows", size, best(|| ops::argmax(&matrix, Some(1), false)));
    Ok(())
}

fn main() -> Result<()> {
    mlx_vulkan_cpu::install();
    with_device(Device::CPU, bench)?
}
