//! Random data and comparison with float64, for the tests of products, norms and attention.
#![allow(dead_code, reason = "every test file uses a part")]

use mlx_vulkan_core::{Array, Dtype, ops};

pub(crate) const FLOATS: [Dtype; 3] = [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16];

/// Numbers in -1..1 with a bias towards no sign, repeatable.
pub(crate) fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 40) as f32 / (1u64 << 23) as f32) - 1.0
        })
        .collect()
}

/// A random array of `dtype`, evaluated.
pub(crate) fn random(shape: &[usize], dtype: Dtype, seed: u64) -> Array {
    let data = noise(shape.iter().product(), seed);
    let array = ops::astype(&Array::from_slice(&data, shape).unwrap(), dtype).unwrap();
    array.eval().unwrap();
    array
}

/// The elements in row-major order as float64.
pub(crate) fn exact(array: &Array) -> Vec<f64> {
    let wide = ops::astype(array, Dtype::Float32).unwrap();
    wide.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
}

/// Relative error that a correctly rounded result of `dtype` may have, with room for a float32
/// sum.
pub(crate) fn tolerance(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Float32 => 1e-5,
        Dtype::Float16 => 1.0 / 1024.0,
        _ => 1.0 / 128.0,
    }
}

/// Asserts that elements agree, relative to the largest of the expected ones.
pub(crate) fn assert_close(got: &Array, want: &[f64], what: &str) {
    let found = exact(got);
    assert_eq!(found.len(), want.len(), "{what}");
    let largest = want.iter().fold(1e-3f64, |m, w| m.max(w.abs()));
    let limit = tolerance(got.dtype()) * largest;
    for (i, (g, w)) in found.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= limit, "{what}: element {i} of {:?} is {g}, not {w}", got.shape());
    }
}

/// `a` (m, k) times `b` (k, n), row-major.
pub(crate) fn product(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
    let mut out = vec![0.0; m * n];
    for i in 0..m {
        for x in 0..k {
            let y = a[i * k + x];
            for j in 0..n {
                out[i * n + j] += y * b[x * n + j];
            }
        }
    }
    out
}
