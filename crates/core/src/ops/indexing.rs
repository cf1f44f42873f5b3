//! Reading elements at indices.

use crate::{
    Array, Error, Result, Shape,
    ops::{self, broadcast_shape, broadcast_to, normalize_axis},
    primitives::Primitive,
};

/// Slices along `axis` at integer `indices`, whose axes replace it. Negative indices count from
/// the end; others out of range are not checked, as in MLX, but read no foreign memory.
///
/// # Errors
/// When the axis is out of bounds, the indices are no integers, or the axis is empty and the
/// indices are not.
pub fn take(a: &Array, indices: &Array, axis: isize) -> Result<Array> {
    let axis = normalize_axis("take", axis, a.ndim())?;
    check_indices("take", indices)?;
    if a.shape()[axis] == 0 && indices.size() != 0 {
        return Err(Error::invalid(
            "take",
            "Cannot do a non-empty take from an array with zero elements.",
        ));
    }
    let mut shape = Shape::from(&a.shape()[..axis]);
    shape.extend_from_slice(indices.shape());
    shape.extend_from_slice(&a.shape()[axis + 1..]);
    ops::node(shape, a.dtype(), Primitive::Take { axis }, [a.clone(), indices.clone()])
}

/// Elements at `indices` along `axis`; the other axes broadcast.
///
/// # Errors
/// When the ranks differ, the axis is out of bounds, or the other axes do not broadcast.
pub fn take_along_axis(a: &Array, indices: &Array, axis: isize) -> Result<Array> {
    let axis = normalize_axis("take_along_axis", axis, a.ndim())?;
    check_indices("take_along_axis", indices)?;
    if a.ndim() != indices.ndim() {
        let message = format!(
            "Indices of dimension {} does not match array of dimension {}.",
            indices.ndim(),
            a.ndim()
        );
        return Err(Error::invalid("take_along_axis", message));
    }
    let (mut source, mut target) = (Shape::from(a.shape()), Shape::from(indices.shape()));
    (source[axis], target[axis]) = (1, 1);
    let joint = broadcast_shape("take_along_axis", &source, &target)?;
    (source, target) = (joint.clone(), joint);
    (source[axis], target[axis]) = (a.shape()[axis], indices.shape()[axis]);
    let a = broadcast_to(a, &source)?;
    let indices = broadcast_to(indices, &target)?;
    ops::node(target, a.dtype(), Primitive::TakeAlongAxis { axis }, [a, indices])
}

fn check_indices(op: &'static str, indices: &Array) -> Result<()> {
    match indices.dtype().is_integer() {
        true => Ok(()),
        false => Err(Error::invalid(
            op,
            format!(
                "Got indices with invalid dtype {}. Indices must be integral.",
                indices.dtype()
            ),
        )),
    }
}
