//! The order of axes, and of elements along them.

use mlx::{Array, Error, ops};
use pyo3::{
    prelude::*,
    types::{PyModule, PyTuple},
};

use super::shape::listed;
use crate::{
    arguments::{ArrayArg, Axes, Integers},
    array::{PyArray, apply},
    functions,
    stream::Target,
};

/// Transposes; no axes reverse their order. Core takes an empty list for that too.
fn transposed(a: &Array, axes: Option<&[isize]>) -> mlx::Result<Array> {
    match axes {
        Some([]) if a.ndim() > 0 => {
            let message = format!("Received 0 axes for array with {} dimensions.", a.ndim());
            Err(Error::invalid("transpose", message))
        }
        axes => ops::transpose(a, axes.unwrap_or(&[])),
    }
}

macro_rules! transposes {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Args:
        ///     a (array): Input array.
        ///     axes (list(int), optional): Where each axis of the result comes from. Default: the last one
        ///       first.
        ///
        /// Returns:
        ///     array: The array with its axes in that order.
        #[pyfunction]
        #[pyo3(signature = (a, /, axes=None, *, stream=None))]
        fn $name(
            a: ArrayArg,
            axes: Option<Integers>,
            stream: Option<Target>,
        ) -> PyResult<PyArray> {
            apply(stream, || transposed(&a, axes.as_ref().map(|axes| axes.0.as_slice())))
        }
    )*};
}

transposes! {
    /// Changes the order of the axes.
    transpose;
    /// Changes the order of the axes: :func:`transpose` in the words of the array API.
    permute_dims;
}

/// Exchanges the last two axes.
///
/// Args:
///     a (array): Input array of at least two axes.
///
/// Returns:
///     array: The transposed matrices.
#[pyfunction]
#[pyo3(signature = (a, /, *, stream=None))]
fn matrix_transpose(a: ArrayArg, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::matrix_transpose(&a))
}

/// Exchanges two axes.
///
/// Args:
///     a (array): Input array.
///     axis1 (int): One axis.
///     axis2 (int): The other axis.
///
/// Returns:
///     array: The array with these axes exchanged.
#[pyfunction]
#[pyo3(signature = (a, /, axis1, axis2, *, stream=None))]
fn swapaxes(a: ArrayArg, axis1: isize, axis2: isize, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::swapaxes(&a, axis1, axis2))
}

/// Moves an axis to another position.
///
/// Args:
///     a (array): Input array.
///     source (int): The axis.
///     destination (int): Its position in the result.
///
/// Returns:
///     array: The array with this axis moved.
#[pyfunction]
#[pyo3(signature = (a, /, source, destination, *, stream=None))]
fn moveaxis(
    a: ArrayArg,
    source: isize,
    destination: isize,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::moveaxis(&a, source, destination))
}

#[pymethods]
impl PyArray {
    /// Changes the order of the axes: ``a.transpose(1, 0)`` or ``a.transpose((1, 0))``; reverses it without
    /// arguments.
    #[pyo3(signature = (*axes, stream=None))]
    fn transpose(&self, axes: &Bound<'_, PyTuple>, stream: Option<Target>) -> PyResult<PyArray> {
        let axes = if axes.is_empty() { None } else { Some(listed(axes)?) };
        let axes = axes.as_ref().map(|axes| axes.0.as_slice());
        apply(stream, || transposed(&self.array(), axes))
    }

    /// Exchanges two axes.
    #[pyo3(signature = (axis1, axis2, *, stream=None))]
    fn swapaxes(&self, axis1: isize, axis2: isize, stream: Option<Target>) -> PyResult<PyArray> {
        apply(stream, || ops::swapaxes(&self.array(), axis1, axis2))
    }

    /// Moves an axis to another position.
    #[pyo3(signature = (source, destination, *, stream=None))]
    fn moveaxis(
        &self,
        source: isize,
        destination: isize,
        stream: Option<Target>,
    ) -> PyResult<PyArray> {
        apply(stream, || ops::moveaxis(&self.array(), source, destination))
    }

    /// The array with its axes in reverse order.
    #[getter(T)]
    fn reversed_axes(&self) -> PyResult<PyArray> {
        apply(None, || ops::transpose(&self.array(), &[]))
    }

    /// The array with its last two axes exchanged.
    #[getter(mT)]
    fn transposed_matrices(&self) -> PyResult<PyArray> {
        apply(None, || ops::matrix_transpose(&self.array()))
    }
}

/// Elements along axes in reverse order.
///
/// Args:
///     a (array): Input array.
///     axis (int or list(int), optional): The axes; all if there is none.
///
/// Returns:
///     array: The array turned round.
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, *, stream=None))]
fn flip(a: ArrayArg, axis: Option<Axes>, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || match &axis {
        // Core takes an empty list for all axes.
        Some(axes) if axes.as_slice().is_empty() => Ok(a.0.clone()),
        axes => ops::flip(&a, Axes::or_all(axes)),
    })
}

/// Elements shifted along axes; those that leave at one end come back at the other.
///
/// Args:
///     a (array): Input array.
///     shift (int or tuple(int)): How far, for each axis or for all of them; to the left if negative.
///     axis (int or tuple(int), optional): The axes; without one the array is flattened meanwhile.
///
/// Returns:
///     array: The shifted array.
// Upstream shows its arguments as positional, and takes them by name all the same.
#[pyfunction]
#[pyo3(
    signature = (a, shift, axis=None, *, stream=None),
    text_signature = "(a, shift, axis=None, /, *, stream=None)"
)]
fn roll(
    a: ArrayArg,
    shift: Integers,
    axis: Option<Axes>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let shift = shift.0.as_slice();
    apply(stream, || match &axis {
        None => ops::roll(&a, shift, &[]),
        Some(Axes::One(axis)) => ops::roll(&a, &[shift.iter().sum::<isize>()], &[*axis]),
        Some(Axes::Several(axes)) if axes.is_empty() => Ok(a.0.clone()),
        Some(Axes::Several(axes)) => ops::roll(&a, shift, axes),
    })
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: transpose permute_dims matrix_transpose swapaxes moveaxis flip roll);
    Ok(())
}
