//! Selection between two arrays.

use crate::{
    Array, Dtype, Result,
    ops::{self, Operand, astype, operands},
    primitives::TernaryOp,
};

/// `condition ? a : b`, elementwise: MLX's `where`. Broadcasts all three.
///
/// # Errors
/// When the shapes do not broadcast.
pub fn where_(condition: &Array, a: impl Operand, b: impl Operand) -> Result<Array> {
    let (a, b) = operands(a, b)?;
    let dtype = a.dtype().promote(b.dtype());
    let condition = astype(condition, Dtype::Bool)?;
    let (a, b) = (astype(&a, dtype)?, astype(&b, dtype)?);
    let operands = ops::broadcast_together("where", [&condition, &a, &b], &[])?;
    ops::node(TernaryOp::Select, operands)
}

/// Limits elements to `min..=max`; `None` leaves a side open.
///
/// # Errors
/// When neither limit is given, or the shapes do not broadcast.
pub fn clip(a: &Array, min: Option<&Array>, max: Option<&Array>) -> Result<Array> {
    let raised = match min {
        Some(min) => ops::maximum(a, min)?,
        None if max.is_none() => {
            return Err(crate::Error::invalid(
                "clip",
                "At most one of a_min and a_max may be None.",
            ));
        }
        None => a.clone(),
    };
    max.map_or(Ok(raised.clone()), |max| ops::minimum(&raised, max))
}

/// NaN replaced by `nan`, and infinities by `posinf` and `neginf`: the largest and the least number
/// of the dtype if there is none. Integers and bools are returned as they are.
///
/// # Errors
/// For complex64, and for float64 without both replacements of infinities.
pub fn nan_to_num(a: &Array, nan: f32, posinf: Option<f32>, neginf: Option<f32>) -> Result<Array> {
    if !a.dtype().is_inexact() {
        return Ok(a.clone());
    }
    let largest = match a.dtype() {
        Dtype::Float32 => Ok(f32::MAX),
        Dtype::Float16 => Ok(f32::from(crate::f16::MAX)),
        Dtype::Bfloat16 => Ok(f32::from(crate::bf16::MAX)),
        dtype => {
            let message = format!("Does not yet support given type: {dtype}.");
            Err(crate::Error::invalid("nan_to_num", message))
        }
    };
    let positive = posinf.map_or_else(|| largest.clone(), Ok)?;
    let negative = neginf.map_or_else(|| largest.map(|x| -x), Ok)?;
    let value = |x: f32| Array::scalar_of(x.into(), a.dtype());
    let out = where_(&ops::isnan(a)?, &value(nan)?, a)?;
    let out = where_(&ops::isposinf(a)?, &value(positive)?, &out)?;
    where_(&ops::isneginf(a)?, &value(negative)?, &out)
}
