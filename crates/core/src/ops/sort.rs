//! Sorting and selection along an axis. NaN sorts last.

use crate::{
    Array, Dtype, Error, Result,
    ops::{self, normalize_axis},
    primitives::Primitive,
};

/// Ascending order along an axis.
///
/// # Errors
/// When the axis is out of bounds.
pub fn sort(a: &Array, axis: isize) -> Result<Array> {
    let axis = normalize_axis("sort", axis, a.ndim())?;
    ops::node(a.shape(), a.dtype(), Primitive::Sort { axis }, [a.clone()])
}

/// Indices (uint32) of the stable ascending order along an axis.
///
/// # Errors
/// When the axis is out of bounds.
pub fn argsort(a: &Array, axis: isize) -> Result<Array> {
    let axis = normalize_axis("argsort", axis, a.ndim())?;
    ops::node(a.shape(), Dtype::Uint32, Primitive::ArgSort { axis }, [a.clone()])
}

/// An order along an axis in which element `kth` is in its sorted place, smaller ones before it
/// and larger ones behind it; negative `kth` counts from the end.
///
/// # Errors
/// When `kth` or the axis is out of bounds.
pub fn partition(a: &Array, kth: isize, axis: isize) -> Result<Array> {
    let (kth, axis) = place("partition", a, kth, axis)?;
    ops::node(a.shape(), a.dtype(), Primitive::Partition { kth, axis }, [a.clone()])
}

/// Indices (uint32) of the order of [`partition`].
///
/// # Errors
/// When `kth` or the axis is out of bounds.
pub fn argpartition(a: &Array, kth: isize, axis: isize) -> Result<Array> {
    let (kth, axis) = place("argpartition", a, kth, axis)?;
    ops::node(a.shape(), Dtype::Uint32, Primitive::ArgPartition { kth, axis }, [a.clone()])
}

fn place(name: &'static str, a: &Array, kth: isize, axis: isize) -> Result<(usize, usize)> {
    let axis = normalize_axis(name, axis, a.ndim())?;
    let n = a.shape()[axis] as isize;
    let positive = if kth < 0 { kth + n } else { kth };
    if !(0..n).contains(&positive) {
        let message = format!(
            "Received invalid kth {kth} along axis {axis} for array with shape: {:?}",
            a.shape()
        );
        return Err(Error::invalid(name, message));
    }
    Ok((positive as usize, axis))
}

/// The `k` largest elements along an axis, in no particular order.
///
/// # Errors
/// When the axis is out of bounds or has fewer than `k` elements.
pub fn topk(a: &Array, k: usize, axis: isize) -> Result<Array> {
    let at = normalize_axis("topk", axis, a.ndim())?;
    let n = a.shape()[at];
    if k > n {
        let message = format!(
            "Received invalid k={k} along axis {axis} for array with shape: {:?}",
            a.shape()
        );
        return Err(Error::invalid("topk", message));
    }
    if k == n {
        return Ok(a.clone());
    }
    let ordered = match k {
        0 => a.clone(),
        _ => partition(a, (n - k) as isize, axis)?,
    };
    ops::slice_axis(&ordered, axis, (n - k) as isize, n as isize)
}
