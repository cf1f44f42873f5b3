//! Evaluating trees of arrays.

use mlx::Array;
use pyo3::{
    prelude::*,
    types::{PyModule, PyTuple},
};

use crate::{error::released, functions, trees};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: eval async_eval);
    Ok(())
}

/// Evaluates arrays, or trees of arrays, and waits until they can be read.
///
/// Args:
///     *args (arrays or trees of arrays): Lists, tuples and dictionaries are trees. Leaves that are no arrays
///       are passed over.
#[pyfunction]
#[pyo3(signature = (*args))]
fn eval(py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<()> {
    let arrays = trees::arrays(args, false)?;
    released(py, || mlx::eval(&arrays.iter().collect::<Vec<&Array>>()))
}

/// Starts evaluating arrays, or trees of arrays, and returns without waiting for them.
///
/// Args:
///     *args (arrays or trees of arrays): As for :func:`eval`.
///
/// Example:
///     >>> y = mx.exp(mx.array(1.0))
///     >>> mx.async_eval(y)
///     >>> print(y)
#[pyfunction]
#[pyo3(signature = (*args))]
fn async_eval(py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<()> {
    let arrays = trees::arrays(args, false)?;
    released(py, || mlx::async_eval_detached(&arrays.iter().collect::<Vec<&Array>>()))
}
