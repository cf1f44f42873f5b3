//! Quantization bit for bit against upstream, and products against float64.

mod common;
mod near;

use common::*;
use mlx_vulkan_core::{Array, Dtype, ops};
use near::*;

const BITS: [usize; 6] = [2, 3, 4, 5, 6, 8];
const GROUPS: [usize; 3] = [32, 64, 128];

fn f32s(list: &serde_json::Value) -> Vec<f32> {
    numbers(list).into_iter().map(|x| x as f32).collect()
}

#[test]
fn packing_is_upstreams() {
    on_cpu(|| {
        for case in upstream("quantize") {
            let (bits, group) = (case["bits"].as_u64().unwrap(), case["group"].as_u64().unwrap());
            let w = array(&hashed(512, bits * 100 + group), &[2, 256], Dtype::Float32);
            let (words, scales, biases) = ops::quantize(&w, group as usize, bits as usize).unwrap();
            let what = format!("{bits} bits, groups of {group}");
            assert_eq!(read(&words), numbers(&case["words"]), "{what}: words");
            assert_eq!(scales.to_vec::<f32>().unwrap(), f32s(&case["scales"]), "{what}: scales");
            assert_eq!(biases.to_vec::<f32>().unwrap(), f32s(&case["biases"]), "{what}: biases");
            let back = ops::dequantize(&words, &scales, &biases, group as usize, bits as usize);
            let sum: f64 = read(&back.unwrap()).iter().sum();
            assert!((sum - case["sum"].as_f64().unwrap()).abs() < 1e-3, "{what}: {sum}");
        }
    });
}

/// Quantized weights with the values that they stand for.
struct Weights {
    parts: [Array; 3],
    values: Vec<f64>,
}

fn quantized(shape: &[usize], dtype: Dtype, group: usize, bits: usize) -> Weights {
    let w = array(&sequence(shape.iter().product(), -1.0, 0.8), shape, dtype);
    let (words, scales, biases) = ops::quantize(&w, group, bits).unwrap();
    let (s, b) = (read(&scales), read(&biases));
    let columns = shape[shape.len() - 1];
    let packed = words.to_vec::<u32>().unwrap();
    let per_row = columns * bits / 32;
    let field = |row: usize, c: usize| {
        (0..bits).fold(0, |q, i| {
            let bit = c * bits + i;
            q | (packed[row * per_row + bit / 32] >> (bit % 32) & 1) << i
        })
    };
    let values = (0..packed.len() / per_row * columns)
        .map(|i| {
            let (row, c) = (i / columns, i % columns);
            let g = i / group;
            s[g] * field(row, c) as f64 + b[g]
        })
        .collect();
    Weights { parts: [words, scales, biases], values }
}

#[test]
fn dequantization_in_every_dtype() {
    on_cpu(|| {
        for dtype in FLOATS {
            for bits in BITS {
                for group in GROUPS {
                    let w = quantized(&[3, 2, 256], dtype, group, bits);
                    let [words, scales, biases] = &w.parts;
                    let got = ops::dequantize(words, scales, biases, group, bits).unwrap();
                    let what = format!("{dtype} {bits} {group}");
                    assert_within(&got, &w.values, sum_epsilon(dtype) * 4.0, &what);
                    // The nearest step is at most half a step away. One edge of a group is made a
                    // whole number of steps, which may cut up to half a step off the other.
                    let original = stored(&sequence(3 * 2 * 256, -1.0, 0.8), dtype);
                    let step = 2.1 / ((1 << bits) - 1) as f64;
                    let bound = step * 1.01 + epsilon(dtype) * 2.0;
                    assert_within(&got, &original, bound, &what);
                }
            }
        }
    });
}

/// `x @ w` or `x @ wᵀ` in float64, and the largest sum of absolute terms.
fn product(x: &[f64], w: &[f64], [m, k, n]: [usize; 3], transpose: bool) -> (Vec<f64>, f64) {
    let mut size: f64 = 0.0;
    let out = (0..m * n)
        .map(|i| {
            let (row, column) = (i / n, i % n);
            let weight = |l: usize| if transpose { w[column * k + l] } else { w[l * n + column] };
            let terms = (0..k).map(|l| x[row * k + l] * weight(l));
            size = size.max((0..k).map(|l| x[row * k + l].abs() * (weight(l).abs() + 2.0)).sum());
            terms.sum()
        })
        .collect();
    (out, size)
}

