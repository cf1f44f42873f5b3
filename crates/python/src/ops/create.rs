//! Arrays of one value, and matrices of ones and zeros.

use mlx::{
    Array, Dtype,
    ops::{self, Operand as _},
};
use pyo3::{prelude::*, types::PyModule};

use super::aliases;
use crate::{
    arguments::{ArrayArg, Operand, Size, Sizes},
    array::{PyArray, apply},
    dtype::PyDtype,
    functions,
    stream::Target,
};

/// The dtype that was asked for, or float32.
pub(super) fn or_float32(dtype: Option<PyDtype>) -> Dtype {
    dtype.map_or(Dtype::Float32, |dtype| dtype.0)
}

/// Functions that fill a shape, and those that fill the shape of another array.
macro_rules! fills {
    ($($(#[$doc:meta])* $name:ident, $like:ident: $value:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// Args:
        ///     shape (int or list(int)): The shape.
        ///     dtype (Dtype, optional): Type of the elements. Default: ``float32``.
        ///
        /// Returns:
        ///     array: The array.
        #[pyfunction]
        #[pyo3(
            signature = (shape, dtype=None, *, stream=None),
            text_signature = "(shape, dtype=None, *, stream=None)"
        )]
        fn $name(
            shape: Sizes,
            dtype: Option<PyDtype>,
            stream: Option<Target>,
        ) -> PyResult<PyArray> {
            apply(stream, || ops::$name(&shape.0, or_float32(dtype)))
        }

        $(#[$doc])*
        ///
        /// Args:
        ///     a (array): The array whose shape the result has.
        ///     dtype (Dtype, optional): Type of the elements. Default: that of ``a``.
        ///
        /// Returns:
        ///     array: The array.
        #[pyfunction]
        #[pyo3(signature = (a, /, dtype=None, *, stream=None))]
        fn $like(
            a: ArrayArg,
            dtype: Option<PyDtype>,
            stream: Option<Target>,
        ) -> PyResult<PyArray> {
            let dtype = dtype.map_or(a.dtype(), |dtype| dtype.0);
            apply(stream, || {
                ops::full_like(&a, Array::scalar_of($value, dtype)?, Some(dtype))
            })
        }
    )*};
}

fills! {
    /// Ones.
    ones, ones_like: 1.0;
    /// Zeros.
    zeros, zeros_like: 0.0;
}

/// An array filled with a value.
///
/// Args:
///     shape (int or list(int)): The shape.
///     vals (scalar or array): The value, or values that broadcast to the shape.
///     dtype (Dtype, optional): Type of the elements. Default: what fits ``vals``.
///
/// Returns:
///     array: The array.
#[pyfunction]
#[pyo3(signature = (shape, vals, dtype=None, *, stream=None))]
fn full(
    shape: Sizes,
    vals: Operand,
    dtype: Option<PyDtype>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || {
        let values = vals.to_array(dtype.map(|dtype| dtype.0))?;
        let dtype = dtype.map_or(values.dtype(), |dtype| dtype.0);
        ops::full(&shape.0, values, dtype)
    })
}

/// An array of another one's shape, filled with a value.
///
/// Args:
///     a (array): The array whose shape the result has.
///     vals (scalar or array): The value, or values that broadcast to the shape.
///     dtype (Dtype, optional): Type of the elements. Default: that of ``a``.
///
/// Returns:
///     array: The array.
#[pyfunction]
#[pyo3(signature = (a, vals, dtype=None, *, stream=None))]
fn full_like(
    a: ArrayArg,
    vals: Operand,
    dtype: Option<PyDtype>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::full_like(&a, vals, dtype.map(|dtype| dtype.0)))
}

/// Ones on a diagonal, zeros elsewhere.
///
/// Args:
///     n (int): Number of rows.
///     m (int, optional): Number of columns. Default: ``n``.
///     k (int, optional): The diagonal; positive ones are above the main one. Default: ``0``.
///     dtype (Dtype, optional): Type of the elements. Default: ``float32``.
///
/// Returns:
///     array: A matrix of ``n`` by ``m``.
#[pyfunction]
#[pyo3(
    signature = (n, m=None, k=0, dtype=None, *, stream=None),
    text_signature = "(n, m=None, k=0, dtype=None, *, stream=None)"
)]
fn eye(
    n: Size,
    m: Option<Size>,
    k: isize,
    dtype: Option<PyDtype>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let m = m.map_or(n.0, |m| m.0);
    apply(stream, || ops::eye(n.0, m, k, or_float32(dtype)))
}

/// Ones on the main diagonal of a square matrix, zeros elsewhere.
///
/// Args:
///     n (int): Number of rows and columns.
///     dtype (Dtype, optional): Type of the elements. Default: ``float32``.
///
/// Returns:
///     array: A matrix of ``n`` by ``n``.
#[pyfunction]
#[pyo3(
    signature = (n, dtype=None, *, stream=None),
    text_signature = "(n, dtype=None, *, stream=None)"
)]
fn identity(n: Size, dtype: Option<PyDtype>, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::identity(n.0, or_float32(dtype)))
}

/// Ones on and below a diagonal, zeros above.
///
/// Args:
///     n (int): Number of rows.
///     m (int, optional): Number of columns. Default: ``n``.
///     k (int, optional): The diagonal; positive ones are above the main one. Default: ``0``.
///     dtype (Dtype, optional): Type of the elements. Default: ``float32``.
///
/// Returns:
///     array: A matrix of ``n`` by ``m``.
#[pyfunction]
#[pyo3(signature = (n, m=None, k=0, dtype=None, *, stream=None))]
fn tri(
    n: Size,
    m: Option<Size>,
    k: isize,
    dtype: Option<PyDtype>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let m = m.map_or(n.0, |m| m.0);
    apply(stream, || ops::tri(n.0, m, k, or_float32(dtype)))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: ones ones_like zeros zeros_like full full_like eye identity tri);
    aliases(module, &[("empty", "zeros"), ("empty_like", "zeros_like")])
}
