//! What functions take: arrays, scalars that follow an array's dtype, axes, shapes.

use std::ops::Deref;

use mlx::{Array, Complex, Dtype, Result, ops};
use pyo3::{
    exceptions::{PyBufferError, PyOverflowError, PyRuntimeError, PyTypeError, PyValueError},
    prelude::*,
    types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PyString, PyTuple},
};
use smallvec::SmallVec;

use crate::{
    array::{PyArray, create},
    error::OrRaise,
    raw::Foreign,
};

/// An argument that has to be an array.
pub(crate) struct ArrayArg(pub(crate) Array);

impl Deref for ArrayArg {
    type Target = Array;

    fn deref(&self) -> &Array {
        &self.0
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for ArrayArg {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.cast::<PyArray>() {
            Ok(array) => Ok(ArrayArg(array.get().array())),
            Err(_) => {
                let name = object.get_type().name()?;
                let message =
                    format!("incompatible function arguments: an array is asked for, not {name}");
                Err(PyTypeError::new_err(message))
            }
        }
    }
}

/// References to arrays that were given, as operations take them.
pub(crate) fn references(arrays: &[ArrayArg]) -> Vec<&Array> {
    arrays.iter().map(|array| &array.0).collect()
}

/// The array of an optional argument.
pub(crate) fn given(array: &Option<ArrayArg>) -> Option<&Array> {
    array.as_deref()
}

/// Several arrays: a list, a tuple, or the rows of an array.
pub(crate) struct Arrays(Vec<ArrayArg>);

impl Arrays {
    /// References to them, as operations take them.
    pub(crate) fn references(&self) -> Vec<&Array> {
        references(&self.0)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Arrays {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let arrays = object.try_iter()?.map(|item| item?.extract::<ArrayArg>());
        arrays.collect::<PyResult<Vec<_>>>().map(Arrays)
    }
}

/// An argument that is an array, or a scalar that becomes one of its own dtype.
pub(crate) struct AnyArray(pub(crate) Array);

impl Deref for AnyArray {
    type Target = Array;

    fn deref(&self) -> &Array {
        &self.0
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for AnyArray {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Operand::extract(object)?.into_array().map(AnyArray)
    }
}

/// An argument that is an array or something weak: it follows the dtype of the array beside it.
pub(crate) enum Operand {
    Array(Array),
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(Complex),
    /// An array of another library.
    Foreign(Foreign),
}

impl Operand {
    /// What `object` stands for; `None` if it is neither an array, nor a number, nor an object that says how
    /// to become an array (`__mlx_array__`) or a number (`__complex__`, `__float__`, `__index__`).
    #[inline]
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Operand>> {
        if let Ok(array) = object.cast_exact::<PyArray>() {
            return Ok(Some(Operand::Array(array.get().array())));
        }
        Self::of_other(object)
    }

    fn of_other(object: &Bound<'_, PyAny>) -> PyResult<Option<Operand>> {
        if let Ok(value) = object.cast::<PyBool>() {
            return Ok(Some(Operand::Bool(value.is_true())));
        }
        if let Ok(value) = object.cast::<PyInt>() {
            let value = value.extract().map_err(|_| too_wide(object, Dtype::Int64))?;
            return Ok(Some(Operand::Int(value)));
        }
        if let Ok(value) = object.cast::<PyFloat>() {
            return Ok(Some(Operand::Float(value.value())));
        }
        if let Ok(array) = object.cast::<PyArray>() {
            return Ok(Some(Operand::Array(array.get().array())));
        }
        if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
            return Ok(None);
        }
        if object.is_instance_of::<PyComplex>() {
            return object.extract().map(Operand::complex).map(Some);
        }
        match create::from_foreign(object) {
            Ok(Some(elements)) => return Ok(Some(Operand::Foreign(elements))),
            Ok(None) => {}
            // Arrays of strings and the like, which cannot be exported.
            Err(error) if error.is_instance_of::<PyBufferError>(object.py()) => return Ok(None),
            Err(error) => return Err(error),
        }
        if let Some(array) = create::from_accessor(object)? {
            return Ok(Some(Operand::Array(array)));
        }
        // Fractions, decimals and the like are complex numbers, as for MLX.
        Ok(object.extract().ok().map(Operand::complex))
    }

    fn complex(value: num_complex::Complex64) -> Operand {
        Operand::Complex(Complex::new(value.re as f32, value.im as f32))
    }

