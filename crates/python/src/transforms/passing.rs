//! `depends` and `stop_gradient`: arrays as they are, for what they mean to evaluation and derivatives.

use mlx::ops;
use pyo3::{prelude::*, types::PyModule};

use crate::{
    arguments::{ArrayArg, references},
    array::{PyArray, Wrap, apply},
    error::OrRaise,
    functions,
    stream::Target,
    trees,
};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: depends stop_gradient);
    Ok(())
}

/// The array that an argument is, or those that it lists.
fn listed(arrays: &Bound<'_, PyAny>) -> PyResult<Vec<ArrayArg>> {
    match trees::array_of(arrays) {
        Some(array) => Ok(vec![ArrayArg(array)]),
        None => arrays.extract(),
    }
}

/// Arrays that are there only when others are as well.
///
/// Args:
///     inputs (array or list(array)): The arrays.
///     dependencies (array or list(array)): The others.
///
/// Returns:
///     array or list(array): The arrays, as they were given.
///
/// Example:
///     >>> y = mx.depends(y, cache)
#[pyfunction]
fn depends<'py>(
    inputs: &Bound<'py, PyAny>,
    dependencies: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (arrays, others) = (listed(inputs)?, listed(dependencies)?);
    let mut outputs = ops::depends(&references(&arrays), &references(&others)).or_raise()?;
    match inputs.is_instance_of::<PyArray>() {
        true => trees::leaf(inputs.py(), outputs.remove(0)),
        false => outputs.wrap().into_pyobject(inputs.py()),
    }
}

/// The array, through which no derivative goes.
///
/// Args:
///     a (array): Input array.
///
/// Returns:
///     array: The same array.
#[pyfunction]
#[pyo3(signature = (a, /, *, stream=None))]
fn stop_gradient(a: ArrayArg, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::stop_gradient(&a))
}
