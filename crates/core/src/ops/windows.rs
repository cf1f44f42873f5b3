//! Window functions of signal processing, as float32; empty for no samples, and one for a single one.

use std::f64::consts::PI;

use crate::{Array, Dtype, Result, ops};

/// A window of `m` samples made of `0, 1, …, m - 1`.
fn window(m: usize, make: impl FnOnce(Array) -> Result<Array>) -> Result<Array> {
    match m {
        0 | 1 => ops::ones(&[m], Dtype::Float32),
        _ => make(ops::arange(0.0, m as f64, 1.0, Dtype::Float32)?),
    }
}

/// The Bartlett window: a triangle with zeros at its ends, `1 - |2n / (m - 1) - 1|`.
///
/// # Errors
/// When there is no stream to run on.
pub fn bartlett(m: usize) -> Result<Array> {
    window(m, |n| {
        let term = ops::subtract(&ops::multiply(2.0 / (m - 1) as f64, &n)?, 1.0f32)?;
        ops::subtract(1.0f32, &ops::abs(&term)?)
    })
}

/// The Hanning window: `sin²(πn / (m - 1))`.
///
/// # Errors
/// When there is no stream to run on.
pub fn hanning(m: usize) -> Result<Array> {
    window(m, |n| ops::square(&ops::sin(&ops::multiply(PI / (m - 1) as f64, &n)?)?))
}

/// The Hamming window: `0.54 - 0.46 cos(2πn / (m - 1))`.
///
/// # Errors
/// When there is no stream to run on.
pub fn hamming(m: usize) -> Result<Array> {
    window(m, |n| {
        let cosine = ops::cos(&ops::multiply(2.0 * PI / (m - 1) as f64, &n)?)?;
        ops::subtract(0.54f32, &ops::multiply(0.46f32, &cosine)?)
    })
}

/// The Blackman window: `0.42 - 0.5 cos(2πn / (m - 1)) + 0.08 cos(4πn / (m - 1))`, with the last
/// cosine written as the square of the first.
///
/// # Errors
/// When there is no stream to run on.
pub fn blackman(m: usize) -> Result<Array> {
    window(m, |n| {
        let cosine = ops::cos(&ops::multiply(2.0 * PI / (m - 1) as f64, &n)?)?;
        let first = ops::subtract(0.34f32, &ops::multiply(0.5f32, &cosine)?)?;
        ops::add(&first, &ops::multiply(0.16f32, &ops::square(&cosine)?)?)
    })
}
