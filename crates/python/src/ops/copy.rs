//! Conversions and copies.

use mlx::{Kind, ops, shape::row_major_strides};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyModule, PyString, PyTuple},
};

use crate::{
    arguments::{AnyArray, ArrayArg, Integers, Sizes},
    array::{PyArray, apply, create},
    dtype::PyDtype,
    error::OrRaise,
    functions,
    raw::dlpack,
    stream::Target,
};

/// The elements converted to a dtype.
///
/// Args:
///     a (array): Input array.
///     dtype (Dtype): The dtype.
///
/// Returns:
///     array: The converted elements; complex numbers lose their imaginary part.
#[pyfunction]
#[pyo3(signature = (a, dtype, /, *, stream=None))]
fn astype(a: ArrayArg, dtype: PyDtype, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::astype(&a, dtype.0))
}

/// The bytes of the elements as another dtype.
///
/// Args:
///     a (array): Input array or scalar.
///     dtype (Dtype): The dtype; the last axis grows or shrinks if its size is another.
///
/// Returns:
///     array: The same bytes as that dtype.
#[pyfunction]
#[pyo3(signature = (a, dtype, stream=None))]
fn view(a: AnyArray, dtype: PyDtype, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::view(&a, dtype.0))
}

#[pymethods]
impl PyArray {
    /// The elements converted to a dtype.
    #[pyo3(signature = (dtype, stream=None))]
    fn astype(&self, dtype: PyDtype, stream: Option<Target>) -> PyResult<PyArray> {
        apply(stream, || ops::astype(&self.array(), dtype.0))
    }

    /// The bytes of the elements as another dtype.
    #[pyo3(signature = (dtype, *, stream=None))]
    fn view(&self, dtype: PyDtype, stream: Option<Target>) -> PyResult<PyArray> {
        apply(stream, || ops::view(&self.array(), dtype.0))
    }
}

/// The array in row-major order; itself if it is already.
///
/// Args:
///     a (array): Input array.
///     allow_col_major (bool): Column-major order is good too. Default: ``False``.
///
/// Returns:
///     array: The same elements without gaps.
#[pyfunction]
#[pyo3(signature = (a, /, allow_col_major=false, *, stream=None))]
fn contiguous(a: ArrayArg, allow_col_major: bool, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::contiguous(&a, allow_col_major))
}

/// A view of the flattened array with any strides.
///
/// Args:
///     a (array): Input array.
///     shape (list(int), optional): The shape. Default: that of ``a``.
///     strides (list(int), optional): Strides in elements. Default: those of a row-major array.
///     offset (int): The first element. Default: ``0``.
///
/// Returns:
///     array: The view.
#[pyfunction]
#[pyo3(signature = (a, /, shape=None, strides=None, offset=0, *, stream=None))]
fn as_strided(
    a: ArrayArg,
    shape: Option<Sizes>,
    strides: Option<Integers>,
    offset: usize,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || {
        let shape = shape.as_ref().map_or(a.shape(), |shape| shape.0.as_slice());
        match &strides {
            Some(strides) => ops::as_strided(&a, shape, &strides.0, offset),
            None => ops::as_strided(&a, shape, &row_major_strides(shape), offset),
        }
    })
}

/// The array, with no gradient through it.
///
/// Args:
///     a (array): Input array.
///
/// Returns:
///     array: The same elements.
#[pyfunction]
#[pyo3(signature = (a, /, *, stream=None))]
fn stop_gradient(a: ArrayArg, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::stop_gradient(&a))
}

/// What `copy=False` asks for cannot be had: memory of others is always copied, as the arrays here never
/// change.
fn refuse_sharing(copy: Option<bool>) -> PyResult<()> {
    match copy {
        Some(false) => {
            let message = "Unable to avoid copy while creating an array as requested.";
            Err(PyValueError::new_err(message))
        }
        _ => Ok(()),
    }
}

/// An array of a scalar, lists, or an array of this or another library.
///
/// Args:
///     a (object): What to make an array of.
///     dtype (Dtype, optional): Type of the elements. Default: what fits ``a``.
///     copy (bool, optional): ``False`` is an error, as memory cannot be shared. Default: ``None``.
///
/// Returns:
///     array: The array.
#[pyfunction]
#[pyo3(signature = (a, dtype=None, *, copy=None))]
fn asarray(a: &Bound<'_, PyAny>, dtype: Option<PyDtype>, copy: Option<bool>) -> PyResult<PyArray> {
    refuse_sharing(copy)?;
    create::array(a, dtype.map(|dtype| dtype.0)).map(PyArray::from)
}

/// An array of another library that has the methods of DLPack.
///
/// Args:
///     x (object): The array.
///     copy (bool, optional): ``False`` is an error, as memory cannot be shared. Default: ``None``.
///
/// Returns:
///     array: A copy.
#[pyfunction]
#[pyo3(signature = (x, /, *, copy=None))]
fn from_dlpack(x: &Bound<'_, PyAny>, copy: Option<bool>) -> PyResult<PyArray> {
    refuse_sharing(copy)?;
    match dlpack::import(x)? {
        Some(elements) => elements.to_array(None).map(PyArray::from).or_raise(),
        None => {
            let message = format!("{} has no method __dlpack__", x.get_type().name()?);
            Err(PyTypeError::new_err(message))
        }
    }
}

/// One kind of dtypes: a dtype, or a name of the array API.
fn kind_of(object: &Bound<'_, PyAny>) -> PyResult<Kind> {
    if let Ok(dtype) = object.cast::<PyDtype>() {
        return Ok(dtype.get().0.into());
    }
    match object.cast::<PyString>() {
        Ok(name) => name.to_cow()?.parse::<Kind>().or_raise(),
        Err(_) => {
            let message =
                "[isdtype] `kind` must be a dtype, a string, or a tuple of dtypes and strings.";
            Err(PyValueError::new_err(message))
        }
    }
}

/// Whether a dtype is of a kind.
///
/// Args:
///     dtype (Dtype): The dtype.
///     kind (Dtype, str or tuple): A dtype, ``"bool"``, ``"signed integer"``, ``"unsigned integer"``,
///       ``"integral"``, ``"real floating"``, ``"complex floating"`` or ``"numeric"``; or several of them.
///
/// Returns:
///     bool: Whether it is one of them.
#[pyfunction]
fn isdtype(dtype: PyDtype, kind: &Bound<'_, PyAny>) -> PyResult<bool> {
    let kinds = match kind.cast::<PyTuple>() {
        Ok(kinds) => kinds.iter().map(|kind| kind_of(&kind)).collect::<PyResult<Vec<_>>>()?,
        Err(_) => vec![kind_of(kind)?],
    };
    Ok(mlx::isdtype(dtype.0, &kinds))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: astype view contiguous as_strided stop_gradient asarray from_dlpack isdtype);
    Ok(())
}
