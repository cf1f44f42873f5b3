//! Choices between elements.

use mlx::ops::{self, Operand as _};
use pyo3::{prelude::*, types::PyModule};

use crate::{
    arguments::{AnyArray, ArrayArg, Operand},
    array::{PyArray, apply},
    functions,
    stream::Target,
};

/// Elements of ``x`` where the condition is true, else of ``y``. The shapes broadcast.
///
/// Args:
///     condition (array): What decides.
///     x (array): Elements where it is true.
///     y (array): Elements where it is false.
///
/// Returns:
///     array: The elements chosen, in the promoted dtype of ``x`` and ``y``.
///
/// Example:
///     >>> mx.where(mx.array([True, False]), 1, mx.array([5, 6]))
///     array([1, 6], dtype=None)
#[pyfunction(name = "where")]
#[pyo3(signature = (condition, x, y, /, *, stream=None))]
fn where_(
    condition: AnyArray,
    x: Operand,
    y: Operand,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::where_(&condition, x, y))
}

/// Elements limited to a range. The shapes broadcast.
///
/// Args:
///     a (array): Input array.
///     a_min (scalar or array, optional): The least value; ``None`` for no such limit.
///     a_max (scalar or array, optional): The largest value; ``None`` for no such limit.
///
/// Returns:
///     array: The limited elements.
#[pyfunction]
#[pyo3(signature = (a, /, a_min, a_max, *, stream=None))]
fn clip(
    a: ArrayArg,
    a_min: Option<Operand>,
    a_max: Option<Operand>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || {
        let limit = |limit: &Option<Operand>| {
            limit.as_ref().map(|limit| limit.to_array(Some(a.dtype()))).transpose()
        };
        ops::clip(&a, limit(&a_min)?.as_ref(), limit(&a_max)?.as_ref())
    })
}

/// Numbers in place of NaN and infinities.
///
/// Args:
///     a (array): Input array or scalar.
///     nan (float): Instead of NaN. Default: ``0``.
///     posinf (float, optional): Instead of positive infinity. Default: the largest number of the dtype.
///     neginf (float, optional): Instead of negative infinity. Default: the least number of the dtype.
///
/// Returns:
///     array: Finite numbers in the shape and dtype of ``a``.
#[pyfunction]
#[pyo3(
    signature = (a, nan=0.0, posinf=None, neginf=None, *, stream=None),
    text_signature = "(a, nan=0, posinf=None, neginf=None, *, stream=None)"
)]
fn nan_to_num(
    a: AnyArray,
    nan: f32,
    posinf: Option<f32>,
    neginf: Option<f32>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || ops::nan_to_num(&a, nan, posinf, neginf))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: where_ clip nan_to_num);
    Ok(())
}
