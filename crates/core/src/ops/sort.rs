//! Sorting and selection along an axis. NaN sorts last.

use crate::{
    Array, Error, Result,
    ops::{self, Operand, astype, normalize_axis},
    primitives::SortOp,
};

/// Refuses an axis with more elements than uint32 has indices for.
pub(crate) fn expect_indices(op: &'static str, a: &Array, axis: usize) -> Result<()> {
    let size = a.shape()[axis];
    if u32::try_from(size.saturating_sub(1)).is_ok() {
        return Ok(());
    }
    let message =
        format!("Axis {axis} has {size} elements, more than the uint32 output can index.");
    Err(Error::invalid(op, message))
}

/// Ascending order along an axis.
///
/// # Errors
/// When the axis is out of bounds.
pub fn sort(a: &Array, axis: isize) -> Result<Array> {
    let axis = normalize_axis("sort", axis, a.ndim())?;
    ops::node(SortOp::Sort { axis }, [a.clone()])
}

/// Indices (uint32) of the stable ascending order along an axis.
///
/// # Errors
/// When the axis is out of bounds, or has more elements than uint32 has indices for.
pub fn argsort(a: &Array, axis: isize) -> Result<Array> {
    let axis = normalize_axis("argsort", axis, a.ndim())?;
    expect_indices("argsort", a, axis)?;
    ops::node(SortOp::ArgSort { axis }, [a.clone()])
}

/// An order along an axis in which element `kth` has its sorted position, smaller ones before it
/// and larger ones behind it; negative `kth` counts from the end.
///
/// # Errors
/// When `kth` or the axis is out of bounds.
pub fn partition(a: &Array, kth: isize, axis: isize) -> Result<Array> {
    let (kth, axis) = kth_of("partition", a, kth, axis)?;
    ops::node(SortOp::Partition { kth, axis }, [a.clone()])
}

/// Indices (uint32) of the order of [`partition`].
///
/// # Errors
/// When `kth` or the axis is out of bounds, or the axis has more elements than uint32 has indices for.
pub fn argpartition(a: &Array, kth: isize, axis: isize) -> Result<Array> {
    let (kth, axis) = kth_of("argpartition", a, kth, axis)?;
    expect_indices("argpartition", a, axis)?;
    ops::node(SortOp::ArgPartition { kth, axis }, [a.clone()])
}

fn kth_of(name: &'static str, a: &Array, kth: isize, axis: isize) -> Result<(usize, usize)> {
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

/// Indices (uint32) in a sorted list before which values belong: before equal elements for the side
/// `"left"`, behind them for `"right"`. NaN is larger than any number. Both promote to one dtype.
///
/// # Errors
/// When the list does not have one axis or is too long for uint32, or for any other side.
pub fn searchsorted(sorted_sequence: &Array, values: impl Operand, side: &str) -> Result<Array> {
    let refuse = |message: String| Err(Error::invalid("searchsorted", message));
    if !["left", "right"].contains(&side) {
        return refuse(format!("Invalid side '{side}'. Expected 'left' or 'right'."));
    }
    if sorted_sequence.ndim() != 1 {
        return refuse(format!(
            "The sorted sequence must be 1-D but has {} dimensions.",
            sorted_sequence.ndim()
        ));
    }
    if sorted_sequence.size() > u32::MAX as usize {
        return refuse(format!(
            "The sorted sequence has {} elements, more than the uint32 output can index.",
            sorted_sequence.size()
        ));
    }
    let values = values.to_array(Some(sorted_sequence.dtype()))?;
    let dtype = sorted_sequence.dtype().promote(values.dtype());
    let inputs = [astype(sorted_sequence, dtype)?, astype(&values, dtype)?];
    let primitive = SortOp::SearchSorted { right: side == "right" };
    ops::node(primitive, inputs)
}
