//! Statistics along axes: reductions with arguments or results of their own.

use mlx::{Array, ops};
use pyo3::{prelude::*, types::PyModule};

use super::reduce::reduced;
use crate::{
    arguments::{ArrayArg, Axes},
    array::{PyArray, apply},
    functions,
    stream::Target,
};

/// Variance or standard deviation.
fn spread(
    a: &Array,
    axes: &Option<Axes>,
    keepdims: bool,
    ddof: isize,
    op: impl FnOnce(&Array, &[isize], bool, isize) -> mlx::Result<Array>,
) -> mlx::Result<Array> {
    reduced(a, axes, keepdims, |a, axes, keepdims| op(a, axes, keepdims, ddof))
}

/// The variance.
///
/// Args:
///     a (array): Input array.
///     axis (int or list(int), optional): Axis or axes to reduce over; all if there is none.
///     keepdims (bool, optional): Keep reduced axes as axes of size 1. Default: ``False``.
///     ddof (int, optional): The sum of squares is divided by ``N - ddof``. Default: ``0``.
///
/// Returns:
///     array: The variances.
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, keepdims=false, ddof=0, *, stream=None))]
fn var(
    a: ArrayArg,
    axis: Option<Axes>,
    keepdims: bool,
    ddof: isize,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || spread(&a, &axis, keepdims, ddof, ops::var))
}

/// The standard deviation: the square root of the variance.
///
/// Args:
///     a (array): Input array.
///     axis (int or list(int), optional): Axis or axes to reduce over; all if there is none.
///     keepdims (bool, optional): Keep reduced axes as axes of size 1. Default: ``False``.
///     ddof (int, optional): The sum of squares is divided by ``N - ddof``. Default: ``0``.
///
/// Returns:
///     array: The standard deviations.
// Another name in Rust, where `std` is the standard library.
#[pyfunction(name = "std")]
#[pyo3(signature = (a, /, axis=None, keepdims=false, ddof=0, *, stream=None))]
fn std_(
    a: ArrayArg,
    axis: Option<Axes>,
    keepdims: bool,
    ddof: isize,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || spread(&a, &axis, keepdims, ddof, ops::std))
}

#[pymethods]
impl PyArray {
    /// The variance; ``correction`` is the array API's name of ``ddof``.
    #[pyo3(signature = (axis=None, keepdims=false, ddof=0, *, correction=None, stream=None))]
    fn var(
        &self,
        axis: Option<Axes>,
        keepdims: bool,
        ddof: isize,
        correction: Option<isize>,
        stream: Option<Target>,
    ) -> PyResult<PyArray> {
        var(ArrayArg(self.array()), axis, keepdims, correction.unwrap_or(ddof), stream)
    }

    /// The standard deviation; ``correction`` is the array API's name of ``ddof``.
    #[pyo3(signature = (axis=None, keepdims=false, ddof=0, *, correction=None, stream=None))]
    fn std(
        &self,
        axis: Option<Axes>,
        keepdims: bool,
        ddof: isize,
        correction: Option<isize>,
        stream: Option<Target>,
    ) -> PyResult<PyArray> {
        std_(ArrayArg(self.array()), axis, keepdims, correction.unwrap_or(ddof), stream)
    }
}

/// The median: the middle element in ascending order, or the mean of the two in the middle.
///
/// Args:
///     a (array): Input array.
///     axis (int or list(int), optional): Axis or axes to reduce over; all if there is none.
///     keepdims (bool, optional): Keep reduced axes as axes of size 1. Default: ``False``.
///
/// Returns:
///     array: The medians; NaN where there is one.
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, keepdims=false, *, stream=None))]
fn median(
    a: ArrayArg,
    axis: Option<Axes>,
    keepdims: bool,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || reduced(&a, &axis, keepdims, ops::median))
}

/// The smallest and the largest element.
///
/// Args:
///     a (array): Input array.
///     axis (int or list(int), optional): Axis or axes to reduce over; all if there is none.
///     keepdims (bool, optional): Keep reduced axes as axes of size 1. Default: ``False``.
///
/// Returns:
///     tuple(array, array): Smallest and largest elements.
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, keepdims=false, *, stream=None))]
fn minmax(
    a: ArrayArg,
    axis: Option<Axes>,
    keepdims: bool,
    stream: Option<Target>,
) -> PyResult<(PyArray, PyArray)> {
    apply(stream, || reduced(&a, &axis, keepdims, ops::minmax))
}

/// How many elements are not zero.
///
/// Args:
///     a (array): Input array.
///     axis (int or list(int), optional): Axis or axes to count along; all if there is none.
///     keepdims (bool, optional): Keep reduced axes as axes of size 1. Default: ``False``.
///
/// Returns:
///     array: Numbers of elements, ``int32``.
#[pyfunction]
#[pyo3(signature = (a, /, *, axis=None, keepdims=false, stream=None))]
fn count_nonzero(
    a: ArrayArg,
    axis: Option<Axes>,
    keepdims: bool,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || reduced(&a, &axis, keepdims, ops::count_nonzero))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: var std_ median minmax count_nonzero);
    Ok(())
}
