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
    let [loss, ..] = of_targets().call(&[logits.clone(), targets.clone()])?;
    ops::astype(&loss, Dtype::Float32)
}

/// Of logits and targets the loss, and, with a last axis of one element: the logarithm of the sum of
/// exponentials of what the logits are less than the largest, the largest, and the one at the target. The
/// former two are in float32, or wider.
///
/// The derivative is written down, because what follows from the operations makes four arrays of the logits'
/// size on the way, in float32: the probabilities less one at each target. They are as exact with the sum's
/// logarithm as they are with the sum. Of what the logits are less than the largest nothing reads single
/// elements, so that it is only added up; and nothing but the derivative reads logits after it, so that it
/// may take over their memory.
fn of_targets() -> CustomFunction<[Array; 2], [Array; 4]> {
    custom_function(|[logits, targets]: &[Array; 2]| {
        let largest = largest(logits)?;
        let hit = ops::take_along_axis(logits, &column(targets)?, -1)?;
        let total = ops::sum(&ops::exp(&less(logits, &largest)?)?, &[-1], true)?;
        let log_total = ops::log(&total)?;
        let loss = ops::subtract(&log_total, &less(&hit, &largest)?)?;
        Ok([ops::squeeze(&loss, &[-1])?, log_total, largest, hit])
    })
    .vjp(|[logits, targets], [by_loss, by_total, _, by_hit], [_, log_total, largest, hit]| {
        let by_loss = column(by_loss)?;
        let by_each = ops::add(&by_loss, by_total)?;
        let share = |logits: &Array| {
            let part = ops::exp(&ops::subtract(&less(logits, largest)?, log_total)?)?;
            ops::multiply(&part, &by_each)
        };
        let own = ops::subtract(&ops::add(&share(hit)?, by_hit)?, &by_loss)?;
        let own = ops::astype(&own, logits.dtype())?;
        let others = ops::astype(&share(logits)?, logits.dtype())?;
        let by_logits = ops::put_along_axis(&others, &column(targets)?, &own, -1)?;
        Ok([by_logits, ops::zeros_like(targets)?])
    })
}

/// With a last axis of one element.
fn column(a: &Array) -> Result<Array> {
    ops::expand_dims(a, &[-1])
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
