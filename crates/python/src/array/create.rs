//! Arrays from Python's objects.

use std::ops::RangeInclusive;

use mlx::{Array, Dtype, dispatch_dtype, dtype::FromF64, ops};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PyTuple},
};

use super::PyArray;
use crate::{
    arguments::{too_wide, type_name},
    error::OrRaise,
    raw::{Foreign, buffer, dlpack},
};

/// Any Python object that has a method ``__mlx_array__``, which returns an array.
#[pyclass(module = "mlx.core", frozen)]
pub(crate) struct ArrayLike {
    #[expect(dead_code, reason = "functions take such objects as they are")]
    object: Py<PyAny>,
}

#[pymethods]
impl ArrayLike {
    #[new]
    #[pyo3(signature = (arg, /))]
    fn new(arg: Py<PyAny>) -> Self {
        ArrayLike { object: arg }
    }
}

/// What `mx.array(value, dtype)` makes.
pub(crate) fn array(value: &Bound<'_, PyAny>, dtype: Option<Dtype>) -> PyResult<Array> {
    if let Ok(array) = value.cast::<PyArray>() {
        let array = array.get().array();
        return ops::astype(&array, dtype.unwrap_or(array.dtype())).or_raise();
    }
    if let Some(kind) = Kind::of(value) {
        return scalar(value, kind, dtype);
    }
    if let Some(items) = items(value)? {
        return from_list(&items, dtype);
    }
    if let Some(elements) = from_foreign(value)? {
        return elements.to_array(dtype).or_raise();
    }
    match from_accessor(value)? {
        Some(array) => ops::astype(&array, dtype.unwrap_or(array.dtype())).or_raise(),
        None => Err(no_array(value)),
    }
}

/// An object that nothing makes an array of.
pub(crate) fn no_array(value: &Bound<'_, PyAny>) -> PyErr {
    let name = type_name(value);
    PyValueError::new_err(format!("Invalid type {name} received in array initialization."))
}

/// The array that an object says it is.
pub(crate) fn from_accessor(value: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
    let Some(accessor) = value.getattr_opt(pyo3::intern!(value.py(), "__mlx_array__"))? else {
        return Ok(None);
    };
    Ok(Some(accessor.call0()?.cast::<PyArray>()?.get().array()))
}

/// A copy of another library's array: of whatever shows its memory by Python's buffer protocol or DLPack.
pub(crate) fn from_foreign(value: &Bound<'_, PyAny>) -> PyResult<Option<Foreign>> {
    if let Some(elements) = buffer::import(value)? {
        return Ok(Some(elements));
    }
    match from_bfloat16(value)? {
        Some(array) => Ok(Some(Foreign::Array(array))),
        None => dlpack::import(value),
    }
}

/// A numpy array of ml_dtypes' bfloat16, which numpy's buffers cannot say.
fn from_bfloat16(value: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
    let py = value.py();
    let Some(dtype) = value.getattr_opt(pyo3::intern!(py, "dtype"))? else { return Ok(None) };
    let has_view = value.hasattr(pyo3::intern!(py, "view"))?;
    if !has_view || !dtype.eq("bfloat16").unwrap_or(false) {
        return Ok(None);
    }
    match buffer::import(&value.call_method1("view", ("uint16",))?)? {
        Some(bits) => {
            let bits = bits.to_array(None).or_raise()?;
            ops::view(&bits, Dtype::Bfloat16).or_raise().map(Some)
        }
        None => Ok(None),
    }
}

/// What kind of number a Python object is; a list has the largest kind of its elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Bool,
    Int,
    WideInt,
    Float,
    Complex,
}

impl Kind {
    fn of(value: &Bound<'_, PyAny>) -> Option<Kind> {
        if value.is_instance_of::<PyBool>() {
            Some(Kind::Bool)
        } else if value.is_instance_of::<PyInt>() {
            let narrow = value.extract::<i32>().is_ok();
            Some(if narrow { Kind::Int } else { Kind::WideInt })
        } else if value.is_instance_of::<PyFloat>() {
            Some(Kind::Float)
        } else if value.is_instance_of::<PyComplex>() {
            Some(Kind::Complex)
        } else {
            None
        }
    }

