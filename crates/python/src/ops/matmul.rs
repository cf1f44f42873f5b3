//! Products of matrices.

use mlx::ops;
use pyo3::{prelude::*, types::PyModule};

use crate::{
    arguments::{ArrayArg, Size, given},
    array::{PyArray, apply},
    functions,
    stream::Target,
};

/// The matrix product of the last two axes; other axes broadcast.
///
/// Args:
///     a (array): Input array; a vector is a row.
///     b (array): Input array; a vector is a column.
///
/// Returns:
///     array: The product, without the axes that stand for vectors.
#[pyfunction]
#[pyo3(signature = (a, b, /, *, stream=None))]
fn matmul(a: ArrayArg, b: ArrayArg, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::matmul(&a, &b))
}

/// ``alpha * (a @ b) + beta * c``.
///
/// Args:
///     c (array): What to add; it broadcasts to the product.
///     a (array): Left operand of the product.
///     b (array): Right operand of the product.
///     alpha (float, optional): Factor of the product. Default: ``1``.
///     beta (float, optional): Factor of ``c``. Default: ``1``.
///
/// Returns:
///     array: The sum.
#[pyfunction]
#[pyo3(signature = (c, a, b, /, alpha=1.0, beta=1.0, *, stream=None))]
fn addmm(
    c: ArrayArg,
    a: ArrayArg,
    b: ArrayArg,
    alpha: f32,
    beta: f32,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::addmm(&c, &a, &b, alpha, beta))
}

/// The matrix product with masks, one element for each block of rows and columns. Boolean masks clear blocks,
/// others scale them.
///
/// Args:
///     a (array): Input array.
///     b (array): Input array.
///     block_size (int): Rows and columns of a block: 32 or 64. Default: ``64``.
///     mask_out (array, optional): Mask of the result.
///     mask_lhs (array, optional): Mask of ``a``.
///     mask_rhs (array, optional): Mask of ``b``.
///
/// Returns:
///     array: The product.
#[pyfunction]
#[pyo3(
    signature = (
        a, b, /, block_size=Size(64), mask_out=None, mask_lhs=None, mask_rhs=None, *, stream=None
    ),
    text_signature = "(a, b, /, block_size=64, mask_out=None, mask_lhs=None, mask_rhs=None, *, \
                      stream=None)"
)]
fn block_masked_mm(
    a: ArrayArg,
    b: ArrayArg,
    block_size: Size,
    mask_out: Option<ArrayArg>,
    mask_lhs: Option<ArrayArg>,
    mask_rhs: Option<ArrayArg>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let (out, lhs, rhs) = (given(&mask_out), given(&mask_lhs), given(&mask_rhs));
    apply(stream, || ops::block_masked_mm(&a, &b, block_size.0, out, lhs, rhs))
}

/// Products of matrices that indices pick: ``a[lhs_indices] @ b[rhs_indices]`` without copies of them.
///
/// Args:
///     a (array): Matrices.
///     b (array): Matrices.
///     lhs_indices (array, optional): Which of ``a``, counted over all its batch axes. Default: each once.
///     rhs_indices (array, optional): Which of ``b``, counted over all its batch axes. Default: each once.
///     sorted_indices (bool, optional): The given indices ascend, which may be faster. Default: ``False``.
///
/// Returns:
///     array: The products.
#[pyfunction]
#[pyo3(signature = (
    a, b, /, lhs_indices=None, rhs_indices=None, *, sorted_indices=false, stream=None
))]
fn gather_mm(
    a: ArrayArg,
    b: ArrayArg,
    lhs_indices: Option<ArrayArg>,
    rhs_indices: Option<ArrayArg>,
    sorted_indices: bool,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let (lhs, rhs) = (given(&lhs_indices), given(&rhs_indices));
    apply(stream, || ops::gather_mm(&a, &b, lhs, rhs, sorted_indices))
}

/// Products over segments of the inner axis.
///
/// Args:
///     a (array): A matrix.
///     b (array): A matrix.
///     segments (array): Where each segment starts and ends, along a last axis of size 2.
///
/// Returns:
///     array: A matrix for each segment.
#[pyfunction]
#[pyo3(signature = (a, b, /, segments, *, stream=None))]
fn segmented_mm(
    a: ArrayArg,
    b: ArrayArg,
    segments: ArrayArg,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::segmented_mm(&a, &b, &segments))
}

/// The Walsh-Hadamard transform along the last axis.
///
/// Args:
///     a (array): Input array; the size of its last axis is 1, 12, 20 or 28 times a power of two.
///     scale (float, optional): Factor of the result. Default: ``1 / sqrt(n)``.
///
/// Returns:
///     array: The transform.
#[pyfunction]
#[pyo3(signature = (a, scale=None, stream=None))]
fn hadamard_transform(
    a: ArrayArg,
    scale: Option<f32>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::hadamard_transform(&a, scale))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: matmul addmm block_masked_mm gather_mm segmented_mm hadamard_transform);
    Ok(())
}
