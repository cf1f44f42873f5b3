//! The Hadamard transform.

use crate::{
    Array, Dtype, Error, Result,
    ops::{self, astype},
    primitives::Hadamard,
};

/// Walsh–Hadamard transform of the last axis, whose size is `m · 2^k` with `m` 1, 12, 20 or 28:
/// the product with a matrix of ±1, times `scale` (`1/√n` if not given). Integers become float32.
///
/// # Errors
/// When the array is empty, complex, or its last axis has another size.
pub fn hadamard_transform(a: &Array, scale: Option<f32>) -> Result<Array> {
    let op = "hadamard_transform";
    if a.size() == 0 {
        return Err(Error::invalid(op, "Does not support empty arrays."));
    }
    let n = if a.ndim() > 0 { a.dim(-1) } else { 1 };
    let scale = scale.unwrap_or(1.0 / (n as f32).sqrt());
    let dtype = if a.dtype().is_floating() { a.dtype() } else { Dtype::Float32 };
    if n == 1 {
        return match scale == 1.0 {
            true => Ok(a.clone()),
            false => ops::multiply(a, &Array::scalar_of(scale.into(), dtype)?),
        };
    }
    let Some(transform) = Hadamard::of(n, scale) else {
        let message = "Only supports n = m*2^k where m in (1, 12, 20, 28).";
        return Err(Error::invalid(op, message));
    };
    ops::node(transform, [astype(a, dtype)?])
}
