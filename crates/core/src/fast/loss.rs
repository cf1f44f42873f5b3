//! Cross entropy.

use crate::{
    Array, Dtype, Error, Result, ops,
    transforms::{CustomFunction, custom_function},
};

/// `logsumexp(logits) - logits[target]` over the last axis, in float32; `targets` are indices and have
/// the shape of the logits without their last axis.
///
/// # Errors
/// When the logits are a scalar or not floating, or the targets are no integers or of another shape.
pub fn cross_entropy(logits: &Array, targets: &Array) -> Result<Array> {
    let invalid = |message: String| Err(Error::invalid("cross_entropy", message));
    if logits.ndim() == 0 {
        return invalid(
            "logits must have at least 1 dimension but got input with 0 dimensions.".into(),
        );
    }
    if !logits.dtype().is_floating() {
        return invalid(format!("Received unsupported logits type {}.", logits.dtype()));
    }
    if !targets.dtype().is_integer() {
        return invalid(format!(
            "targets must be integer class indices but got {}.",
            targets.dtype()
        ));
    }
    if targets.shape() != &logits.shape()[..logits.ndim() - 1] {
        return invalid(format!(
            "targets shape {:?} does not match logits shape {:?} with the last axis removed.",
            targets.shape(),
            logits.shape()
        ));
    }
    let [loss, _] = of_targets().call(&[logits.clone(), targets.clone()])?;
    ops::astype(&loss, Dtype::Float32)
}

/// Of logits and targets the loss, and the logarithm of the sum of exponentials of what the logits are less
/// than the largest; both in float32, or wider.
///
/// The derivative is written down, because what follows from the operations makes four arrays of the logits'
/// size on the way, in float32: the probabilities less one at each target. They are as exact with the sum's
/// logarithm as they are with the sum.
fn of_targets() -> CustomFunction<[Array; 2], [Array; 2]> {
    custom_function(|[logits, targets]: &[Array; 2]| {
        let largest = largest(logits)?;
        let shifted = less(logits, &largest)?;
        let score = ops::take_along_axis(&shifted, &ops::expand_dims(targets, &[-1])?, -1)?;
        let total = ops::logsumexp(&shifted, &[-1], false)?;
        Ok([ops::subtract(&total, &ops::squeeze(&score, &[-1])?)?, total])
    })
    .vjp(|[logits, targets], [by_loss, by_total], [_, total]| {
        let column = |a: &Array| ops::expand_dims(a, &[-1]);
        let (by_loss, total, at) = (column(by_loss)?, column(total)?, column(targets)?);
        let by_each = ops::add(&by_loss, &column(by_total)?)?;
        let largest = largest(logits)?;
        let share = |logits: &Array| {
            let part = ops::exp(&ops::subtract(&less(logits, &largest)?, &total)?)?;
            ops::multiply(&part, &by_each)
        };
        let hit = ops::subtract(&share(&ops::take_along_axis(logits, &at, -1)?)?, &by_loss)?;
        let hit = ops::astype(&hit, logits.dtype())?;
        let others = ops::astype(&share(logits)?, logits.dtype())?;
        Ok([ops::put_along_axis(&others, &at, &hit, -1)?, ops::zeros_like(targets)?])
    })
}

/// What rows are shifted by: the loss depends on differences alone, which would drown in what large logits
/// share.
fn largest(logits: &Array) -> Result<Array> {
    ops::stop_gradient(&ops::max(logits, &[-1], true)?)
}

/// Logits less the largest one, in float32 or wider.
fn less(logits: &Array, largest: &Array) -> Result<Array> {
    let wide = if logits.dtype() == Dtype::Float64 { Dtype::Float64 } else { Dtype::Float32 };
    ops::subtract(&ops::astype(logits, wide)?, &ops::astype(largest, wide)?)
}