    fn dtype(self) -> Dtype {
        match self {
            Kind::Bool => Dtype::Bool,
            Kind::Int => Dtype::Int32,
            Kind::WideInt => Dtype::Int64,
            Kind::Float => Dtype::Float32,
            Kind::Complex => Dtype::Complex64,
        }
    }
}

fn scalar(value: &Bound<'_, PyAny>, kind: Kind, dtype: Option<Dtype>) -> PyResult<Array> {
    match kind {
        Kind::Bool => ops::int_scalar(value.is_truthy()? as i64, dtype.unwrap_or(Dtype::Bool)),
        Kind::Int | Kind::WideInt => {
            // One number wraps, so that all dtypes but one have the same limits.
            let highest =
                if dtype == Some(Dtype::Uint64) { u64::MAX.into() } else { i64::MAX.into() };
            let limits = i64::MIN.into()..=highest;
            let value = integer(value, &limits, dtype.unwrap_or(Dtype::Int64))? as i64;
            ops::int_scalar(value, dtype.unwrap_or_else(|| ops::dtype_of_int(value)))
        }
        Kind::Float => Array::scalar_of(value.extract()?, dtype.unwrap_or(Dtype::Float32)),
        Kind::Complex => {
            let value = complex(value)?;
            Array::scalar(value).and_then(|a| ops::astype(&a, dtype.unwrap_or(a.dtype())))
        }
    }
    .or_raise()
}

/// An integer that is to be an element of `dtype`, and must lie between limits.
fn integer(
    value: &Bound<'_, PyAny>,
    limits: &RangeInclusive<i128>,
    dtype: Dtype,
) -> PyResult<i128> {
    let wide = match value.extract::<i64>() {
        Ok(value) => Some(i128::from(value)),
        Err(_) => value.extract::<u64>().ok().map(i128::from),
    };
    wide.filter(|wide| limits.contains(wide)).ok_or_else(|| too_wide(value, dtype))
}

/// What integers of a list may be. MLX reads them as `int32` for all dtypes that are narrower, to which they
/// wrap.
fn limits(dtype: Dtype) -> RangeInclusive<i128> {
    match dtype {
        Dtype::Uint32 => 0..=u32::MAX.into(),
        Dtype::Uint64 => 0..=u64::MAX.into(),
        Dtype::Int64 => i64::MIN.into()..=i64::MAX.into(),
        _ if dtype.is_inexact() => i64::MIN.into()..=i64::MAX.into(),
        _ => i32::MIN.into()..=i32::MAX.into(),
    }
}

fn complex(value: &Bound<'_, PyAny>) -> PyResult<mlx::Complex> {
    let value: num_complex::Complex64 = value.extract()?;
    Ok(mlx::Complex::new(value.re as f32, value.im as f32))
}

/// The elements of a list or tuple.
fn items<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    if let Ok(list) = value.cast::<PyList>() {
        return Ok(Some(list.iter().collect()));
    }
    match value.cast::<PyTuple>() {
        Ok(tuple) => Ok(Some(tuple.iter().collect())),
        Err(_) => Ok(None),
    }
}

