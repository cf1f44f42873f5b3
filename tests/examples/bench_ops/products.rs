//! Products of matrices, and convolutions.

use mlx::{Array, Device, Dtype, Result, ops};

use crate::measure::{Bench, Bound, Row, Work, seconds};

/// Dense products.
pub(crate) fn dense(bench: &mut Bench) -> Result<()> {
    for (n, dtype) in [(1024, Dtype::Float32), (4096, Dtype::Float32), (4096, Dtype::Bfloat16)] {
        if n > 1024 && is_slow() {
            continue;
        }
        let a = ops::full(&[n, n], 0.5f32, dtype)?;
        let b = ops::full(&[n, n], 0.25f32, dtype)?;
        mlx::eval(&[&a, &b])?;
        let elements = (n * n) as f64;
        let work =
            Work { bytes: 3.0 * elements * dtype.size() as f64, flops: 2.0 * elements * n as f64 };
        let name = format!("matmul {n} {dtype}");
        bench.time(&name, work, Bound::Product, &|| ops::matmul(&a, &b))?;
    }
    Ok(())
}

/// Whether large products would take minutes: on CPUs, and on Vulkan devices that are CPUs.
fn is_slow() -> bool {
    mlx::default_device() == Device::CPU || std::env::var_os("MLX_VK_ALLOW_SOFTWARE").is_some()
}

/// Convolutions in two dimensions: batch, size, channels, outputs, kernel, groups.
pub(crate) fn convolutions(bench: &mut Bench) -> Result<()> {
    let (batch, side) = if is_slow() { (1, 28) } else { (32, 56) };
    let dtype = if is_slow() { Dtype::Float32 } else { Dtype::Bfloat16 };
    for (channels, outputs, kernel, groups) in
        [(256, 256, 3, 1), (256, 1024, 1, 1), (256, 256, 3, 256), (3, 64, 7, 1)]
    {
        let input = ops::full(&[batch, side, side, channels], 0.5f32, dtype)?;
        let of_group = channels / groups;
        let weight = ops::full(&[outputs, kernel, kernel, of_group], 0.25f32, dtype)?;
        mlx::eval(&[&input, &weight])?;
        let pixels = (batch * side * side) as f64;
        let work = Work {
            bytes: (pixels * (channels + outputs) as f64 + weight.size() as f64)
                * dtype.size() as f64,
            flops: 2.0 * pixels * weight.size() as f64,
        };
        let padding = [(kernel / 2) as isize; 2];
        let name = format!("conv2d {kernel}x{kernel} {channels} -> {outputs} g{groups} {dtype}");
        let bound = if groups > 1 { Bound::Copy } else { Bound::Product };
        bench.time(&name, work, bound, &|| {
            ops::conv2d(&input, &weight, [1, 1], padding, [1, 1], groups)
        })?;
    }
    Ok(())
}

/// Pairs of links in a chain of mat-vecs, each with weights of its own.
const PAIRS: usize = 32;

/// A 4-bit matrix of random numbers.
fn quantized(outputs: usize, inner: usize, seed: u64) -> Result<[Array; 3]> {
    let key = mlx::random::key(seed)?;
    let dense = mlx::random::normal(&[outputs, inner], Dtype::Bfloat16, 0.0, 0.1, Some(&key))?;
    let (words, scales, biases) = ops::quantize(&dense, 64, 4)?;
    mlx::eval(&[&words, &scales, &biases])?;
    Ok([words, scales, biases])
}

/// Dependent 4-bit mat-vecs there and back again, as in a decode step: time of a pair.
pub(crate) fn mat_vecs(bench: &mut Bench) -> Result<()> {
    for (narrow, wide) in [(1024, 1024), (1024, 3072), (1024, 4096), (4096, 6144), (4096, 12288)] {
        let make = |i: usize| -> Result<_> {
            Ok([quantized(wide, narrow, i as u64)?, quantized(narrow, wide, !i as u64)?])
        };
        let links = (0..PAIRS).map(make).collect::<Result<Vec<_>>>()?;
        let x = ops::full(&[1, narrow], 0.01f32, Dtype::Bfloat16)?;
        let chain = || {
            links.iter().flatten().try_fold(x.clone(), |y, [words, scales, biases]| {
                ops::quantized_matmul(&y, words, scales, biases, true, 64, 4)
            })
        };
        let elements = 2.0 * (narrow * wide) as f64;
        let name = format!("mat-vecs {narrow} -> {wide} -> {narrow}, 4 bits");
        let work = Work { bytes: elements * 4.5 / 8.0, flops: 2.0 * elements };
        let row = Row::new(&name, work, seconds(&chain)? / PAIRS as f64);
        bench.add(row, Bound::Copy);
    }
    Ok(())
}
