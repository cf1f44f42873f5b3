//! Order: sorting, partitions, search, and unique elements.

use mlx::{
    Array, Error,
    ops::{self, Operand as _},
};
use pyo3::{IntoPyObjectExt, prelude::*, types::PyModule};

use super::tuple;
use crate::{
    arguments::{ArrayArg, Operand, Size},
    array::{PyArray, apply},
    functions,
    stream::{Target, on},
};

/// Works along an axis, or on the flattened array.
fn along(
    a: &Array,
    axis: Option<isize>,
    op: impl FnOnce(&Array, isize) -> mlx::Result<Array>,
) -> mlx::Result<Array> {
    match axis {
        Some(axis) => op(a, axis),
        None => op(&ops::flatten(a, 0, -1)?, 0),
    }
}

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Args:
        ///     a (array): Input array.
        ///     axis (int, optional): The axis to sort; the array is flattened for ``None``. Default: ``-1``.
        ///
        /// Returns:
        ///     array: The result.
        #[pyfunction]
        #[pyo3(
            signature = (a, /, axis=-1, *, stream=None),
            text_signature = "(a, /, axis=-1, *, stream=None)"
        )]
        fn $name(a: ArrayArg, axis: Option<isize>, stream: Option<Target>) -> PyResult<PyArray> {
            apply(stream, || along(&a, axis, ops::$name))
        }
    )*};
}

orders! {
    /// Elements in ascending order; NaN comes last.
    sort;
    /// Indices of the elements in ascending order; equal ones keep theirs.
    argsort;
}

macro_rules! partitions {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        /// Smaller elements come before it, larger ones behind it, in no particular order.
        ///
        /// Args:
        ///     a (array): Input array.
        ///     kth (int): The index that is in its place; negative ones count from the end.
        ///     axis (int, optional): The axis; the array is flattened for ``None``. Default: ``-1``.
        ///
        /// Returns:
        ///     array: The result.
        #[pyfunction]
        #[pyo3(
            signature = (a, /, kth, axis=-1, *, stream=None),
            text_signature = "(a, /, kth, axis=-1, *, stream=None)"
        )]
        fn $name(
            a: ArrayArg,
            kth: isize,
            axis: Option<isize>,
            stream: Option<Target>,
        ) -> PyResult<PyArray> {
            apply(stream, || along(&a, axis, |a, axis| ops::$name(a, kth, axis)))
        }
    )*};
}

partitions! {
    /// Elements in an order in which the ``kth`` is where sorting would put it.
    partition;
    /// Indices of the elements in an order in which the ``kth`` is where sorting would put it.
    argpartition;
}

/// The largest elements, in no particular order.
///
/// Args:
///     a (array): Input array.
///     k (int): How many.
///     axis (int, optional): The axis; the array is flattened for ``None``. Default: ``-1``.
///
/// Returns:
///     array: The ``k`` largest elements along the axis.
#[pyfunction]
#[pyo3(
    signature = (a, /, k, axis=-1, *, stream=None),
    text_signature = "(a, /, k, axis=-1, *, stream=None)"
)]
fn topk(a: ArrayArg, k: isize, axis: Option<isize>, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || {
        let message = || format!("Received invalid k={k} for array with shape: {:?}", a.shape());
        let k = usize::try_from(k).map_err(|_| Error::invalid("topk", message()))?;
        along(&a, axis, |a, axis| ops::topk(a, k, axis))
    })
}

/// Where values belong in a sorted array.
///
/// Args:
///     sorted_sequence (array): Elements in ascending order, along one axis.
///     values (array): Values to look for.
///     side (str): ``"left"``: before equal elements. ``"right"``: behind them. Default: ``"left"``.
///
/// Returns:
///     array: Indices, ``uint32``, in the shape of ``values``.
#[pyfunction]
#[pyo3(signature = (sorted_sequence, values, /, side="left", *, stream=None))]
fn searchsorted(
    sorted_sequence: ArrayArg,
    values: ArrayArg,
    side: &str,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::searchsorted(&sorted_sequence, &*values, side))
}

/// The unique elements in ascending order, as many as ``size`` says, for shapes never depend on elements.
///
/// Args:
///     a (array): Input array.
///     size (int): How many to return: only the smallest ones if there are more.
///     return_index (bool): Also where each occurs first in the flattened array. Default: ``False``.
///     return_inverse (bool): Also the index of each element among the unique ones. Default: ``False``.
///     return_counts (bool): Also how often each occurs. Default: ``False``.
///     fill_value (scalar or array, optional): What comes behind the last one. Default: the first one.
///
/// Returns:
///     array or tuple(array, ...): The unique elements, then what else was asked for.
#[pyfunction]
#[pyo3(signature = (
    a, /, size, return_index=false, return_inverse=false, return_counts=false, fill_value=None, *,
    stream=None
))]
#[allow(clippy::too_many_arguments, reason = "MLX's arguments")]
fn unique<'py>(
    py: Python<'py>,
    a: ArrayArg,
    size: Size,
    return_index: bool,
    return_inverse: bool,
    return_counts: bool,
    fill_value: Option<Operand>,
    stream: Option<Target>,
) -> PyResult<Bound<'py, PyAny>> {
    let unique = on(stream, || {
        let fill = fill_value.map(|fill| fill.to_array(Some(a.dtype()))).transpose()?;
        ops::unique(&a, size.0, fill.as_ref())
    })?;
    let asked = [
        (return_index, unique.index),
        (return_inverse, unique.inverse),
        (return_counts, unique.counts),
    ];
    let mut parts = vec![PyArray::from(unique.values)];
    parts.extend(asked.into_iter().filter(|(asked, _)| *asked).map(|(_, part)| part.into()));
    match parts.len() {
        1 => parts.remove(0).into_bound_py_any(py),
        _ => Ok(tuple(py, parts)?.into_any()),
    }
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: sort argsort partition argpartition topk searchsorted unique);
    Ok(())
}
