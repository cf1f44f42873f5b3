//! What the tests of operations with sums share: comparison within an absolute bound, and the
//! results of MLX itself that are kept in `data`.
#![allow(dead_code, reason = "every test crate uses a part")]

use mlx_vulkan_core::{Array, Dtype};
use serde_json::Value;

use crate::common::{epsilon, read};

/// Checks `|got - want| <= bound + ` half a unit in the last place of the array's dtype.
#[track_caller]
pub(crate) fn assert_within(got: &Array, want: &[f64], bound: f64, what: &str) {
    let dtype = got.dtype();
    let got = read(got);
    assert_eq!(got.len(), want.len(), "{what}: sizes");
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let near = (g - w).abs() <= bound + w.abs() * epsilon(dtype);
        assert!(near || (g.is_nan() && w.is_nan()), "{what} [{i}]: {g}, not {w}");
    }
}

/// Relative error of sums: the dtype that sums are computed in.
pub(crate) fn sum_epsilon(dtype: Dtype) -> f64 {
    if dtype == Dtype::Float64 { epsilon(dtype) } else { epsilon(Dtype::Float32) }
}

/// A part of the results of upstream MLX; `data/upstream.json` says which.
pub(crate) fn upstream(part: &str) -> Vec<Value> {
    let mut all: Value = serde_json::from_str(include_str!("../data/upstream.json")).unwrap();
    serde_json::from_value(all[part].take()).unwrap()
}

/// A JSON list of numbers.
pub(crate) fn numbers(list: &Value) -> Vec<f64> {
    // Upstream's NaN would be null.
    list.as_array().unwrap().iter().map(|x| x.as_f64().unwrap_or(f64::NAN)).collect()
}

/// The inputs of those results: hashed integers over 512, exact in float32.
pub(crate) fn hashed(n: usize, seed: u64) -> Vec<f64> {
    (0..n as u64)
        .map(|i| {
            let hash = (i + seed * 7919).wrapping_mul(2_654_435_761) as u32 >> 8;
            ((hash % 2001) as f64 - 1000.0) / 512.0
        })
        .collect()
}
