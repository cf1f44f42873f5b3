//! Conversions, copies and arrays of one value.

use crate::{
    Array, Dtype, Result,
    ops::{self, Operand, broadcast_to},
    primitives::CopyOp,
};

/// The elements converted to `dtype`. Complex numbers lose their imaginary part.
///
/// # Errors
/// When there is no stream to run on.
pub fn astype(a: &Array, dtype: Dtype) -> Result<Array> {
    into_dtype(a.clone(), dtype)
}

/// [`astype`] of an array that the caller has no other use for.
pub(crate) fn into_dtype(a: Array, dtype: Dtype) -> Result<Array> {
    if a.dtype() == dtype { Ok(a) } else { ops::node(CopyOp::AsType { dtype }, [a]) }
}

/// The bytes of the elements as another dtype: MLX's `view`. The last axis grows or shrinks by
/// the ratio of the sizes.
///
/// # Errors
/// For a scalar, or a last axis that does not divide, when the sizes differ.
pub fn view(a: &Array, dtype: Dtype) -> Result<Array> {
    if a.dtype() == dtype {
        return Ok(a.clone());
    }
    let (old, new) = (a.dtype().size(), dtype.size());
    if old != new {
        let last = a.shape().last().ok_or_else(|| {
            crate::Error::invalid(
                "view",
                "Changing the type of a scalar is only allowed for types of the same size.",
            )
        })?;
        if !(*last * old).is_multiple_of(new) {
            let message = format!(
                "The size of the last axis of shape {:?} in bytes must be divisible by {new}, the size \
                 of {dtype}.",
                a.shape()
            );
            return Err(crate::Error::invalid("view", message));
        }
    }
    let source = if old == new { a.clone() } else { contiguous(a, false)? };
    ops::node(CopyOp::View { dtype }, [source])
}

/// A dense array with the same elements; the array itself where it is dense already.
///
/// # Errors
/// When there is no stream to run on.
pub fn contiguous(a: &Array, allow_col_major: bool) -> Result<Array> {
    ops::node(CopyOp::Contiguous { allow_col_major }, [a.clone()])
}

/// An array of `shape` filled with `value`, which may be an array that broadcasts to it.
///
/// # Errors
/// When `value` does not broadcast to `shape`.
pub fn full(shape: &[usize], value: impl Operand, dtype: Dtype) -> Result<Array> {
    let value = into_dtype(value.to_array(Some(dtype))?, dtype)?;
    let value = broadcast_to(&value, shape)?;
    ops::node(CopyOp::Full, [value])
}

/// Zeros.
///
/// # Errors
/// When there is no stream to run on.
pub fn zeros(shape: &[usize], dtype: Dtype) -> Result<Array> {
    full(shape, Array::scalar_of(0.0, dtype)?, dtype)
}

/// Ones.
///
/// # Errors
/// When there is no stream to run on.
pub fn ones(shape: &[usize], dtype: Dtype) -> Result<Array> {
    full(shape, Array::scalar_of(1.0, dtype)?, dtype)
}

/// Zeros of the shape and dtype of `a`.
///
/// # Errors
/// When there is no stream to run on.
pub fn zeros_like(a: &Array) -> Result<Array> {
    full_like(a, Array::scalar_of(0.0, a.dtype())?, None)
}

/// Ones of the shape and dtype of `a`.
///
/// # Errors
/// When there is no stream to run on.
pub fn ones_like(a: &Array) -> Result<Array> {
    full_like(a, Array::scalar_of(1.0, a.dtype())?, None)
}

/// An array of the shape of `a` filled with `value`, which may be an array that broadcasts to it;
/// of the dtype of `a` if none is given.
///
/// # Errors
/// When `value` does not broadcast to the shape.
pub fn full_like(a: &Array, value: impl Operand, dtype: Option<Dtype>) -> Result<Array> {
    let dtype = dtype.unwrap_or(a.dtype());
    let value = astype(&value.to_array(Some(dtype))?, dtype)?;
    ops::node(CopyOp::Full, [ops::broadcast_like(&value, a)?])
}