/// An array of nested lists: of numbers, or of arrays, which are stacked.
fn from_list(rows: &[Bound<'_, PyAny>], dtype: Option<Dtype>) -> PyResult<Array> {
    if has_array(rows)? {
        return stacked(rows, dtype);
    }
    let mut shape = vec![rows.len()];
    let mut first = rows.first().cloned();
    while let Some(object) = first {
        let Some(inner) = items(&object)? else { break };
        shape.push(inner.len());
        first = inner.first().cloned();
    }
    let mut numbers = Numbers { elements: Vec::new(), kind: None };
    numbers.collect(rows, &shape)?;
    let dtype = dtype.unwrap_or_else(|| numbers.kind.map_or(Dtype::Float32, Kind::dtype));
    numbers.into_array(&shape, dtype)
}

/// Arrays, or lists of them, along a new first axis.
fn stacked(rows: &[Bound<'_, PyAny>], dtype: Option<Dtype>) -> PyResult<Array> {
    let arrays = rows.iter().map(|row| array(row, dtype)).collect::<PyResult<Vec<_>>>()?;
    if arrays.iter().any(|array| array.shape() != arrays[0].shape()) {
        return Err(PyValueError::new_err("Initialization encountered non-uniform length."));
    }
    ops::stack(&arrays.iter().collect::<Vec<_>>(), 0).or_raise()
}

/// The numbers of nested lists.
struct Numbers<'py> {
    elements: Vec<Bound<'py, PyAny>>,
    /// The largest kind so far.
    kind: Option<Kind>,
}

impl<'py> Numbers<'py> {
    /// Adds those of lists whose lengths have to be `shape`.
    fn collect(&mut self, rows: &[Bound<'py, PyAny>], shape: &[usize]) -> PyResult<()> {
        let Some((&expected, rest)) = shape.split_first() else {
            return Err(PyValueError::new_err("Initialization encountered extra dimension."));
        };
        if rows.len() != expected {
            return Err(PyValueError::new_err("Initialization encountered non-uniform length."));
        }
        for row in rows {
            if let Some(inner) = items(row)? {
                self.collect(&inner, rest)?;
            } else if let Some(kind) = Kind::of(row) {
                if !rest.is_empty() {
                    let message = "Initialization encountered non-uniform length.";
                    return Err(PyValueError::new_err(message));
                }
                self.kind = self.kind.max(Some(kind));
                self.elements.push(row.clone());
            } else {
                return Err(no_array(row));
            }
        }
        Ok(())
    }

    fn into_array(self, shape: &[usize], dtype: Dtype) -> PyResult<Array> {
        let elements = &self.elements;
        if self.kind == Some(Kind::Complex) {
            let values = elements.iter().map(complex).collect::<PyResult<Vec<_>>>()?;
            let made = Array::from_slice(&values, shape);
            return made.and_then(|a| ops::astype(&a, dtype)).or_raise();
        }
        let is_float = self.kind == Some(Kind::Float);
        // Beside floats, integers are floats.
        let limits = limits(if is_float { Dtype::Float32 } else { dtype });
        dispatch_dtype!(dtype, T => {
            let values = elements.iter().map(|element| match element.is_instance_of::<PyInt>() {
                true if is_float => {
                    let value = integer(element, &limits, dtype)?;
                    Ok(<T as FromF64>::from_f64(value as f64))
                }
                true => integer(element, &limits, dtype).map(<T as Wrapping>::wrap),
                false => Ok(<T as FromF64>::from_f64(element.extract::<f64>()?)),
            });
            Array::from_slice(&values.collect::<PyResult<Vec<T>>>()?, shape).or_raise()
        })
    }
}

/// Elements from integers: integers keep the low bits.
trait Wrapping: Sized {
    fn wrap(value: i128) -> Self;
}

macro_rules! wrapping {
    (integers $($int:ty)*; others $($other:ty)*) => {
        $(impl Wrapping for $int {
            fn wrap(value: i128) -> Self {
                value as $int
            }
        })*
        $(impl Wrapping for $other {
            fn wrap(value: i128) -> Self {
                <$other as FromF64>::from_f64(value as f64)
            }
        })*
    };
}

wrapping! {
    integers u8 u16 u32 u64 i8 i16 i32 i64;
    others mlx::dtype::Bool8 mlx::f16 mlx::bf16 f32 f64 mlx::Complex
}

/// Whether there is an array in nested lists.
fn has_array(rows: &[Bound<'_, PyAny>]) -> PyResult<bool> {
    for row in rows {
        let found = match items(row)? {
            Some(inner) => has_array(&inner)?,
            None => Kind::of(row).is_none() && is_array(row)?,
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an element of a list stands for an array.
fn is_array(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    if value.is_instance_of::<PyArray>() {
        return Ok(true);
    }
    for name in [pyo3::intern!(py, "__mlx_array__"), pyo3::intern!(py, "__dlpack__")] {
        if value.hasattr(name)? {
            return Ok(true);
        }
    }
    Ok(buffer::import(value)?.is_some())
}
