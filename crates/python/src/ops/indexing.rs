//! Elements at indices.

use mlx::{Array, Error, ops};
use pyo3::{
    prelude::*,
    types::{PyInt, PyModule},
};

use crate::{
    arguments::{ArrayArg, Axes, Sizes, dimension},
    array::{PyArray, apply},
    functions,
    stream::Target,
};

/// Where to take elements from: one place, whose axis goes away, or the places that an array says.
enum Places {
    One(isize),
    Array(Array),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Places {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.is_instance_of::<PyInt>() {
            true => dimension(&object).map(Places::One),
            false => ArrayArg::extract(object).map(|array| Places::Array(array.0)),
        }
    }
}

/// The slice at one place of an axis, without the axis.
fn take_one(a: &Array, index: isize, axis: isize) -> mlx::Result<Array> {
    let ndim = a.ndim() as isize;
    if !(-ndim..ndim).contains(&axis) {
        let message = format!("Axis {axis} is out of bounds for array with {ndim} dimensions.");
        return Err(Error::out_of_range("take", message));
    }
    let size = a.dim(axis) as isize;
    let from = if index < 0 { index + size } else { index };
    if !(0..size).contains(&from) {
        let message = format!("Index {index} is out of bounds for axis {axis} with size {size}.");
        return Err(Error::out_of_range("take", message));
    }
    ops::squeeze(&ops::slice_axis(a, axis, from, from + 1)?, &[axis])
}

/// Slices along an axis.
///
/// Args:
///     a (array): Input array.
///     indices (int or array): Which slices; negative indices count from the end.
///     axis (int, optional): The axis; without one the array is flattened.
///
/// Returns:
///     array: The slices; the axis becomes the axes of ``indices``.
#[pyfunction]
#[pyo3(signature = (a, /, indices, axis=None, *, stream=None))]
fn take(
    a: ArrayArg,
    indices: Places,
    axis: Option<isize>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || {
        let (a, axis) = match axis {
            Some(axis) => (a.0.clone(), axis),
            None => (ops::reshape(&a, &[-1])?, 0),
        };
        match &indices {
            Places::One(index) => take_one(&a, *index, axis),
            Places::Array(indices) => ops::take(&a, indices, axis),
        }
    })
}

/// Elements at indices along an axis, one for each index; the other axes broadcast.
///
/// Args:
///     a (array): Input array.
///     indices (array): The indices, of as many axes as ``a``.
///     axis (int, optional): The axis; the array is flattened for ``None``. Default: ``-1``.
///
/// Returns:
///     array: The elements.
#[pyfunction]
#[pyo3(
    signature = (a, /, indices, axis=-1, *, stream=None),
    text_signature = "(a, /, indices, axis=-1, *, stream=None)"
)]
fn take_along_axis(
    a: ArrayArg,
    indices: ArrayArg,
    axis: Option<isize>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || match axis {
        Some(axis) => ops::take_along_axis(&a, &indices, axis),
        None => ops::take_along_axis(&ops::reshape(&a, &[-1])?, &indices, 0),
    })
}

/// The array with values put at indices along an axis, one at each index.
///
/// Args:
///     a (array): Input array.
///     indices (array): The indices, of as many axes as ``a``.
///     values (array): What to put there; it broadcasts to ``indices``.
///     axis (int, optional): The axis; without one the array is flattened meanwhile.
///
/// Returns:
///     array: A new array of the shape of ``a``.
#[pyfunction]
#[pyo3(signature = (a, /, indices, values, axis=None, *, stream=None))]
fn put_along_axis(
    a: ArrayArg,
    indices: ArrayArg,
    values: ArrayArg,
    axis: Option<isize>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || match axis {
        Some(axis) => ops::put_along_axis(&a, &indices, &values, axis),
        None => {
            let shape: Vec<isize> = a.shape().iter().map(|&size| size as isize).collect();
            let flat = ops::reshape(&a, &[-1])?;
            ops::reshape(&ops::put_along_axis(&flat, &indices, &values, 0)?, &shape)
        }
    })
}

/// A slice whose place is computed.
///
/// Args:
///     a (array): Input array.
///     start_indices (array): Where it starts along each of ``axes``.
///     axes (list(int)): The axes; along others it starts at 0.
///     slice_size (list(int)): Its sizes, one for each axis of ``a``.
///
/// Returns:
///     array: The slice.
#[pyfunction]
#[pyo3(signature = (a, start_indices, axes, slice_size, *, stream=None))]
fn slice(
    a: ArrayArg,
    start_indices: ArrayArg,
    axes: Axes,
    slice_size: Sizes,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::dynamic_slice(&a, &start_indices, axes.as_slice(), &slice_size.0))
}

/// The array with a slice replaced whose place is computed.
///
/// Args:
///     a (array): Input array.
///     update (array): The slice.
///     start_indices (array): Where it starts along each of ``axes``.
///     axes (list(int)): The axes; along others it starts at 0.
///
/// Returns:
///     array: A new array of the shape of ``a``.
#[pyfunction]
#[pyo3(signature = (a, update, start_indices, axes, *, stream=None))]
fn slice_update(
    a: ArrayArg,
    update: ArrayArg,
    start_indices: ArrayArg,
    axes: Axes,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::dynamic_slice_update(&a, &update, &start_indices, axes.as_slice()))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: take take_along_axis put_along_axis slice slice_update);
    Ok(())
}
