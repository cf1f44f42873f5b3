//! Products of matrices that indices pick: mixtures of experts.

use std::{cell::RefCell, collections::VecDeque};

use crate::{
    Array, Dtype, Error, Result,
    ops::{self, astype, broadcast_arrays, matmul},
    primitives::MatmulOp,
    shape::num_elements,
    transforms::trace::{is_shapeless, is_tracing},
};

/// The dtype of a product that takes real floating point numbers only.
pub(crate) fn floating_product(op: &'static str, a: &Array, b: &Array) -> Result<Dtype> {
    let dtype = a.dtype().promote(b.dtype());
    match dtype.is_floating() {
        true => Ok(dtype),
        false => {
            let message = format!(
                "Only real floating point types are supported but {} and {} were provided which results \
                 in {dtype}, which is not a real floating point type.",
                a.dtype(),
                b.dtype()
            );
            Err(Error::invalid(op, message))
        }
    }
}

/// Operands with at least two axes whose inner sizes agree, and the axes of the result that stand
/// for vectors.
pub(crate) fn as_matrices(
    op: &'static str,
    a: &Array,
    b: &Array,
) -> Result<(Array, Array, Vec<isize>)> {
    if a.ndim() == 0 || b.ndim() == 0 {
        return Err(Error::invalid(
            op,
            "Got 0 dimension input. Inputs must have at least one dimension.",
        ));
    }
    let mut vectors = Vec::new();
    let (mut left, mut right) = (a.clone(), b.clone());
    if a.ndim() == 1 {
        left = ops::expand_dims(a, &[0])?;
        vectors.push(-2);
    }
    if b.ndim() == 1 {
        right = ops::expand_dims(b, &[1])?;
        vectors.push(-1);
    }
    if left.dim(-1) != right.dim(-2) {
        let message = format!(
            "Last dimension of first input with shape {:?} must match second to last dimension of second \
             input with shape {:?}.",
            left.shape(),
            right.shape()
        );
        return Err(Error::invalid(op, message));
    }
    Ok((left, right, vectors))
}

/// Indices as uint32; without any, each matrix of `x` once, in the shape of the other operand's indices if
/// there is only one.
fn indices_or_default(
    op: &'static str,
    indices: Option<&Array>,
    x: &Array,
    others: Option<&Array>,
) -> Result<Array> {
    if x.ndim() < 2 {
        let message = format!(
            "Input must have at least two dimensions but got input with shape {:?}.",
            x.shape()
        );
        return Err(Error::invalid(op, message));
    }
    if let Some(indices) = indices {
        return match indices.dtype().is_integer() {
            true => astype(indices, Dtype::Uint32),
            false => {
                Err(Error::invalid(op, "Got indices with invalid dtype. Indices must be integral."))
            }
        };
    }
    let batch = &x.shape()[..x.ndim() - 2];
    let alone = |others: &&Array| num_elements(batch) == 1 && others.ndim() >= batch.len();
    match others.filter(alone) {
        Some(others) => numbers_of(1, others.shape()),
        None => numbers_of(num_elements(batch), batch),
    }
}

/// Numbers of a shape up to which they are kept: models ask for the same few of them with every token.
const FEW: usize = 128;
/// Shapes of which numbers are kept.
const KEPT: usize = 16;

thread_local! {
    /// The last ones, each with how many numbers there are.
    static NUMBERS: RefCell<VecDeque<(usize, Array)>> = const { RefCell::new(VecDeque::new()) };
}

/// The numbers from 0 on, or zeros if there is only one, of a shape.
fn numbers_of(total: usize, shape: &[usize]) -> Result<Array> {
    // What is traced may become a function of other sizes.
    if is_tracing() || num_elements(shape) > FEW {
        let axes = |shape: &[usize]| shape.iter().map(|&d| d as isize).collect::<Vec<_>>();
        let numbers = ops::arange(0.0, total as f64, 1.0, Dtype::Uint32)?;
        return match num_elements(shape) == total {
            true => ops::reshape(&numbers, &axes(shape)),
            false => ops::broadcast_to(&numbers, shape),
        };
    }
    let is_same = |(count, kept): &&(usize, Array)| *count == total && kept.shape() == shape;
    if let Some((_, kept)) = NUMBERS.with_borrow(|all| all.iter().find(is_same).cloned()) {
        return Ok(kept);
    }
    let numbers: Vec<u32> = (0..num_elements(shape)).map(|i| (i % total) as u32).collect();
    let numbers = Array::from_slice(&numbers, shape)?;
    NUMBERS.with_borrow_mut(|all| {
        all.truncate(KEPT - 1);
        all.push_front((total, numbers.clone()));
    });
    Ok(numbers)
}

