//! Ranges of numbers.

use crate::{Array, Dtype, Error, Result, ops, primitives::Primitive};

/// `start, start + step, …` before `stop`.
///
/// # Errors
/// When a bound is NaN, the step is zero, the range is too long, or the dtype is bool.
pub fn arange(start: f64, stop: f64, step: f64, dtype: Dtype) -> Result<Array> {
    if dtype == Dtype::Bool {
        return Err(Error::invalid("arange", "bool is not supported."));
    }
    if [start, stop, step].iter().any(|v| v.is_nan()) {
        return Err(Error::invalid("arange", "Cannot compute length: bounds must not be NaN."));
    }
    if start.is_infinite() || (stop.is_infinite() && (stop > start) == (step > 0.0)) {
        return Err(Error::invalid("arange", "Cannot compute length of an infinite range."));
    }
    let count = ((stop - start) / step).ceil();
    if step == 0.0 || count > i32::MAX as f64 {
        return Err(Error::invalid("arange", "Maximum size exceeded."));
    }
    ops::node([count.max(0.0) as usize].as_slice(), dtype, Primitive::Arange { start, step }, [])
}

/// `num` evenly spaced numbers from `start` to `stop` inclusive.
///
/// # Errors
/// When there is no stream to run on.
pub fn linspace(start: f64, stop: f64, num: usize, dtype: Dtype) -> Result<Array> {
    if num == 1 {
        return ops::astype(&Array::from_slice(&[start as f32], &[1])?, dtype);
    }
    let t = ops::divide(&arange(0.0, num as f64, 1.0, Dtype::Float32)?, (num.max(1) - 1) as f64)?;
    let from = ops::multiply(&ops::subtract(1.0f32, &t)?, start)?;
    ops::astype(&ops::add(&from, &ops::multiply(&t, stop)?)?, dtype)
}