#[track_caller]
fn check(dtype: Dtype, group: usize, bits: usize, rows: usize, transpose: bool, sides: [usize; 2]) {
    let [a, b] = sides;
    let w = quantized(&[a, b], dtype, group, bits);
    let (k, n) = if transpose { (b, a) } else { (a, b) };
    let x = stored(&sequence(rows * k, -1.0, 1.0), dtype);
    let (want, size) = product(&x, &w.values, [rows, k, n], transpose);
    let [words, scales, biases] = &w.parts;
    let bound = 4.0 * size * sum_epsilon(dtype);
    for (layout, x) in layouts(&x, &[rows, k], dtype) {
        let got = ops::quantized_matmul(&x, words, scales, biases, transpose, group, bits).unwrap();
        assert_eq!(got.dtype(), dtype);
        let what = format!("{dtype} {bits} bits /{group}, {rows} rows, {transpose}, {layout}");
        assert_within(&got, &want, bound, &what);
    }
}

#[test]
fn products_of_every_kind() {
    on_cpu(|| {
        for bits in BITS {
            for group in GROUPS {
                for dtype in FLOATS {
                    for rows in [1, 3] {
                        check(dtype, group, bits, rows, true, [19, 3 * group]);
                        check(dtype, group, bits, rows, false, [19, 3 * group]);
                    }
                }
            }
        }
    });
}

#[test]
fn products_of_any_number_of_rows() {
    on_cpu(|| {
        for (bits, group) in [(4, 64), (4, 32), (8, 64), (3, 32), (6, 128), (2, 64)] {
            for rows in [2, 4, 5, 6, 7, 8, 9, 30, 100] {
                check(Dtype::Float32, group, bits, rows, true, [150, 640]);
                check(Dtype::Bfloat16, group, bits, rows, false, [150, 640]);
            }
        }
    });
}

#[test]
fn large_enough_for_all_cores() {
    on_cpu(|| {
        for rows in [1, 5, 40] {
            check(Dtype::Float16, 64, 4, rows, true, [600, 576]);
            check(Dtype::Float32, 32, 8, rows, false, [600, 576]);
        }
    });
}

/// Batched weights, also shared between batches and seen through strides.
#[test]
fn batches_of_weights() {
    on_cpu(|| {
        let (group, bits) = (32, 4);
        let w = quantized(&[2, 6, 64], Dtype::Float32, group, bits);
        let [words, scales, biases] = &w.parts;
        let x = sequence(3 * 2 * 4 * 64, -1.0, 1.0);
        let mut want = Vec::new();
        for i in 0..6 {
            let (x, w) = (&x[i * 256..(i + 1) * 256], &w.values[i % 2 * 384..(i % 2 + 1) * 384]);
            want.extend(product(x, w, [4, 64, 6], true).0);
        }
        let x = array(&x, &[3, 2, 4, 64], Dtype::Float32);
        let got = ops::quantized_matmul(&x, words, scales, biases, true, group, bits).unwrap();
        assert_eq!(got.shape(), [3, 2, 4, 6]);
        assert_within(&got, &want, 1e-4, "broadcast weights");

        // Column-major words and every second row of scales.
        let dense = quantized(&[6, 64], Dtype::Float32, group, bits);
        let [words, scales, biases] = &dense.parts;
        let swap = |a: &Array| ops::transpose(a, &[]).unwrap();
        let columns = swap(&ops::contiguous(&swap(words), false).unwrap());
        let doubled = ops::concatenate(&[scales, scales], 1).unwrap();
        let strided = ops::slice(&doubled, &[0, 0], &[6, 2], &[1, 1]).unwrap();
        let x = sequence(64, -1.0, 1.0);
        let (want, _) = product(&x, &dense.values, [1, 64, 6], true);
        let x = array(&x, &[64], Dtype::Float32);
        let got = ops::quantized_matmul(&x, &columns, &strided, biases, true, group, bits);
        assert_within(&got.unwrap(), &want, 1e-4, "strided weights");
    });
}

#[test]
fn empty_products() {
    on_cpu(|| {
        let w = quantized(&[6, 64], Dtype::Float32, 32, 4);
        let [words, scales, biases] = &w.parts;
        let x = array(&[], &[0, 64], Dtype::Float32);
        let got = ops::quantized_matmul(&x, words, scales, biases, true, 32, 4).unwrap();
        assert_eq!((got.shape(), read(&got).len()), (&[0, 6][..], 0));
    });
}
