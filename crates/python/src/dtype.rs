//! Element types.

use std::hash::{DefaultHasher, Hash, Hasher};

use mlx::{Category, Dtype};
use pyo3::{exceptions::PyTypeError, prelude::*, sync::PyOnceLock, types::PyModule};

use crate::{array::PyArray, error::OrRaise, functions};

/// The dtypes as objects: each exists once.
static OBJECTS: PyOnceLock<Vec<Py<PyDtype>>> = PyOnceLock::new();

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<PyDtype>()?;
    module.add_class::<PyFinfo>()?;
    module.add_class::<PyIinfo>()?;
    let mut objects = Vec::new();
    for dtype in Dtype::ALL {
        let object = Py::new(py, PyDtype(dtype))?;
        let name = if dtype == Dtype::Bool { "bool_" } else { dtype.name() };
        module.add(name, object.clone_ref(py))?;
        objects.push(object);
    }
    let _ = OBJECTS.set(py, objects);
    functions!(module: issubdtype result_type can_cast);
    Ok(())
}

/// The object that stands for a dtype.
pub(crate) fn object(py: Python<'_>, dtype: Dtype) -> Py<PyDtype> {
    OBJECTS.get(py).expect("the module's initialization has set them")[dtype as usize].clone_ref(py)
}

/// The type of an array's elements.
#[pyclass(name = "Dtype", module = "mlx.core", frozen, from_py_object)]
#[derive(Clone, Copy)]
pub(crate) struct PyDtype(pub(crate) Dtype);

#[pymethods]
impl PyDtype {
    /// Bytes of an element.
    #[getter]
    fn size(&self) -> usize {
        self.0.size()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyDtype>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        format!("mlx.core.{}", self.0)
    }

    /// Pickles as its name in the module.
    fn __reduce__(&self) -> &'static str {
        if self.0 == Dtype::Bool { "bool_" } else { self.0.name() }
    }
}

/// Limits of a floating point type.
#[pyclass(name = "finfo", module = "mlx.core", frozen)]
struct PyFinfo(mlx::Finfo);

#[pymethods]
impl PyFinfo {
    #[new]
    fn new(arg: PyDtype) -> PyResult<Self> {
        mlx::finfo(arg.0).map(PyFinfo).or_raise()
    }

    /// Bits of a number.
    #[getter]
    fn bits(&self) -> usize {
        self.0.bits
    }

    /// The least number.
    #[getter]
    fn min(&self) -> f64 {
        self.0.min
    }

    /// The largest number.
    #[getter]
    fn max(&self) -> f64 {
        self.0.max
    }

    /// The distance of 1 and the next number.
    #[getter]
    fn eps(&self) -> f64 {
        self.0.eps
    }

    /// The smallest positive number with all its digits.
    #[getter]
    fn smallest_normal(&self) -> f64 {
        self.0.smallest_normal
    }

    /// The type.
    #[getter]
    fn dtype(&self) -> PyDtype {
        PyDtype(self.0.dtype)
    }

    fn __repr__(&self) -> String {
        format!("finfo(min={}, max={}, dtype={})", self.0.min, self.0.max, self.0.dtype)
    }
}

/// Limits of an integer type.
#[pyclass(name = "iinfo", module = "mlx.core", frozen)]
struct PyIinfo(mlx::Iinfo);

#[pymethods]
impl PyIinfo {
    #[new]
    fn new(arg: PyDtype) -> PyResult<Self> {
        mlx::iinfo(arg.0).map(PyIinfo).or_raise()
    }

    /// The least number.
    #[getter]
    fn min(&self) -> i64 {
        self.0.min
    }

    /// The largest number.
    #[getter]
    fn max(&self) -> u64 {
        self.0.max
    }

    /// The type.
    #[getter]
    fn dtype(&self) -> PyDtype {
        PyDtype(self.0.dtype)
    }

    fn __repr__(&self) -> String {
        format!("iinfo(min={}, max={}, dtype={})", self.0.min, self.0.max, self.0.dtype)
    }
}

/// A dtype, or the dtype of an array.
enum DtypeOf {
    Dtype(Dtype),
    Category(Category),
}

impl<'a, 'py> FromPyObject<'a, 'py> for DtypeOf {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(dtype) = object.cast::<PyDtype>() {
            return Ok(DtypeOf::Dtype(dtype.get().0));
        }
        if let Ok(array) = object.cast::<PyArray>() {
            return Ok(DtypeOf::Dtype(array.get().array().dtype()));
        }
        let name = object.getattr("name").and_then(|name| name.extract::<String>());
        let category = match name.as_deref() {
            Ok("complexfloating") => Category::ComplexFloating,
            Ok("floating") => Category::Floating,
            Ok("inexact") => Category::Inexact,
            Ok("signedinteger") => Category::SignedInteger,
            Ok("unsignedinteger") => Category::UnsignedInteger,
            Ok("integer") => Category::Integer,
            Ok("number") => Category::Number,
            Ok("generic") => Category::Generic,
            _ => return Err(PyTypeError::new_err("a Dtype or DtypeCategory is asked for")),
        };
        Ok(DtypeOf::Category(category))
    }
}

/// Whether a dtype or category lies within another one.
///
/// Example:
///     >>> mx.issubdtype(mx.float32, mx.inexact)
///     True
#[pyfunction]
fn issubdtype(arg1: DtypeOf, arg2: DtypeOf) -> bool {
    match (arg1, arg2) {
        (DtypeOf::Dtype(a), DtypeOf::Dtype(b)) => a == b,
        (DtypeOf::Dtype(a), DtypeOf::Category(b)) => mlx::issubdtype(a, b),
        (DtypeOf::Category(_), DtypeOf::Dtype(_)) => false,
        (DtypeOf::Category(a), DtypeOf::Category(b)) => {
            Dtype::ALL.iter().all(|d| !d.is_sub(a) || d.is_sub(b))
        }
    }
}

/// The dtype to which all arguments, arrays or dtypes, promote.
#[pyfunction]
#[pyo3(signature = (*arrays_and_dtypes))]
fn result_type(arrays_and_dtypes: Vec<DtypeOf>) -> PyResult<PyDtype> {
    let mut dtypes = Vec::new();
    for dtype in arrays_and_dtypes {
        match dtype {
            DtypeOf::Dtype(dtype) => dtypes.push(dtype),
            DtypeOf::Category(_) => return Err(PyTypeError::new_err("a category is no dtype")),
        }
    }
    mlx::result_type(&dtypes).map(PyDtype).or_raise()
}

/// Whether an array or dtype can be cast to a dtype by promotion.
#[pyfunction]
#[pyo3(signature = (from_, to))]
fn can_cast(from_: DtypeOf, to: PyDtype) -> bool {
    matches!(from_, DtypeOf::Dtype(from) if mlx::can_cast(from, to.0))
}
