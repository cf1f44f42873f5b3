//! `vjp` and `jvp`: products with the Jacobian.

use mlx::{Array, transforms};
use pyo3::{
    prelude::*,
    types::{PyModule, PyTuple},
};

use crate::{
    arguments::ArrayArg,
    array::{PyArray, Wrap},
    error::{OrRaise, to_core},
    functions, trees,
};

/// Results of a function, and products.
type Products = (Vec<PyArray>, Vec<PyArray>);

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: vjp jvp);
    Ok(())
}

fn owned(arrays: Vec<ArrayArg>) -> Vec<Array> {
    arrays.into_iter().map(|array| array.0).collect()
}

/// Calls a function of arrays, which returns an array or several.
fn called(function: &Bound<'_, PyAny>, arrays: &[Array]) -> PyResult<Vec<Array>> {
    let py = function.py();
    let args = arrays.iter().map(|array| trees::leaf(py, array.clone()));
    let args = PyTuple::new(py, args.collect::<PyResult<Vec<_>>>()?)?;
    let returned = function.call1(args)?;
    match trees::array_of(&returned) {
        Some(array) => Ok(vec![array]),
        None => returned.extract().map(owned),
    }
}

/// The products of cotangents with the Jacobian of ``fun``.
///
/// Args:
///     fun (Callable): A function of arrays that returns an array or a list of arrays.
///     primals (list(array)): Where the Jacobian is taken.
///     cotangents (list(array)): One for each result of ``fun``, of its shape.
///
/// Returns:
///     tuple(list(array), list(array)): The results of ``fun``, and a product for each primal.
///
/// Example:
///     >>> outs, vjps = mx.vjp(mx.sin, (mx.array(1.0),), (mx.array(1.0),))
#[pyfunction]
fn vjp(
    fun: &Bound<'_, PyAny>,
    primals: Vec<ArrayArg>,
    cotangents: Vec<ArrayArg>,
) -> PyResult<Products> {
    let of = |arrays: &[Array]| called(fun, arrays).map_err(to_core);
    let (outputs, products) =
        transforms::vjp(of, &owned(primals), &owned(cotangents)).or_raise()?;
    Ok((outputs.wrap(), products.wrap()))
}

/// The products of the Jacobian of ``fun`` with tangents.
///
/// Args:
///     fun (Callable): A function of arrays that returns an array or a list of arrays.
///     primals (list(array)): Where the Jacobian is taken.
///     tangents (list(array)): One for each primal, of its shape.
///
/// Returns:
///     tuple(list(array), list(array)): The results of ``fun``, and a product for each of them.
///
/// Example:
///     >>> outs, jvps = mx.jvp(mx.sin, (mx.array(1.0),), (mx.array(1.0),))
#[pyfunction]
fn jvp(
    fun: &Bound<'_, PyAny>,
    primals: Vec<ArrayArg>,
    tangents: Vec<ArrayArg>,
) -> PyResult<Products> {
    let of = |arrays: &[Array]| called(fun, arrays).map_err(to_core);
    let (outputs, products) = transforms::jvp(of, &owned(primals), &owned(tangents)).or_raise()?;
    Ok((outputs.wrap(), products.wrap()))
}
