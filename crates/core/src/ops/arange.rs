//! Ranges of numbers.

use crate::{Array, Dtype, Error, Result, ops, primitives::Arange};

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
    if step.is_infinite() && (stop > start) == (step > 0.0) && stop != start {
        // The next number would be past any end.
        return ops::full(&[1], start, dtype);
    }
    let count = ((stop - start) / step).ceil();
    if step == 0.0 || count > i32::MAX as f64 {
        return Err(Error::invalid("arange", "Maximum size exceeded."));
    }
    let size = count.max(0.0) as usize;
    let (start, step) = (start.into(), step.into());
    ops::node(Arange { start, step, size, dtype }, [])
}

/// `num` evenly spaced numbers from `start` on: to `stop` if `endpoint`, else so that `stop` would be
/// the next one. Computed in float32, or in float64 for that dtype.
///
/// # Errors
/// When there is no stream to run on.
pub fn linspace(start: f64, stop: f64, num: usize, endpoint: bool, dtype: Dtype) -> Result<Array> {
    if num == 1 {
        return ops::astype(&Array::from_slice(&[start as f32], &[1])?, dtype);
    }
    let inner = if dtype == Dtype::Float64 { dtype } else { Dtype::Float32 };
    let steps = if endpoint { num.max(1) - 1 } else { num };
    let constant = |x: f64| Array::scalar_of(x, inner);
    let t = ops::divide(&arange(0.0, num as f64, 1.0, inner)?, &constant(steps as f64)?)?;
    let from = ops::multiply(&ops::subtract(&constant(1.0)?, &t)?, &constant(start)?)?;
    ops::astype(&ops::add(&from, &ops::multiply(&t, &constant(stop)?)?)?, dtype)
}
