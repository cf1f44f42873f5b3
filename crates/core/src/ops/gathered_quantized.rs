//! Products of picked matrices with picked quantized matrices.

use super::{
    gathered::picks,
    quantized::{affine, unpacked_columns},
};
use crate::{
    Array, Error, Result,
    ops::{self, astype, quantized_matmul},
    primitives::QuantizedOp,
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
    let (inner, outer) = if transpose { (columns, w.dim(-2)) } else { (w.dim(-2), columns) };
    if x.ndim() == 0 || x.dim(-1) != inner {
        let message = format!(
            "Last dimension of first input with shape {:?} does not match the expanded quantized matrix \
             ({inner}, {outer}) computed from shape {:?} with group_size={group_size}, bits={bits} and \
             transpose={transpose}",
            x.shape(),
            w.shape()
        );
        return Err(Error::invalid(op, message));
    }
    let dtype = x.dtype().promote(scales.dtype());
    if !dtype.is_floating() {
        let message =
            format!("Only real floating types are supported but x.dtype() == {}.", x.dtype());
        return Err(Error::invalid(op, message));
    }
    let (lhs, rhs) = picks(op, (x, indices.lhs), (w, indices.rhs))?;
    let primitive = QuantizedOp::GatherQmm {
        affine,
        transpose,
        left_sorted: indices.sorted && indices.rhs.is_none(),
        right_sorted: indices.sorted && indices.lhs.is_none(),
    };
    let inputs =
        [astype(x, dtype)?, w.clone(), astype(scales, dtype)?, astype(biases, dtype)?, lhs, rhs];
    ops::node(primitive, inputs)
}
