//! Reading elements at indices.

use crate::{
    Array, Dtype, Error, Result, Shape,
    ops::{self, astype, normalize_axis},
    primitives::{Axes, IndexingOp},
    shape::num_elements,
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
    ops::node(IndexingOp::Take { axis }, [a.clone(), indices.clone()])
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
    let joint = broadcast_except("take_along_axis", [a, indices], axis)?;
    ops::node(IndexingOp::TakeAlongAxis { axis }, joint)
}

/// Arrays of as many axes, broadcast along all of them but `axis`.
pub(crate) fn broadcast_except<const N: usize>(
    op: &'static str,
    arrays: [&Array; N],
    axis: usize,
) -> Result<[Array; N]> {
    ops::broadcast_together(op, arrays, &[axis as isize - arrays[0].ndim() as isize])
}

/// Slices of `a` of `slice_sizes` (one for each axis) at the `indices` into `axes`. The indices
/// broadcast; the result has their axes, then those of the slices. Negative indices count from
/// the end; what reaches outside is moved inside.
///
/// # Errors
/// When there are not as many indices as axes, an axis is out of bounds or given twice, the
/// indices are no integers, or a slice is larger than the array.
pub fn gather(
    a: &Array,
    indices: &[&Array],
    axes: &[isize],
    slice_sizes: &[usize],
) -> Result<Array> {
    let axes = indexed_axes("gather", a, indices, axes)?;
    if slice_sizes.len() != a.ndim() {
        let message = format!(
            "Got slice_sizes with size {} for array with {} dimensions.",
            slice_sizes.len(),
            a.ndim()
        );
        return Err(Error::invalid("gather", message));
    }
    let indices = joint_indices("gather", indices)?;
    let index_shape = indices.first().map_or(&[][..], Array::shape);
    let mut shape = Shape::from(index_shape);
    shape.extend_from_slice(slice_sizes);
    check_slices(a, &shape, slice_sizes)?;
    let primitive = IndexingOp::Gather { axes, slice_sizes: slice_sizes.into() };
    ops::node(primitive, std::iter::once(a.clone()).chain(indices))
}

fn check_slices(a: &Array, shape: &[usize], sizes: &[usize]) -> Result<()> {
    if a.size() == 0 {
        return match num_elements(shape) {
            0 => Ok(()),
            _ => Err(Error::invalid(
                "gather",
                "If the input is empty, either the indices must be empty or the total slice size must be 0.",
            )),
        };
    }
    if sizes.iter().zip(a.shape()).any(|(size, dim)| size > dim) {
        let message = format!(
            "Slice sizes must be in [0, a.shape(i)]. Got {sizes:?} for array with shape {:?}.",
            a.shape()
        );
        return Err(Error::invalid("gather", message));
    }
    Ok(())
}

/// The axes that arrays of indices index, as they are given.
pub(crate) fn indexed_axes(
    op: &'static str,
    a: &Array,
    indices: &[&Array],
    axes: &[isize],
) -> Result<Axes> {
    if indices.len() > a.ndim() {
        let message = format!(
            "Too many index arrays. Got {} index arrays for input with {} dimensions.",
            indices.len(),
            a.ndim()
        );
        return Err(Error::invalid(op, message));
    }
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|w| w[0] == w[1]) {
        return Err(Error::invalid(op, format!("Repeat axes not allowed in {op}.")));
    }
    if sorted.iter().any(|&x| !(0..a.ndim() as isize).contains(&x)) {
        return Err(Error::invalid(op, "Axes don't match array dimensions."));
    }
    if indices.len() != axes.len() {
        return Err(Error::invalid(op, "Number of index arrays does not match number of axes."));
    }
    Ok(axes.iter().map(|&x| x as usize).collect())
}

/// Indices in one shape and one integer dtype.
pub(crate) fn joint_indices(op: &'static str, indices: &[&Array]) -> Result<Vec<Array>> {
    if indices.iter().any(|x| x.dtype() == Dtype::Bool) {
        return Err(Error::invalid(op, "Boolean indices not supported."));
    }
    let Some(dtype) = indices.iter().map(|x| x.dtype()).reduce(Dtype::promote) else {
        return Ok(Vec::new());
    };
    if dtype.is_inexact() {
        let message = "Got indices with invalid dtype. Indices must be integral.";
        return Err(Error::invalid(op, message));
    }
    let joint = ops::broadcast_arrays(indices)?;
    joint.iter().map(|x| astype(x, dtype)).collect()
}

pub(crate) fn check_indices(op: &'static str, indices: &Array) -> Result<()> {
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
