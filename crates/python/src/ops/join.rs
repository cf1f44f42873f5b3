//! Joining arrays, and taking them apart.

use mlx::{Array, Error, ops};
use pyo3::{
    prelude::*,
    types::{PyModule, PyTuple},
};

use super::{tuple, within_32_bits};
use crate::{
    arguments::{ArrayArg, Arrays, Axes},
    array::{PyArray, apply},
    functions,
    stream::{Target, on},
};

/// Along an axis; flattened without one.
fn joined(arrays: &Arrays, axis: Option<isize>) -> mlx::Result<Array> {
    let arrays = arrays.references();
    match axis {
        Some(axis) => ops::concatenate(&arrays, axis),
        None => {
            let flat = arrays.into_iter().map(|a| ops::flatten(a, 0, -1));
            let flat = flat.collect::<mlx::Result<Vec<_>>>()?;
            ops::concatenate(&flat.iter().collect::<Vec<_>>(), 0)
        }
    }
}

macro_rules! joins {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Args:
        ///     arrays (list(array)): Arrays that differ in the size of this axis only.
        ///     axis (int, optional): The axis; the arrays are flattened for ``None``. Default: ``0``.
        ///
        /// Returns:
        ///     array: The arrays one after the other, in their promoted dtype.
        #[pyfunction]
        #[pyo3(signature = (arrays, axis=0, *, stream=None))]
        fn $name(
            arrays: Arrays,
            axis: Option<isize>,
            stream: Option<Target>,
        ) -> PyResult<PyArray> {
            within_32_bits(on(stream, || joined(&arrays, axis))?)
        }
    )*};
}

joins! {
    /// Joins arrays along an axis.
    concatenate;
    /// Joins arrays along an axis: :func:`concatenate` in the words of the array API.
    concat;
}

/// Joins arrays along a new axis.
///
/// Args:
///     arrays (list(array)): Arrays of the same shape.
///     axis (int, optional): What the new axis becomes. Default: ``0``.
///
/// Returns:
///     array: The stacked arrays.
#[pyfunction]
#[pyo3(signature = (arrays, axis=0, *, stream=None))]
fn stack(arrays: Arrays, axis: Option<isize>, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::stack(&arrays.references(), axis.unwrap_or(0)))
}

/// A number means equal parts, a list where they end.
fn parts(a: &Array, at: &Axes, axis: isize) -> mlx::Result<Vec<Array>> {
    match at {
        Axes::Several(indices) => ops::split_at(a, indices, axis),
        Axes::One(parts) => {
            let message = || format!("Cannot split into {parts} sub arrays.");
            let parts = usize::try_from(*parts).map_err(|_| Error::invalid("split", message()))?;
            ops::split(a, parts, axis)
        }
    }
}

/// Parts of an array along an axis.
///
/// Args:
///     a (array): Input array.
///     indices_or_sections (int or list(int)): How many equal parts, or where each next one starts.
///     axis (int, optional): The axis. Default: ``0``.
///
/// Returns:
///     list(array): The parts.
#[pyfunction]
#[pyo3(signature = (a, /, indices_or_sections, axis=0, *, stream=None))]
fn split(
    a: ArrayArg,
    indices_or_sections: Axes,
    axis: isize,
    stream: Option<Target>,
) -> PyResult<Vec<PyArray>> {
    apply(stream, || parts(&a, &indices_or_sections, axis))
}

#[pymethods]
impl PyArray {
    /// Parts of the array along an axis.
    #[pyo3(signature = (indices_or_sections, axis=0, *, stream=None))]
    fn split(
        &self,
        indices_or_sections: Axes,
        axis: isize,
        stream: Option<Target>,
    ) -> PyResult<Vec<PyArray>> {
        apply(stream, || parts(&self.array(), &indices_or_sections, axis))
    }
}

/// The elements of an axis, each an array without it.
///
/// Args:
///     x (array): Input array.
///     axis (int): The axis. Default: ``0``.
///
/// Returns:
///     tuple(array, ...): The elements.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis=0, stream=None))]
fn unstack<'py>(
    py: Python<'py>,
    x: ArrayArg,
    axis: isize,
    stream: Option<Target>,
) -> PyResult<Bound<'py, PyTuple>> {
    tuple(py, apply(stream, || ops::unstack(&x, axis))?)
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: concatenate concat stack split unstack);
    Ok(())
}
