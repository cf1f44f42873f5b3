//! Repetition: broadcasting, tiles and grids.

use mlx::{Error, ops};
use pyo3::{
    prelude::*,
    types::{PyModule, PyTuple},
};

use super::{tuple, within_32_bits};
use crate::{
    arguments::{AnyArray, ArrayArg, Arrays, Sizes},
    array::{PyArray, apply},
    error::OrRaise,
    functions,
    stream::{Target, on},
};

/// Repeats axes of size 1, and adds leading ones, to have a shape. Nothing is copied.
///
/// Args:
///     a (array): Input array or scalar.
///     shape (list(int)): The shape.
///
/// Returns:
///     array: The array of that shape.
#[pyfunction]
#[pyo3(signature = (a, /, shape, *, stream=None))]
fn broadcast_to(a: AnyArray, shape: Sizes, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::broadcast_to(&a, &shape.0))
}

/// All arrays in the shape that they broadcast to.
///
/// Args:
///     *arrays (array): Input arrays.
///
/// Returns:
///     list(array): The arrays of that shape.
#[pyfunction]
#[pyo3(signature = (*arrays, stream=None))]
fn broadcast_arrays(arrays: Arrays, stream: Option<Target>) -> PyResult<Vec<PyArray>> {
    apply(stream, || ops::broadcast_arrays(&arrays.references()))
}

/// The shape that shapes broadcast to.
///
/// Args:
///     *shapes (list(int)): The shapes.
///
/// Returns:
///     tuple(int): Their joint shape.
#[pyfunction]
#[pyo3(signature = (*shapes))]
fn broadcast_shapes<'py>(py: Python<'py>, shapes: Vec<Sizes>) -> PyResult<Bound<'py, PyTuple>> {
    let shapes: Vec<&[usize]> = shapes.iter().map(|shape| shape.0.as_slice()).collect();
    let joint = ops::broadcast_shapes(&shapes).or_raise()?;
    PyTuple::new(py, joint.iter())
}

/// Copies of an array one after the other along each axis.
///
/// Args:
///     a (array): Input array.
///     reps (int or list(int)): How many for each axis; for the last one if it is one number.
///
/// Returns:
///     array: The tiles.
#[pyfunction]
#[pyo3(signature = (a, reps, /, *, stream=None))]
fn tile(a: ArrayArg, reps: Sizes, stream: Option<Target>) -> PyResult<PyArray> {
    within_32_bits(on(stream, || ops::tile(&a, &reps.0))?)
}

/// Each element several times, one after the other.
///
/// Args:
///     array (array): Input array.
///     repeats (int): How many times.
///     axis (int, optional): The axis to repeat along; without one the array is flattened.
///
/// Returns:
///     array: The repeated elements.
#[pyfunction]
#[pyo3(signature = (array, repeats, axis=None, *, stream=None))]
fn repeat(
    array: ArrayArg,
    repeats: isize,
    axis: Option<isize>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let message = "Number of repeats cannot be negative";
    let repeated = on(stream, || {
        let repeats = usize::try_from(repeats).map_err(|_| Error::invalid("repeat", message))?;
        ops::repeat(&array, repeats, axis)
    });
    within_32_bits(repeated?)
}

/// Grids of coordinates from their values along each axis.
///
/// Args:
///     *arrays (array): The values, one axis each.
///     sparse (bool, optional): Leave axes of size 1 instead of repeating. Default: ``False``.
///     indexing (str, optional): ``"xy"`` exchanges the first two axes, ``"ij"`` does not. Default: ``"xy"``.
///
/// Returns:
///     tuple(array, ...): A grid for each axis.
#[pyfunction]
#[pyo3(signature = (*arrays, sparse=false, indexing="xy", stream=None))]
fn meshgrid<'py>(
    py: Python<'py>,
    arrays: Arrays,
    sparse: bool,
    indexing: &str,
    stream: Option<Target>,
) -> PyResult<Bound<'py, PyTuple>> {
    tuple(py, apply(stream, || ops::meshgrid(&arrays.references(), sparse, indexing))?)
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: broadcast_to broadcast_arrays broadcast_shapes tile repeat meshgrid);
    Ok(())
}
