//! Diagonals and triangles.

use mlx::ops;
use pyo3::{prelude::*, types::PyModule};

use crate::{
    arguments::ArrayArg,
    array::{PyArray, apply},
    dtype::PyDtype,
    functions,
    stream::Target,
};

macro_rules! triangles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Args:
        ///     x (array): Input array of at least two axes.
        ///     k (int): The diagonal; positive ones are above the main one. Default: ``0``.
        ///
        /// Returns:
        ///     array: The triangles of the matrices.
        #[pyfunction]
        #[pyo3(signature = (x, k=0, *, stream=None))]
        fn $name(x: ArrayArg, k: isize, stream: Option<Target>) -> PyResult<PyArray> {
            apply(stream, || ops::$name(&x, k))
        }
    )*};
}

triangles! {
    /// Zeros above a diagonal.
    tril;
    /// Zeros below a diagonal.
    triu;
}

/// A matrix with elements on a diagonal, or the diagonal of a matrix.
///
/// Args:
///     a (array): Elements along one axis, or a matrix.
///     k (int): The diagonal; positive ones are above the main one. Default: ``0``.
///
/// Returns:
///     array: The matrix of the elements, or the elements of the matrix.
#[pyfunction]
#[pyo3(signature = (a, /, k=0, *, stream=None))]
fn diag(a: ArrayArg, k: isize, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::diag(&a, k))
}

/// The diagonals of two axes, along a new last axis in their place.
///
/// Args:
///     a (array): Input array of at least two axes.
///     offset (int): The diagonal; positive ones are above the main one. Default: ``0``.
///     axis1 (int): The axis of the rows. Default: ``0``.
///     axis2 (int): The axis of the columns. Default: ``1``.
///
/// Returns:
///     array: The diagonals.
#[pyfunction]
#[pyo3(signature = (a, offset=0, axis1=0, axis2=1, stream=None))]
fn diagonal(
    a: ArrayArg,
    offset: isize,
    axis1: isize,
    axis2: isize,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::diagonal(&a, offset, axis1, axis2))
}

#[pymethods]
impl PyArray {
    /// A matrix with the elements on a diagonal, or the diagonal of a matrix.
    #[pyo3(signature = (k=0, *, stream=None))]
    fn diag(&self, k: isize, stream: Option<Target>) -> PyResult<PyArray> {
        apply(stream, || ops::diag(&self.array(), k))
    }

    /// The diagonals of two axes, along a new last axis in their place.
    #[pyo3(signature = (offset=0, axis1=0, axis2=1, stream=None))]
    fn diagonal(
        &self,
        offset: isize,
        axis1: isize,
        axis2: isize,
        stream: Option<Target>,
    ) -> PyResult<PyArray> {
        apply(stream, || ops::diagonal(&self.array(), offset, axis1, axis2))
    }
}

/// The sums of the diagonals of two axes.
///
/// Args:
///     a (array): Input array of at least two axes.
///     offset (int): The diagonal; positive ones are above the main one. Default: ``0``.
///     axis1 (int): The axis of the rows. Default: ``0``.
///     axis2 (int): The axis of the columns. Default: ``1``.
///     dtype (Dtype, optional): Convert the elements first. Default: that of ``a``.
///
/// Returns:
///     array: The sums.
#[pyfunction]
#[pyo3(signature = (a, /, offset=0, axis1=0, axis2=1, dtype=None, *, stream=None))]
fn trace(
    a: ArrayArg,
    offset: isize,
    axis1: isize,
    axis2: isize,
    dtype: Option<PyDtype>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::trace(&a, offset, axis1, axis2, dtype.map(|dtype| dtype.0)))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: tril triu diag diagonal trace);
    Ok(())
}
