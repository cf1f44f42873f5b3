//! Cross entropy.

use crate::{Array, Dtype, Error, Result, ops};

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
    let wide = if logits.dtype() == Dtype::Float64 { Dtype::Float64 } else { Dtype::Float32 };
    let logits = ops::astype(logits, wide)?;
    // The loss depends on differences alone, which would drown in what large logits share.
    let largest = ops::stop_gradient(&ops::max(&logits, &[-1], true)?)?;
    let logits = ops::subtract(&logits, &largest)?;
    let score = ops::take_along_axis(&logits, &ops::expand_dims(targets, &[-1])?, -1)?;
    let loss =
        ops::subtract(&ops::logsumexp(&logits, &[-1], false)?, &ops::squeeze(&score, &[-1])?)?;
    ops::astype(&loss, Dtype::Float32)
}
