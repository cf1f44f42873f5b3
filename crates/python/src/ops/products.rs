//! Products over axes of any number: contractions, outer products, Einstein's sums.

use mlx::{Error, ops};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyModule, PyTuple},
};
use smallvec::SmallVec;

use super::within_32_bits;
use crate::{
    arguments::{ArrayArg, Arrays, integers, one},
    array::{PyArray, apply},
    error::OrRaise,
    functions,
    stream::{Target, on},
};

/// Axes to contract: a number of them, or those of both arrays.
enum Contracted {
    Number(isize),
    Lists(SmallVec<[isize; 4]>, SmallVec<[isize; 4]>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Contracted {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Some(number) = one(&object)? {
            return Ok(Contracted::Number(number as isize));
        }
        let lists = object.try_iter()?.map(|list| integers::<isize>(&list?));
        match <[_; 2]>::try_from(lists.collect::<PyResult<Vec<_>>>()?) {
            Ok([a, b]) => Ok(Contracted::Lists(a, b)),
            Err(_) => {
                let message = "[tensordot] axes must be a list of two lists.";
                Err(PyValueError::new_err(message))
            }
        }
    }
}

/// Sums of products over axes of two arrays.
///
/// Args:
///     a (array): Input array.
///     b (array): Input array.
///     axes (int or list(list(int))): How many of the last axes of ``a`` and the first axes of ``b``, or two
///       lists of axes that pair up. Default: ``2``.
///
/// Returns:
///     array: The other axes of ``a``, then those of ``b``.
#[pyfunction]
#[pyo3(
    signature = (a, b, /, axes=Contracted::Number(2), *, stream=None),
    text_signature = "(a, b, /, axes=2, *, stream=None)"
)]
fn tensordot(
    a: ArrayArg,
    b: ArrayArg,
    axes: Contracted,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || match &axes {
        Contracted::Lists(left, right) => ops::tensordot_axes(&a, &b, left, right),
        Contracted::Number(number) => {
            let message = || format!("axes must not be negative but got {number}.");
            let number =
                usize::try_from(*number).map_err(|_| Error::invalid("tensordot", message()))?;
            ops::tensordot(&a, &b, number)
        }
    })
}

macro_rules! products {
    ($($(#[$doc:meta])* $name:ident $signature:tt;)*) => {$(
        $(#[$doc])*
        ///
        /// Args:
        ///     a (array): Input array.
        ///     b (array): Input array.
        ///
        /// Returns:
        ///     array: The products.
        #[pyfunction]
        #[pyo3(signature = $signature)]
        fn $name(a: ArrayArg, b: ArrayArg, stream: Option<Target>) -> PyResult<PyArray> {
            within_32_bits(on(stream, || ops::$name(&a, &b))?)
        }
    )*};
}

products! {
    /// Sums of products over the last axes; plain products where one is a scalar.
    inner (a, b, /, *, stream=None);
    /// The Kronecker product: blocks of ``b``, each times an element of ``a``.
    kron (a, b, *, stream=None);
    /// Products of all pairs of elements of the flattened arrays.
    outer (a, b, /, *, stream=None);
}

/// Sums of products along an axis, of which the left factors are conjugated; the other axes broadcast.
///
/// Args:
///     a (array): Input array.
///     b (array): Input array.
///     axis (int): The axis. Default: ``-1``.
///
/// Returns:
///     array: The sums, without the axis.
#[pyfunction]
#[pyo3(
    signature = (a, b, /, *, axis=-1, stream=None),
    text_signature = "(a, b, /, *, axis=-1, stream=None)"
)]
fn vecdot(a: ArrayArg, b: ArrayArg, axis: isize, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::vecdot(&a, &b, axis))
}

/// Sums of products in Einstein's notation.
///
/// Args:
///     subscripts (str): A letter for each axis, and what is left after ``->``: letters that are left out are
///       summed over.
///     *operands (array): The arrays.
///
/// Returns:
///     array: The sums.
///
/// Example:
///     >>> mx.einsum("ij,jk->ik", a, b)  # a @ b
#[pyfunction]
#[pyo3(signature = (subscripts, *operands, stream=None))]
fn einsum(subscripts: &str, operands: Arrays, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::einsum(subscripts, &operands.references()))
}

/// The order in which :func:`einsum` contracts its operands.
///
/// Args:
///     subscripts (str): A letter for each axis, and what is left after ``->``.
///     *operands (array): The arrays.
///
/// Returns:
///     tuple(list(tuple(int)), str): Which of the arrays left are contracted next, and a summary.
#[pyfunction]
#[pyo3(signature = (subscripts, *operands))]
fn einsum_path<'py>(
    py: Python<'py>,
    subscripts: &str,
    operands: Arrays,
) -> PyResult<(Vec<Bound<'py, PyTuple>>, String)> {
    let (path, summary) = ops::einsum_path(subscripts, &operands.references()).or_raise()?;
    let path = path.into_iter().map(|positions| PyTuple::new(py, positions));
    Ok((path.collect::<PyResult<_>>()?, summary))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: tensordot inner kron outer vecdot einsum einsum_path);
    Ok(())
}
