//! Times products, norms and attention at the shapes of small language models: `products [filter]`.
//!
//! Each line is the mean of chained evaluations, without reading anything back.

use std::time::Instant;

use mlx_vulkan_core::{
    Array, Device, Dtype, Result,
    fast::{self, Mask},
    graph, ops,
    primitives::{AttentionMask, AttentionVjp},
    transforms::vjp,
    with_device,
};

fn random(shape: &[usize], dtype: Dtype) -> Result<Array> {
    let n = shape.iter().product::<usize>();
    let data: Vec<f32> = (0..n).map(|i| ((i * 7919 % 1009) as f32 / 504.5) - 1.0).collect();
    let array = ops::astype(&Array::from_slice(&data, shape)?, dtype)?;
    array.eval()?;
    Ok(array)
}

/// Runs `f` in batches until half a second has passed; prints microseconds per run.
fn time(name: &str, flops: f64, bytes: f64, mut f: impl FnMut() -> Result<Array>) -> Result<()> {
    if std::env::args().nth(1).is_some_and(|filter| !name.contains(&filter)) {
        return Ok(());
    }
    f()?.eval()?;
    let (start, mut runs) = (Instant::now(), 0u32);
    while start.elapsed().as_secs_f64() < 0.5 {
        let batch = (0..20).map(|_| f()).collect::<Result<Vec<_>>>()?;
        mlx_vulkan_core::eval(&batch.iter().collect::<Vec<_>>())?;
        runs += 20;
    }
    let seconds = start.elapsed().as_secs_f64() / f64::from(runs);
    println!(
        "{name:44} {:10.1} us {:8.1} GFLOP/s {:8.1} GB/s",
        seconds * 1e6,
        flops / seconds / 1e9,
        bytes / seconds / 1e9
    );
    Ok(())
}

fn quantized(
    rows: usize,
    outputs: usize,
    inner: usize,
    group: usize,
    bits: usize,
    dtype: Dtype,
) -> Result<()> {
    let w = random(&[outputs, inner], dtype)?;
    let (q, s, b) = ops::quantize(&w, group, bits)?;
    mlx_vulkan_core::eval(&[&q, &s, &b])?;
    let x = random(&[rows, inner], dtype)?;
    let bytes = (q.nbytes() + s.nbytes() + b.nbytes()) as f64;
    let flops = 2.0 * (rows * outputs * inner) as f64;
    let name = format!("qmm {rows} x {inner} -> {outputs} b{bits} g{group} {dtype}");
    time(&name, flops, bytes, || ops::quantized_matmul(&x, &q, &s, &b, true, group, bits))
}

/// Rows that pick one of `experts` matrices each, sorted by it; evenly, or all of them eight neighbours.
fn grouped(rows: usize, [experts, used]: [usize; 2], outputs: usize, inner: usize) -> Result<()> {
    let w = random(&[experts, outputs, inner], Dtype::Bfloat16)?;
    let (q, s, b) = ops::quantize(&w, 64, 4)?;
    let x = random(&[rows, 1, inner], Dtype::Bfloat16)?;
    let mut picks: Vec<u32> = (0..rows).map(|i| (i * i * 7919 / 13 % used) as u32).collect();
    picks.sort_unstable();
    let picks = Array::from_slice(&picks, &[rows])?;
    mlx_vulkan_core::eval(&[&q, &s, &b, &picks])?;
    let picks = ops::Picks { lhs: None, rhs: Some(&picks), sorted: true };
    let flops = 2.0 * (rows * outputs * inner) as f64;
    let name = format!("experts {rows} x {inner} -> {outputs}, {used} of {experts}");
    time(&name, flops, q.nbytes() as f64, || ops::gather_qmm(&x, &q, &s, &b, picks, true, 64, 4))?;
    let name = format!("dense {name}");
    let turned = ops::swapaxes(&w, -1, -2)?;
    time(&name, flops, w.nbytes() as f64, || ops::gather_mm(&x, &turned, None, picks.rhs, true))
}

fn dense(m: usize, n: usize, k: usize, transposed: bool, dtype: Dtype) -> Result<()> {
    let a = random(&[m, k], dtype)?;
    let b = random(&if transposed { [n, k] } else { [k, n] }, dtype)?;
    let b = if transposed { ops::transpose(&b, &[])? } else { b };
    let name = format!("matmul {m} x {k} x {n} {dtype}{}", if transposed { " bT" } else { "" });
    let bytes = ((m * k + k * n + m * n) * dtype.size()) as f64;
    time(&name, 2.0 * (m * n * k) as f64, bytes, || ops::matmul(&a, &b))
}

fn attention(
    heads: usize,
    kv: usize,
    queries: usize,
    keys: usize,
    width: usize,
    dtype: Dtype,
) -> Result<()> {
    let q = random(&[1, heads, queries, width], dtype)?;
    let k = random(&[1, kv, keys, width], dtype)?;
    let flops = 4.0 * (heads * queries * keys * width) as f64;
    let name = format!("sdpa {heads}/{kv} {queries} x {keys} d{width} {dtype}");
    time(&name, flops, 2.0 * k.nbytes() as f64, || {
        fast::scaled_dot_product_attention(
            &q,
            &k,
            &k,
            0.1,
            if queries > 1 { Mask::Causal } else { Mask::None },
        )
    })
}

