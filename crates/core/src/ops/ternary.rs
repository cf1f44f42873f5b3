//! Selection between two arrays.

use crate::{
    Array, Dtype, Result,
    ops::{self, Operand, astype, broadcast_shape, broadcast_to, operands},
    primitives::Primitive,
};

/// `condition ? a : b`, elementwise: MLX's `where`. Broadcasts all three.
///
/// # Errors
/// When the shapes do not broadcast.
pub fn where_(condition: &Array, a: impl Operand, b: impl Operand) -> Result<Array> {
    let (a, b) = operands(a, b)?;
    let dtype = a.dtype().promote(b.dtype());
    let shape = broadcast_shape("where", a.shape(), b.shape())?;
    let shape = broadcast_shape("where", condition.shape(), &shape)?;
    let condition = broadcast_to(&astype(condition, Dtype::Bool)?, &shape)?;
    let a = broadcast_to(&astype(&a, dtype)?, &shape)?;
    let b = broadcast_to(&astype(&b, dtype)?, &shape)?;
    ops::node(shape, dtype, Primitive::Select, [condition, a, b])
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
