//! Products of picked matrices with picked quantized matrices.

use super::{
    gathered::{ascend, picks},
    quantized::{affine, check_inner, unpacked_columns},
};
use crate::{
    Array, Error, Result,
    ops::{self, astype, quantized_matmul},
    primitives::{Packing, QuantizedOp},
};

/// Indices of the matrices that [`gather_qmm`] multiplies.
#[derive(Debug, Clone, Copy, Default)]
pub struct Picks<'a> {
    /// Indices of the matrices of `x`.
    pub lhs: Option<&'a Array>,
    /// Indices of the matrices of `w`.
    pub rhs: Option<&'a Array>,
    /// The given indices ascend.
    pub sorted: bool,
}

/// `x[lhs[i]] @ w[rhs[i]]` (or `wᵀ` with `transpose`) where `w` is quantized along its last axis, as
/// [`ops::gather_mm`] does it with dense matrices.
///
/// # Errors
/// When the shapes do not fit together, or indices are no integers or do not broadcast.
#[expect(clippy::too_many_arguments, reason = "MLX's arguments")]
pub fn gather_qmm(
    x: &Array,
    w: &Array,
    scales: &Array,
    biases: &Array,
    indices: Picks<'_>,
    transpose: bool,
    group_size: usize,
    bits: usize,
) -> Result<Array> {
    if indices.lhs.is_none() && indices.rhs.is_none() {
        return quantized_matmul(x, w, scales, biases, transpose, group_size, bits);
    }
    let op = "gather_qmm";
    let affine = affine(op, group_size, bits)?;
    let columns = unpacked_columns(op, w, scales, biases, affine)?;
    check_inner(op, x, w, affine.into(), transpose, columns)?;
    let dtype = x.dtype().promote(scales.dtype());
    if !dtype.is_floating() {
        let message =
            format!("Only real floating types are supported but x.dtype() == {}.", x.dtype());
        return Err(Error::invalid(op, message));
    }
    let of = |a| astype(a, dtype);
    let parts = [w, &of(scales)?, &of(biases)?];
    gathered(&of(x)?, &parts, indices, affine.into(), transpose, columns)
}

/// Products of matrices that indices pick from `x` and `parts`, whose shapes and dtypes were checked: they
/// have `columns` elements a row. The result has the dtype of `x`.
pub(super) fn gathered(
    x: &Array,
    parts: &[&Array],
    indices: Picks<'_>,
    packing: Packing,
    transpose: bool,
    columns: usize,
) -> Result<Array> {
    let op = "gather_qmm";
    check_inner(op, x, parts[0], packing, transpose, columns)?;
    let (lhs, rhs) = picks(op, (x, indices.lhs), (parts[0], indices.rhs))?;
    let primitive = QuantizedOp::GatherQmm {
        packing,
        transpose,
        left_sorted: indices.rhs.is_none() && ascend(indices.sorted, indices.lhs, lhs.shape()),
        right_sorted: indices.lhs.is_none() && ascend(indices.sorted, indices.rhs, rhs.shape()),
    };
    let inputs = std::iter::once(x).chain(parts.iter().copied()).cloned();
    ops::node(primitive, inputs.chain([lhs, rhs]))
}
