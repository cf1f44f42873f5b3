//! What the rules of products of picked matrices have in common, dense or quantized.

use super::mapping;
use crate::{Array, Dtype, Result, Shape, ops, primitives::MatmulOp, shape::num_elements};

fn sizes(shape: &[usize]) -> Vec<isize> {
    shape.iter().map(|&d| d as isize).collect()
}

/// The number of each matrix of batch axes of this shape.
pub(super) fn numbers(batch: &[usize]) -> Result<Array> {
    let all = ops::arange(0.0, num_elements(batch) as f64, 1.0, Dtype::Uint32)?;
    ops::reshape(&all, &sizes(batch))
}

/// Matrices added up where they were picked from, in an array of `shape`.
pub(super) fn spread(matrices: &Array, picks: &Array, shape: &[usize]) -> Result<Array> {
    let (batch, matrix) = shape.split_at(shape.len() - 2);
    let stack = Shape::from_slice(&[num_elements(batch), matrix[0], matrix[1]]);
    let zeros = ops::zeros(&stack, matrices.dtype())?;
    if matrices.size() == 0 {
        return ops::reshape(&zeros, &sizes(shape));
    }
    let slices = ops::expand_dims(matrices, &[-3])?;
    ops::reshape(&ops::scatter_add(&zeros, &[picks], &slices, &[0])?, &sizes(shape))
}

/// The sums of `aᵀ @ cotangent` over all that picked the same matrix on the right: `a` is the stack on the
/// left, `batch` are the batch axes of the one on the right, and `sorted` says which indices ascend.
pub(super) fn by_right(
    a: &Array,
    cotangent: &Array,
    [left, right]: [&Array; 2],
    (left_sorted, right_sorted): (bool, bool),
    batch: &[usize],
) -> Result<Array> {
    let mut shape = Shape::from(batch);
    shape.extend([a.dim(-1), cotangent.dim(-1)]);
    if right_sorted && cotangent.size() > 0 && shape.iter().all(|&d| d > 0) {
        return by_segments(a, cotangent, [left, right], &shape);
    }
    let gather = MatmulOp::GatherMm { left_sorted, right_sorted: true };
    let turned = ops::swapaxes(a, -1, -2)?;
    let inputs = [turned, cotangent.clone(), left.clone(), numbers(left.shape())?];
    spread(&ops::node(gather, inputs)?, right, &shape)
}

/// The same for ascending indices: what adds up is a segment of one long product.
fn by_segments(
    a: &Array,
    cotangent: &Array,
    [left, right]: [&Array; 2],
    shape: &[usize],
) -> Result<Array> {
    let (count, rows) = (left.size(), a.dim(-2));
    let stack = ops::reshape(a, &[-1, rows as isize, a.dim(-1) as isize])?;
    let picked = ops::take(&stack, &ops::flatten(left, 0, -1)?, 0)?;
    let long = |x: &Array| ops::reshape(x, &[(count * rows) as isize, x.dim(-1) as isize]);
    let none = ops::zeros(&[num_elements(&shape[..shape.len() - 2])], Dtype::Uint32)?;
    let each = Array::scalar(rows as u32)?;
    let lengths = ops::scatter_add_axis(&none, &ops::flatten(right, 0, -1)?, &each, 0)?;
    let ends = ops::cumsum(&lengths, Some(0), false, true, None)?;
    let segments = ops::stack(&[&ops::subtract(&ends, &lengths)?, &ends], 1)?;
    let turned = ops::swapaxes(&long(&picked)?, 0, 1)?;
    ops::reshape(&ops::segmented_mm(&turned, &long(cotangent)?, &segments)?, &sizes(shape))
}

/// Indices of matrices with one more axis in front, of `size`. Where what they pick from is mapped, which it
/// is at its front, the matrices of each index are behind those of the one before it.
pub(super) fn mapped_picks(
    (picks, axis): (&Array, Option<usize>),
    (from, mapped): (&Array, Option<usize>),
    size: usize,
) -> Result<Array> {
    let picks = match axis {
        Some(_) => mapping::to_front(picks, axis)?,
        None => mapping::repeated(picks, 0, size)?,
    };
    if mapped.is_none() {
        return Ok(picks);
    }
    let each = num_elements(&from.shape()[1..from.ndim() - 2]);
    let first = ops::arange(0.0, size as f64, 1.0, Dtype::Uint32)?;
    let first = ops::multiply(&first, &Array::scalar(each as u32)?)?;
    let behind: Vec<isize> = (1..picks.ndim() as isize).collect();
    ops::add(&picks, &ops::expand_dims(&first, &behind)?)
}