/// Indices of the matrices of both operands, of one shape.
///
/// # Errors
/// When an operand has fewer than two axes, indices are no integers or do not broadcast, or the
/// operand that they pick from has no matrices.
pub(crate) fn picks(
    op: &'static str,
    (a, lhs): (&Array, Option<&Array>),
    (b, rhs): (&Array, Option<&Array>),
) -> Result<(Array, Array)> {
    let [lhs, rhs] = [(lhs, a, rhs), (rhs, b, lhs)]
        .map(|(indices, of, others)| indices_or_default(op, indices, of, others));
    let (lhs, rhs) = (lhs?, rhs?);
    let both = broadcast_arrays(&[&lhs, &rhs])?;
    let without = |x: &Array| num_elements(&x.shape()[..x.ndim() - 2]) == 0;
    if both[0].size() > 0 && (without(a) || without(b)) {
        return Err(Error::invalid(op, "Cannot pick matrices from an array that has none."));
    }
    Ok((both[0].clone(), both[1].clone()))
}

/// Whether indices that are `sorted` ascend once they were broadcast to `shape`: an axis along which they are
/// repeated must have none behind it along which they go on. Where sizes may be others later, one axis alone
/// is sure not to.
pub(crate) fn ascend(sorted: bool, indices: Option<&Array>, shape: &[usize]) -> bool {
    let given = indices.map_or(shape, Array::shape);
    let to = shape.iter().skip(shape.len() - given.len());
    let added = shape.iter().take(shape.len() - given.len());
    let sizes = added.map(|to| (&1, to)).chain(given.iter().zip(to));
    let mut axes = sizes.skip_while(|(given, to)| given == to);
    let sure = indices.is_none() || shape.len() <= 1 || !is_shapeless();
    sorted && sure && axes.all(|(&given, _)| given == 1)
}

/// Products of matrices that are picked from both operands: `a[lhs[i]] @ b[rhs[i]]`, where indices
/// count the matrices of all batch axes and broadcast. Without indices each matrix is taken once.
/// `sorted_indices` says that the given indices ascend. Indices out of range read no foreign
/// memory, but are not checked.
///
/// # Errors
/// When the inner sizes differ, the dtype is not floating, or indices are no integers or do not
/// broadcast.
pub fn gather_mm(
    a: &Array,
    b: &Array,
    lhs_indices: Option<&Array>,
    rhs_indices: Option<&Array>,
    sorted_indices: bool,
) -> Result<Array> {
    if lhs_indices.is_none() && rhs_indices.is_none() {
        return matmul(a, b);
    }
    let op = "gather_mm";
    let (left, right, vectors) = as_matrices(op, a, b)?;
    let dtype = floating_product(op, a, b)?;
    let (left, right) = (astype(&left, dtype)?, astype(&right, dtype)?);
    let (lhs, rhs) = picks(op, (&left, lhs_indices), (&right, rhs_indices))?;
    let primitive = MatmulOp::GatherMm {
        left_sorted: rhs_indices.is_none() && ascend(sorted_indices, lhs_indices, lhs.shape()),
        right_sorted: lhs_indices.is_none() && ascend(sorted_indices, rhs_indices, rhs.shape()),
    };
    let out = ops::node(primitive, [left, right, lhs, rhs])?;
    if vectors.is_empty() { Ok(out) } else { ops::squeeze(&out, &vectors) }
}

/// Products over segments of the inner axis: for each pair (start, end) of `segments` (…, 2) the
/// product `a[:, start..end] @ b[start..end, :]`; zeros for an empty segment. Ends beyond the axis
/// mean its end.
///
/// # Errors
/// When `a` or `b` is no matrix, the inner sizes differ, the dtype is not floating, or the segments
/// are no integer pairs.
pub fn segmented_mm(a: &Array, b: &Array, segments: &Array) -> Result<Array> {
    let op = "segmented_mm";
    if a.ndim() != 2 || b.ndim() != 2 {
        return Err(Error::invalid(op, "Batched matmul not supported"));
    }
    if segments.ndim() == 0 || segments.dim(-1) != 2 {
        let message = format!(
            "The segments should have shape (..., 2) but {:?} was provided.",
            segments.shape()
        );
        return Err(Error::invalid(op, message));
    }
    let (left, right, _) = as_matrices(op, a, b)?;
    let dtype = floating_product(op, a, b)?;
    if !segments.dtype().is_integer() {
        return Err(Error::invalid(
            op,
            "Got segments with invalid dtype. Segments must be integral.",
        ));
    }
    let segments = astype(segments, Dtype::Uint32)?;
    let inputs = [astype(&left, dtype)?, astype(&right, dtype)?, segments];
    ops::node(MatmulOp::SegmentedMm, inputs)
}
