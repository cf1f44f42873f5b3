//! Quantization and products with quantized matrices: bits, groups, dtypes, both orientations.

mod common;
mod oracle;

use mlx_vulkan_core::{Array, Dtype, ops};
use oracle::{FLOATS, assert_close, exact, product, random};

const BITS: [usize; 6] = [2, 3, 4, 5, 6, 8];

/// MLX's rule in float32, on the host.
fn quantized_on_host(w: &[f32], group: usize, bits: usize) -> (Vec<u32>, Vec<f32>, Vec<f32>) {
    let levels = ((1u32 << bits) - 1) as f32;
    let (mut words, mut scales, mut biases) = (Vec::new(), Vec::new(), Vec::new());
    let (mut word, mut held) = (0u64, 0);
    for group in w.chunks(group) {
        let low = group.iter().copied().fold(f32::INFINITY, f32::min);
        let high = group.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let negative = low.abs() > high.abs();
        let mut scale = ((high - low) / levels).max(1e-7);
        if !negative {
            scale = -scale;
        }
        let edge = if negative { low } else { high };
        let steps = (edge / scale).round_ties_even();
        let mut bias = 0.0;
        if steps != 0.0 {
            (scale, bias) = (edge / steps, edge);
        }
        scales.push(scale);
        biases.push(bias);
        for x in group {
            let q = ((x - bias) / scale).round_ties_even().clamp(0.0, levels) as u64;
            word |= q << held;
            held += bits;
            if held >= 32 {
                words.push(word as u32);
                word >>= 32;
                held -= 32;
            }
        }
    }
    (words, scales, biases)
}

/// The packed numbers.
fn fields(words: &[u32], bits: usize, count: usize) -> Vec<u32> {
    let bit = |i: usize| words[i / 32] >> (i % 32) & 1;
    (0..count).map(|f| (0..bits).map(|b| bit(f * bits + b) << b).sum()).collect()
}

#[test]
fn quantize_is_exact_and_dequantize_undoes_it() {
    common::with_gpu(|| {
        for bits in BITS {
            for group in [32, 64, 128] {
                let w = random(&[6, 256], Dtype::Float32, (bits * group) as u64);
                let (q, scales, biases) = ops::quantize(&w, group, bits).unwrap();
                let (words, s, b) = quantized_on_host(&w.to_vec::<f32>().unwrap(), group, bits);
                let what = format!("{bits} bits, groups of {group}");
                assert_eq!(scales.to_vec::<f32>().unwrap(), s, "{what}");
                assert_eq!(biases.to_vec::<f32>().unwrap(), b, "{what}");
                assert_eq!(q.to_vec::<u32>().unwrap(), words, "{what}");
                let back = ops::dequantize(&q, &scales, &biases, group, bits).unwrap();
                let fields = fields(&words, bits, 6 * 256);
                let want: Vec<f32> = fields
                    .iter()
                    .enumerate()
                    .map(|(i, &f)| s[i / group] * f as f32 + b[i / group])
                    .collect();
                assert_eq!(back.to_vec::<f32>().unwrap(), want, "{what}");
            }
        }
    });
}

struct Case {
    rows: usize,
    outputs: usize,
    inner: usize,
    group: usize,
    bits: usize,
    transpose: bool,
    dtype: Dtype,
}

fn check(case: &Case) {
    let Case { rows, outputs, inner, group, bits, transpose, dtype } = *case;
    let shape = if transpose { [outputs, inner] } else { [inner, outputs] };
    let w = random(&shape, dtype, (rows + outputs + bits) as u64);
    let x = random(&[rows, inner], dtype, (inner + group) as u64);
    let (q, scales, biases) = ops::quantize(&w, group, bits).unwrap();
    let wide = |a: &Array| ops::astype(a, Dtype::Float32).unwrap();
    let mut full = ops::dequantize(&q, &wide(&scales), &wide(&biases), group, bits).unwrap();
    if transpose {
        full = ops::transpose(&full, &[]).unwrap();
    }
    let want = product(&exact(&x), &exact(&full), rows, inner, outputs);
    let got = ops::quantized_matmul(&x, &q, &scales, &biases, transpose, group, bits).unwrap();
    let what = format!("{rows}x{inner}x{outputs} b{bits} g{group} transpose {transpose} {dtype}");
    assert_close(&got, &want, &what);
}

#[test]
fn products_of_every_bits_and_group() {
    common::with_gpu(|| {
        for bits in BITS {
            for group in [32, 64, 128] {
                for transpose in [true, false] {
                    for rows in [1, 3, 20] {
                        let dtype = if bits == 4 { Dtype::Bfloat16 } else { Dtype::Float32 };
                        let outputs = if transpose { 37 } else { 128 };
                        check(&Case { rows, outputs, inner: 256, group, bits, transpose, dtype });
                    }
                }
            }
        }
    });
}

#[test]
fn products_of_every_row_count_and_dtype() {
    common::with_gpu(|| {
        for dtype in FLOATS {
            for transpose in [true, false] {
                for rows in [1, 2, 4, 7, 8, 9, 16, 17, 33, 70] {
                    check(&Case {
                        rows,
                        outputs: 160,
                        inner: 96,
                        group: 32,
                        bits: 4,
                        transpose,
                        dtype,
                    });
                }
            }
            check(&Case {
                rows: 1,
                outputs: 1000,
                inner: 1536,
                group: 64,
                bits: 8,
                transpose: true,
                dtype,
            });
            check(&Case {
                rows: 40,
                outputs: 100,
                inner: 2048,
                group: 64,
                bits: 4,
                transpose: true,
                dtype,
            });
        }
    });
}

#[test]
fn matrices_per_batch_and_broadcast() {
    common::with_gpu(|| {
        for transpose in [true, false] {
            for rows in [1, 4, 20] {
                let w = random(&[3, 64, 64], Dtype::Float32, 5);
                let x = random(&[2, 3, rows, 64], Dtype::Float32, 6);
                let (q, s, b) = ops::quantize(&w, 32, 4).unwrap();
                let full = ops::dequantize(&q, &s, &b, 32, 4).unwrap();
                let full =
                    if transpose { ops::transpose(&full, &[0, 2, 1]).unwrap() } else { full };
                let (xv, wv) = (exact(&x), exact(&full));
                let want: Vec<f64> = (0..6)
                    .flat_map(|i| {
                        let m = i % 3 * 4096;
                        product(
                            &xv[i * rows * 64..(i + 1) * rows * 64],
                            &wv[m..m + 4096],
                            rows,
                            64,
                            64,
                        )
                    })
                    .collect();
                let got = ops::quantized_matmul(&x, &q, &s, &b, transpose, 32, 4).unwrap();
                assert_close(&got, &want, &format!("batches, {rows} rows, transpose {transpose}"));
            }
        }
    });
}

/// Sizes that go to cooperative matrices where the device has them, up to those that dequantize first.
#[test]
fn many_rows_of_halves() {
    common::with_gpu(|| {
        for dtype in [Dtype::Float16, Dtype::Bfloat16] {
            for bits in BITS {
                for transpose in [true, false] {
                    let (rows, outputs, inner, group) = (40, 160, 288, 32);
                    check(&Case { rows, outputs, inner, group, bits, transpose, dtype });
                }
            }
            for (rows, outputs, inner, group, transpose) in [
                (64, 72, 1280, 128, true),
                (130, 256, 192, 64, true),
                (130, 256, 192, 64, false),
                (400, 96, 128, 64, true),
                (17, 33, 2048, 64, true),
            ] {
                check(&Case { rows, outputs, inner, group, bits: 4, transpose, dtype });
            }
        }
    });
}
