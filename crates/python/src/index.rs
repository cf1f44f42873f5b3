//! What stands between brackets: `a[…]`, `a[…] = v`, `a.at[…]`.

use mlx::{Array, Dtype, Index, Slice, ops};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyTuple},
};
use smallvec::SmallVec;

use crate::{
    arguments::Operand,
    array::{PyArray, create},
    error::OrRaise,
    raw::slices,
};

/// The parts of an index.
pub(crate) type Indices = SmallVec<[Index; 4]>;

/// The parts of the index `object`.
///
/// # Errors
/// When it has something that is no index.
pub(crate) fn indices(object: &Bound<'_, PyAny>) -> PyResult<Indices> {
    let mut indices = Indices::new();
    match object.cast::<PyTuple>() {
        Ok(parts) => {
            for part in parts.iter_borrowed() {
                indices.push(index(&part, " yet")?);
            }
        }
        Err(_) => indices.push(index(object, ".")?),
    }
    Ok(indices)
}

/// An index that names the array itself instead of elements of it: what is assigned to it keeps its dtype.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whole {
    /// `None`: the value broadcasts as it is.
    Exactly,
    /// Leading axes of size 1 are taken off the value.
    WithoutLeadingOnes,
}

impl Whole {
    /// The index `object` of an array of `ndim` axes, if it is one of these: an ellipsis or `None`, and any
    /// tuple for an array without axes.
    pub(crate) fn of(object: &Bound<'_, PyAny>, ndim: usize) -> Option<Whole> {
        if object.is_none() {
            return Some(Whole::Exactly);
        }
        let tuple = ndim == 0 && object.is_instance_of::<PyTuple>();
        let whole = tuple || object.is_instance_of::<PyEllipsis>();
        whole.then_some(Whole::WithoutLeadingOnes)
    }

    /// A value in the shape of the array.
    pub(crate) fn value(self, array: &Array, value: &Operand) -> mlx::Result<Array> {
        use ops::Operand;
        match self {
            Whole::Exactly => {
                ops::broadcast_to(&value.to_array(Some(array.dtype()))?, array.shape())
            }
            Whole::WithoutLeadingOnes => array.broadcast_value(value),
        }
    }
}

fn index(object: &Bound<'_, PyAny>, end: &str) -> PyResult<Index> {
    if let Ok(at) = object.cast_exact::<PyInt>() {
        return int(at.as_any()).map(Index::Int);
    }
    if let Ok(slice) = object.cast::<PySlice>() {
        return part_of_axis(slice).map(Index::Slice);
    }
    if let Ok(array) = object.cast::<PyArray>() {
        return Ok(Index::Array(array.get().array()));
    }
    if object.is_none() {
        return Ok(Index::NewAxis);
    }
    if object.is_instance_of::<PyEllipsis>() {
        return Ok(Index::Ellipsis);
    }
    if object.is_instance_of::<PyList>() {
        return create::array(object, None).map(Index::Array);
    }
    if let Some(at) = scalar(object) {
        return int(&at).map(Index::Int);
    }
    if is_mask(object)? {
        return create::array(object, None).map(Index::Array);
    }
    let message = format!("Cannot index mlx array using the given type{end}");
    Err(PyValueError::new_err(message))
}

/// Whether an object is a boolean of numpy, or an array of them.
fn is_mask(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    match object.getattr_opt(pyo3::intern!(object.py(), "dtype"))? {
        Some(dtype) => dtype.eq(pyo3::intern!(object.py(), "bool")),
        None => Ok(false),
    }
}

/// An object that is an integer by `__index__`; arrays of other libraries are only if they have no axes.
fn scalar<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    if object.is_instance_of::<PyBool>() || object.is_instance_of::<PyArray>() {
        return None;
    }
    let axes = object.getattr("ndim").and_then(|ndim| ndim.extract::<usize>());
    if axes.is_ok_and(|axes| axes > 0) {
        return None;
    }
    object.call_method0("__index__").ok()
}

fn int(object: &Bound<'_, PyAny>) -> PyResult<isize> {
    let wide: Option<i64> = object.extract().ok();
    match wide.and_then(|wide| i32::try_from(wide).ok()) {
        Some(at) => Ok(at as isize),
        None => Err(PyValueError::new_err("Slice indices must be 32-bit integers.")),
    }
}

/// The elements of an axis that a slice names; parts that are read once more say what is wrong with them.
fn part_of_axis(slice: &Bound<'_, PySlice>) -> PyResult<Slice> {
    if let Some(part) = plain_slice(slice) {
        return Ok(part);
    }
    let part = |name: &Bound<'_, pyo3::types::PyString>| {
        let bound = slice.getattr(name)?;
        if bound.is_none() {
            return Ok(None);
        }
        match scalar_bound(&bound)? {
            Some(at) => int(&at).map(Some),
            None => Err(PyValueError::new_err("Slice indices must be integers or None.")),
        }
    };
    let py = slice.py();
    Ok(Slice {
        start: part(pyo3::intern!(py, "start"))?,
        stop: part(pyo3::intern!(py, "stop"))?,
        step: part(pyo3::intern!(py, "step"))?,
    })
}

/// A slice as Python itself reads it; `None` where Python refuses a part, or a part does not fit 32 bits.
fn plain_slice(slice: &Bound<'_, PySlice>) -> Option<Slice> {
    let [start, stop, step] = slices::unpack(slice).ok()?;
    let int = |at: isize| i32::try_from(at).ok().map(|at| at as isize);
    let (first, end) = if step < 0 { (isize::MAX, isize::MIN) } else { (0, isize::MAX) };
    Some(Slice {
        start: if start == first { None } else { Some(int(start)?) },
        stop: if stop == end { None } else { Some(int(stop)?) },
        step: Some(int(step)?),
    })
}

/// An integer as the bound of a slice: as [`scalar`], and also an array of ours without axes.
fn scalar_bound<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if object.is_exact_instance_of::<PyInt>() {
        return Ok(Some(object.clone()));
    }
    match object.is_instance_of::<PyArray>() {
        true => object.call_method0("__index__").map(Some),
        false => Ok(scalar(object)),
    }
}

#[pymethods]
impl PyArray {
    fn __getitem__(&self, arg: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.array().get_item(&indices(arg)?).map(PyArray::from).or_raise()
    }

    pub(crate) fn __setitem__(&self, arg0: &Bound<'_, PyAny>, arg1: Operand) -> PyResult<()> {
        let mut array = self.array();
        let whole = Whole::of(arg0, array.ndim());
        let indices = match arg0.cast::<PyBool>() {
            // One truth for all elements.
            Ok(all) => Indices::from_iter([Index::Array(
                ops::int_scalar(all.is_true() as i64, Dtype::Bool).or_raise()?,
            )]),
            Err(_) => indices(arg0)?,
        };
        match whole {
            Some(whole) => array = whole.value(&array, &arg1).or_raise()?,
            None => array.set_item(&indices, arg1).or_raise()?,
        }
        self.replace(array);
        Ok(())
    }
}