/// The derivatives of causal attention along a cotangent, 2.5 times its operations; alone and behind it.
fn differentiated(
    [batch, heads, kv]: [usize; 3],
    rows: usize,
    width: usize,
    dtype: Dtype,
) -> Result<()> {
    let of = |heads| random(&[batch, heads, rows, width], dtype);
    let (inputs, along) = ([of(heads)?, of(kv)?, of(kv)?], of(heads)?);
    let attend = |x: &[Array]| {
        Ok(vec![fast::scaled_dot_product_attention(&x[0], &x[1], &x[2], 0.1, Mask::Causal)?])
    };
    let flops = (batch * heads * rows * rows * width) as f64;
    let name = format!("sdpa {batch}x{heads}/{kv} {rows} d{width} {dtype}");
    let output = attend(&inputs)?.remove(0);
    output.eval()?;
    time(&name, 2.0 * flops, 0.0, || Ok(attend(&inputs)?.remove(0)))?;
    let op = AttentionVjp { scale: 0.1.into(), mask: AttentionMask::Causal };
    let all: Vec<Array> = inputs.iter().chain([&output, &along]).cloned().collect();
    time(&format!("vjp of {name}"), 5.0 * flops, 0.0, || {
        Ok(graph::apply(op.into(), all.iter().cloned().collect())?.remove(0))
    })?;
    time(&format!("{name} and vjp"), 7.0 * flops, 0.0, || {
        let (_, derivatives) = vjp(attend, &inputs, std::slice::from_ref(&along))?;
        ops::add(
            &derivatives[0],
            ops::sum(&ops::add(&derivatives[1], &derivatives[2])?, &[], false)?,
        )
    })
}

fn small(dtype: Dtype) -> Result<()> {
    let x = random(&[1, 1024], dtype)?;
    let w = random(&[1024], dtype)?;
    time(&format!("rms_norm 1 x 1024 {dtype}"), 0.0, 4096.0, || {
        fast::rms_norm(&x, Some(&w), 1e-5)
    })?;
    let q = random(&[1, 16, 1, 128], dtype)?;
    time(&format!("rope 16 heads d128 {dtype}"), 0.0, 4096.0, || {
        fast::rope(&q, 128, false, Some(1e6), 1.0, 777, None)
    })?;
    let x = random(&[512, 1024], dtype)?;
    time(&format!("rms_norm 512 x 1024 {dtype}"), 0.0, 2.0 * x.nbytes() as f64, || {
        fast::rms_norm(&x, Some(&w), 1e-5)
    })
}

fn all() -> Result<()> {
    let large = std::env::var_os("LARGE").is_some();
    let (f32, bf16) = (Dtype::Float32, Dtype::Bfloat16);
    for dtype in [f32, bf16] {
        for (outputs, inner) in [(576, 576), (192, 576), (1536, 576), (576, 1536)] {
            quantized(1, outputs, inner, 32, 4, dtype)?;
        }
        quantized(1, 49152, 576, 32, 8, dtype)?;
        quantized(32, 1536, 576, 32, 4, dtype)?;
    }
    dense(256, 256, 256, false, f32)?;
    dense(256, 256, 256, true, f32)?;
    dense(1, 576, 1536, true, f32)?;
    dense(1, 576, 1536, false, f32)?;
    attention(9, 3, 1, 256, 64, f32)?;
    attention(9, 3, 64, 64, 64, f32)?;
    small(bf16)?;
    if !large {
        return Ok(());
    }
    for (outputs, inner) in
        [(1024, 1024), (3072, 1024), (1024, 3072), (4096, 4096), (12288, 4096), (151_936, 1024)]
    {
        quantized(1, outputs, inner, 64, 4, bf16)?;
    }
    quantized(4, 4096, 4096, 64, 4, bf16)?;
    quantized(512, 4096, 4096, 64, 4, bf16)?;
    quantized(64, 4096, 4096, 64, 4, bf16)?;
    for experts in [[128, 128], [128, 8]] {
        grouped(4096, experts, 768, 2048)?;
        grouped(4096, experts, 2048, 768)?;
        grouped(16384, experts, 768, 2048)?;
    }
    dense(1, 4096, 14336, true, bf16)?;
    dense(1, 4096, 14336, false, bf16)?;
    dense(4096, 4096, 4096, false, f32)?;
    dense(4096, 4096, 4096, true, bf16)?;
    attention(16, 8, 1, 512, 128, bf16)?;
    attention(16, 8, 1, 8192, 128, bf16)?;
    attention(16, 8, 512, 512, 128, bf16)?;
    attention(16, 8, 4096, 4096, 128, bf16)?;
    for dtype in [bf16, f32] {
        differentiated([8, 9, 3], 1024, 64, dtype)?;
        differentiated([1, 16, 16], 4096, 128, dtype)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    mlx_vulkan_vk::install();
    with_device(Device::GPU, all)??;
    mlx_vulkan_vk::shutdown();
    Ok(())
}
