//! Shapes: the same elements along other axes.

use mlx::{Array, ops};
use pyo3::{
    IntoPyObjectExt,
    prelude::*,
    types::{PyModule, PyTuple},
};

use crate::{
    arguments::{ArrayArg, Arrays, Axes, Integers, integers, one_or_several},
    array::{PyArray, apply},
    functions,
    stream::Target,
};

/// The integers of `*numbers`: as many arguments, or one list of them.
pub(super) fn listed(numbers: &Bound<'_, PyTuple>) -> PyResult<Integers> {
    match numbers.len() {
        1 => one_or_several(&numbers.get_item(0)?),
        _ => integers(numbers.as_any()),
    }
    .map(Integers)
}

/// The same elements in another shape.
///
/// Args:
///     a (array): Input array.
///     shape (list(int)): Its sizes; one may be -1, and follows from the others.
///
/// Returns:
///     array: The array of that shape.
#[pyfunction]
#[pyo3(signature = (a, /, shape, *, stream=None))]
fn reshape(a: ArrayArg, shape: Integers, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::reshape(&a, &shape.0))
}

/// Joins axes into one.
///
/// Args:
///     a (array): Input array.
///     start_axis (int): The first one. Default: ``0``.
///     end_axis (int): The last one. Default: ``-1``.
///
/// Returns:
///     array: The array with these axes joined; one axis of size 1 for a scalar.
#[pyfunction]
#[pyo3(
    signature = (a, /, start_axis=0, end_axis=-1, *, stream=None),
    text_signature = "(a, /, start_axis=0, end_axis=-1, *, stream=None)"
)]
fn flatten(
    a: ArrayArg,
    start_axis: isize,
    end_axis: isize,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::flatten(&a, start_axis, end_axis))
}

/// Splits an axis into several.
///
/// Args:
///     a (array): Input array.
///     axis (int): The axis.
///     shape (list(int)): Sizes of what it becomes; one may be -1, and follows from the others.
///
/// Returns:
///     array: The array with this axis split.
#[pyfunction]
#[pyo3(signature = (a, /, axis, shape, *, stream=None))]
fn unflatten(
    a: ArrayArg,
    axis: isize,
    shape: Integers,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::unflatten(&a, axis, &shape.0))
}

/// An empty list of axes removes none; core takes it for all of size 1.
fn squeezed(a: &Array, axis: &Option<Axes>) -> mlx::Result<Array> {
    match axis {
        Some(axes) if axes.as_slice().is_empty() => Ok(a.clone()),
        axes => ops::squeeze(a, Axes::or_all(axes)),
    }
}

/// Removes axes of size 1.
///
/// Args:
///     a (array): Input array.
///     axis (int or list(int), optional): The axes; all of size 1 if there is none.
///
/// Returns:
///     array: The array without these axes.
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, *, stream=None))]
fn squeeze(a: ArrayArg, axis: Option<Axes>, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || squeezed(&a, &axis))
}

/// Adds axes of size 1.
///
/// Args:
///     a (array): Input array.
///     axis (int or list(int)): What they become in the result.
///
/// Returns:
///     array: The array with these axes.
#[pyfunction]
#[pyo3(signature = (a, /, axis, *, stream=None))]
fn expand_dims(a: ArrayArg, axis: Axes, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::expand_dims(&a, axis.as_slice()))
}

#[pymethods]
impl PyArray {
    /// The same elements in another shape: ``a.reshape(2, -1)`` or ``a.reshape((2, -1))``.
    #[pyo3(signature = (*shape, stream=None))]
    fn reshape(&self, shape: &Bound<'_, PyTuple>, stream: Option<Target>) -> PyResult<PyArray> {
        let shape = listed(shape)?;
        apply(stream, || ops::reshape(&self.array(), &shape.0))
    }

    /// Joins axes into one.
    #[pyo3(
        signature = (start_axis=0, end_axis=-1, *, stream=None),
        text_signature = "($self, start_axis=0, end_axis=-1, *, stream=None)"
    )]
    fn flatten(
        &self,
        start_axis: isize,
        end_axis: isize,
        stream: Option<Target>,
    ) -> PyResult<PyArray> {
        apply(stream, || ops::flatten(&self.array(), start_axis, end_axis))
    }

    /// Removes axes of size 1.
    #[pyo3(signature = (axis=None, *, stream=None))]
    fn squeeze(&self, axis: Option<Axes>, stream: Option<Target>) -> PyResult<PyArray> {
        apply(stream, || squeezed(&self.array(), &axis))
    }
}

macro_rules! at_least {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Args:
        ///     *arys (array): Input arrays.
        ///
        /// Returns:
        ///     array or list(array): One array for one, a list for several.
        #[pyfunction]
        #[pyo3(signature = (*arys, stream=None))]
        fn $name<'py>(
            py: Python<'py>,
            arys: Arrays,
            stream: Option<Target>,
        ) -> PyResult<Bound<'py, PyAny>> {
            let arrays = apply(stream, || {
                arys.references().into_iter().map(ops::$name).collect::<mlx::Result<Vec<_>>>()
            });
            one_or_list(py, arrays?)
        }
    )*};
}

/// One array by itself, any other number as a list.
fn one_or_list<'py>(py: Python<'py>, mut arrays: Vec<PyArray>) -> PyResult<Bound<'py, PyAny>> {
    match arrays.len() {
        1 => arrays.remove(0).into_bound_py_any(py),
        _ => arrays.into_bound_py_any(py),
    }
}

at_least! {
    /// The arrays with at least one axis.
    atleast_1d;
    /// The arrays with at least two axes; new ones come in front.
    atleast_2d;
    /// The arrays with at least three axes; the last new one comes behind, others in front.
    atleast_3d;
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: reshape flatten unflatten squeeze expand_dims);
    functions!(module: atleast_1d atleast_2d atleast_3d);
    Ok(())
}
