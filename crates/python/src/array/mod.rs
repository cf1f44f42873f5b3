//! The class `array`.

pub(crate) mod create;
mod iterator;
mod operators;
mod read;
mod updates;

use mlx::{Array, Dtype, Shape};
use parking_lot::Mutex;
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyModule, PyTuple},
};

use crate::{
    dtype::{self, PyDtype},
    error::OrRaise,
    stream::on,
};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyArray>()?;
    module.add_class::<iterator::ArrayIterator>()?;
    module.add_class::<updates::PyArrayAt>()?;
    module.add_class::<create::ArrayLike>()
}

/// An N-dimensional array.
///
/// Args:
///     val: A scalar, a list or tuple (of lists), an array of another library, or an array.
///     dtype (Dtype, optional): Type of the elements. Default: what fits ``val``.
///
/// Example:
///     >>> mx.array([1, 2, 3], dtype=mx.float32)
///     array([1, 2, 3], dtype=None)
#[pyclass(name = "array", module = "mlx.core", frozen, weakref, subclass, sequence)]
pub(crate) struct PyArray {
    /// In-place operations put another array here.
    array: Mutex<Array>,
}

impl From<Array> for PyArray {
    fn from(array: Array) -> Self {
        PyArray { array: Mutex::new(array) }
    }
}

impl PyArray {
    /// The array that it is now.
    #[inline]
    pub(crate) fn array(&self) -> Array {
        self.array.lock().clone()
    }

    /// What `look` sees in the array that it is now; it may not wait.
    #[inline]
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Array) -> T) -> T {
        look(&self.array.lock())
    }

    /// Becomes another array, as in-place operations let it.
    pub(crate) fn replace(&self, array: Array) {
        let before = std::mem::replace(&mut *self.array.lock(), array);
        // Outside of the lock: a graph may go with it.
        drop(before);
    }
}

/// What a new object is until it is initialized.
fn without_contents(py: Python<'_>) -> PyResult<&Array> {
    static EMPTY: PyOnceLock<Array> = PyOnceLock::new();
    EMPTY.get_or_try_init(py, || Array::from_bytes(&[], &[0], Dtype::Float32).or_raise())
}

/// Arrays that are returned, as Python objects.
pub(crate) trait Wrap {
    /// What Python gets.
    type Wrapped;
    /// Wraps every array.
    fn wrap(self) -> Self::Wrapped;
}

impl Wrap for Array {
    type Wrapped = PyArray;

    fn wrap(self) -> PyArray {
        self.into()
    }
}

impl Wrap for Vec<Array> {
    type Wrapped = Vec<PyArray>;

    fn wrap(self) -> Vec<PyArray> {
        self.into_iter().map(PyArray::from).collect()
    }
}

impl Wrap for (Array, Array) {
    type Wrapped = (PyArray, PyArray);

    fn wrap(self) -> Self::Wrapped {
        (self.0.into(), self.1.into())
    }
}

impl Wrap for (Array, Array, Array) {
    type Wrapped = (PyArray, PyArray, PyArray);

    fn wrap(self) -> Self::Wrapped {
        (self.0.into(), self.1.into(), self.2.into())
    }
}

/// Runs an operation where it is asked to run, and wraps what it returns.
#[inline]
pub(crate) fn apply<T: Wrap>(
    target: Option<crate::stream::Target>,
    operation: impl FnOnce() -> mlx::Result<T>,
) -> PyResult<T::Wrapped> {
    on(target, operation).map(Wrap::wrap)
}

#[pymethods]
impl PyArray {
    // The contents come by `__init__`, which subclasses give other arguments, or by `__setstate__`.
    #[new]
    #[pyo3(signature = (*args, **kwargs), text_signature = "(val, dtype=None)")]
    fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let _ = kwargs;
        without_contents(args.py()).map(|array| array.clone().into())
    }

    #[pyo3(signature = (val, dtype=None))]
    fn __init__(&self, val: &Bound<'_, PyAny>, dtype: Option<PyDtype>) -> PyResult<()> {
        if val.is_none() {
            return Err(PyTypeError::new_err("None has no elements for an array"));
        }
        let empty = without_contents(val.py())?;
        if !self.with(|array| array.is_same(empty)) {
            return Err(PyTypeError::new_err("the array is initialized already"));
        }
        self.replace(create::array(val, dtype.map(|dtype| dtype.0))?);
        Ok(())
    }

    /// Number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.array.lock().size()
    }

    /// Number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.array.lock().ndim()
    }

    /// Bytes of an element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.array.lock().dtype().size()
    }

    /// Bytes of all elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.array.lock().nbytes()
    }

    /// Sizes of the axes.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        // Not under the lock: a new tuple may start a collection, which may run code that asks for this.
        let shape = self.with(|array| Shape::from(array.shape()));
        PyTuple::new(py, shape)
    }

    /// Type of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyDtype> {
        dtype::object(py, self.with(Array::dtype))
    }

    fn __len__(&self) -> PyResult<usize> {
        let array = self.array.lock();
        let message = "len() 0-dimensional array.";
        array.shape().first().copied().ok_or_else(|| PyTypeError::new_err(message))
    }

    fn __iter__(&self) -> PyResult<iterator::ArrayIterator> {
        iterator::ArrayIterator::new(self.array())
    }

    // Arrays are told apart by who they are, as in sets of parameters; `==` compares elements.
    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        slf.as_ptr() as isize >> 4
    }

    fn __copy__(&self) -> PyArray {
        self.array().into()
    }

    fn __deepcopy__(&self, memo: &Bound<'_, PyDict>) -> PyArray {
        let _ = memo;
        self.array().into()
    }

    /// The functions of the array API: the module ``mlx.core``.
    #[pyo3(signature = (api_version=None))]
    fn __array_namespace__<'py>(
        &self,
        py: Python<'py>,
        api_version: Option<&str>,
    ) -> PyResult<Bound<'py, PyModule>> {
        match api_version {
            None => py.import("mlx.core"),
            Some(_) => {
                let message = "Explicitly specifying api_version is not yet implemented.";
                Err(PyValueError::new_err(message))
            }
        }
    }
}