    /// The operand as an array of its own dtype.
    pub(crate) fn into_array(self) -> PyResult<Array> {
        match self {
            Operand::Array(array) => Ok(array),
            other => ops::Operand::to_array(&other, None).or_raise(),
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Operand {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Operand::of(&object)?.ok_or_else(|| match object.is_none() {
            true => PyTypeError::new_err("an array or a number is asked for, not None"),
            false => create::no_array(&object),
        })
    }
}

impl ops::Operand for Operand {
    fn to_array(&self, other: Option<Dtype>) -> Result<Array> {
        match self {
            Operand::Array(array) => Ok(array.clone()),
            Operand::Bool(value) => ops::int_scalar(*value as i64, other.unwrap_or(Dtype::Bool)),
            Operand::Int(value) => ops::weak_int_scalar(*value, other),
            Operand::Float(value) => {
                let dtype = other.filter(|dtype| dtype.is_inexact()).unwrap_or(Dtype::Float32);
                Array::scalar_of(*value, dtype)
            }
            Operand::Complex(value) => Array::scalar(*value),
            Operand::Foreign(elements) => elements.to_array(other),
        }
    }

    fn strong_dtype(&self) -> Option<Dtype> {
        match self {
            Operand::Array(array) => Some(array.dtype()),
            _ => None,
        }
    }

    fn weak_int(&self) -> Option<i64> {
        match self {
            Operand::Int(value) => Some(*value),
            _ => None,
        }
    }
}

/// The error about an integer that no element of a dtype can be.
pub(crate) fn too_wide(value: &Bound<'_, PyAny>, dtype: Dtype) -> PyErr {
    // Python refuses to write thousands of digits.
    let value = value.repr().map_or_else(|_| "an integer".into(), |text| text.to_string());
    let message = format!("[array] Converting {value} to {dtype} would result in overflow.");
    PyRuntimeError::new_err(message)
}

/// Axes to work on: an integer or a sequence of integers.
pub(crate) enum Axes {
    One(isize),
    Several(SmallVec<[isize; 4]>),
}

impl Axes {
    /// All of them.
    pub(crate) fn as_slice(&self) -> &[isize] {
        match self {
            Axes::One(axis) => std::slice::from_ref(axis),
            Axes::Several(axes) => axes,
        }
    }

    /// The axes that an optional argument names; none means all.
    pub(crate) fn or_all(axes: &Option<Axes>) -> &[isize] {
        axes.as_ref().map_or(&[], Axes::as_slice)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Axes {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match one(&object)? {
            Some(axis) => Ok(Axes::One(axis as isize)),
            None => integers(&object).map(Axes::Several),
        }
    }
}

/// The name of an object's type, with its module where it has one.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    let kind = object.get_type();
    let name = kind.qualname().map_or_else(|_| "?".into(), |name| name.to_string());
    match kind.module() {
        Ok(module) if module != "builtins" => format!("{module}.{name}"),
        _ => name,
    }
}

/// Whether an object is a list or a tuple.
fn is_list(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>()
}

/// The integer that an object is, also one of another library; `None` if it may be several.
pub(crate) fn one(object: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if is_list(object) {
        return Ok(None);
    }
    match object.extract() {
        Ok(value) => Ok(Some(value)),
        Err(error) if object.is_instance_of::<PyInt>() => Err(error),
        Err(_) => Ok(None),
    }
}

/// Integers that fit 32 bits, where one integer is a list of one.
pub(crate) fn one_or_several<T: TryFrom<i64>>(
    object: &Bound<'_, PyAny>,
) -> PyResult<SmallVec<[T; 4]>> {
    match one(object)? {
        Some(_) => Ok(SmallVec::from_iter([dimension(object)?])),
        None => integers(object),
    }
}

/// Integers that fit 32 bits: a list, a range, an array of numpy. Floats, numpy's too, are no integers.
pub(crate) fn integers<T: TryFrom<i64>>(object: &Bound<'_, PyAny>) -> PyResult<SmallVec<[T; 4]>> {
    if let Ok(tuple) = object.cast::<PyTuple>() {
        let mut out = SmallVec::with_capacity(tuple.len());
        for item in tuple.iter_borrowed() {
            out.push(dimension(&item)?);
        }
        return Ok(out);
    }
    // Texts are no lists of integers, not even empty ones.
    let items = object.try_iter().ok().filter(|_| !object.is_instance_of::<PyString>());
    let Some(items) = items else {
        let name = object.get_type().name()?;
        let message = format!("integers are asked for, not {name}");
        return Err(PyTypeError::new_err(message));
    };
    items.map(|item| dimension(&item?)).collect()
}

/// Refuses what does not fit 32 bits.
pub(crate) fn fits_32_bits(wide: i64) -> PyResult<()> {
    if i32::try_from(wide).is_ok() {
        return Ok(());
    }
    let message = format!(
        "Shape dimension {wide} is outside the supported range [{}, {}]. MLX currently uses 32-bit integers \
         for shape dimensions.",
        i32::MIN,
        i32::MAX
    );
    Err(PyOverflowError::new_err(message))
}

/// A size, index or distance, which fits 32 bits.
pub(crate) fn dimension<T: TryFrom<i64>>(object: &Bound<'_, PyAny>) -> PyResult<T> {
    let wide: i64 = object.extract()?;
    fits_32_bits(wide)?;
    let message = || PyValueError::new_err(format!("Negative dimensions not allowed: {wide}."));
    T::try_from(wide).map_err(|_| message())
}

/// A number of something: an integer that is not negative.
pub(crate) struct Size(pub(crate) usize);

impl<'a, 'py> FromPyObject<'a, 'py> for Size {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        dimension(&object).map(Size)
    }
}

/// Sizes of axes: an integer or a sequence of integers, none negative.
pub(crate) struct Sizes(pub(crate) SmallVec<[usize; 4]>);

impl<'a, 'py> FromPyObject<'a, 'py> for Sizes {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        one_or_several(&object).map(Sizes)
    }
}

/// Integers of any sign: a shape with a -1, strides, distances. One integer is a list of one.
pub(crate) struct Integers(pub(crate) SmallVec<[isize; 4]>);

impl<'a, 'py> FromPyObject<'a, 'py> for Integers {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        one_or_several(&object).map(Integers)
    }
}
