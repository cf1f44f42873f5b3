//! Contents of arrays as Python's objects.

use mlx::{Array, Complex, Dtype, bf16, dispatch_dtype, dtype::Bool8, f16};
use pyo3::{
    IntoPyObjectExt,
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBytes, PyList, PyTuple},
};

use super::{PyArray, create};
use crate::{
    error::{OrRaise, read, released},
    raw::dlpack,
};

/// An element as a Python object.
pub(super) trait Scalar: Copy {
    /// A bool, an int, a float or a complex.
    fn to_object(self, py: Python<'_>) -> PyResult<Py<PyAny>>;
}

macro_rules! scalars {
    ($($t:ty: $value:ident => $object:expr;)*) => {$(
        impl Scalar for $t {
            fn to_object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                let $value = self;
                $object.into_py_any(py)
            }
        }
    )*};
}

scalars! {
    Bool8: v => (v.0 != 0);
    u8: v => v;
    u16: v => v;
    u32: v => v;
    u64: v => v;
    i8: v => v;
    i16: v => v;
    i32: v => v;
    i64: v => v;
    f16: v => v.to_f64();
    bf16: v => v.to_f64();
    f32: v => v;
    f64: v => v;
    Complex: v => num_complex::Complex64::new(v.re.into(), v.im.into());
}

/// The only element.
pub(crate) fn scalar(py: Python<'_>, array: &Array) -> PyResult<Py<PyAny>> {
    if array.size() != 1 {
        let message = "[convert] Only length-1 arrays can be converted to Python scalars.";
        return Err(PyValueError::new_err(message));
    }
    dispatch_dtype!(array.dtype(), T => {
        read(py, array, || array.item::<T>())?.to_object(py)
    })
}

/// Nested lists of `data`, which has the elements of `shape` in row-major order.
fn nested<T: Scalar>(py: Python<'_>, data: &[T], shape: &[usize]) -> PyResult<Py<PyAny>> {
    let Some((&rows, rest)) = shape.split_first() else { return data[0].to_object(py) };
    let list = PyList::empty(py);
    let step: usize = rest.iter().product();
    for row in 0..rows {
        list.append(nested(py, &data[row * step..(row + 1) * step], rest)?)?;
    }
    Ok(list.into_any().unbind())
}

#[pymethods]
impl PyArray {
    /// The only element as a Python scalar.
    fn item(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        scalar(py, &self.array())
    }

    /// The elements as nested lists of Python scalars; a scalar if the array is one.
    fn tolist(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let array = self.array();
        dispatch_dtype!(array.dtype(), T => {
            let data = released(py, || array.to_vec::<T>())?;
            nested(py, &data, array.shape())
        })
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        scalar(py, &self.array())?.bind(py).is_truthy()
    }

    fn __int__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let value = scalar(py, &self.array())?;
        Ok(py.get_type::<pyo3::types::PyInt>().call1((value,))?.unbind())
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let value = scalar(py, &self.array())?;
        Ok(py.get_type::<pyo3::types::PyFloat>().call1((value,))?.unbind())
    }

    fn __complex__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let value = scalar(py, &self.array())?;
        Ok(py.get_type::<pyo3::types::PyComplex>().call1((value,))?.unbind())
    }

    fn __index__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let array = self.array();
        if array.ndim() != 0 || !array.dtype().is_integer() {
            let message = "only integer scalar arrays can be converted to a scalar index";
            return Err(PyTypeError::new_err(message));
        }
        scalar(py, &array)
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let array = self.array();
        let bytes = released(py, || array.to_bytes())?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let array = self.array();
        released(py, || mlx::print::to_string(&array))
    }

    fn __format__(&self, py: Python<'_>, format_spec: &str) -> PyResult<String> {
        let array = self.array();
        if array.ndim() == 0 {
            let value = scalar(py, &array)?;
            return value.bind(py).call_method1("__format__", (format_spec,))?.extract();
        }
        if !format_spec.is_empty() {
            let message = "unsupported format string passed to mx.array.__format__";
            return Err(PyTypeError::new_err(message));
        }
        released(py, || mlx::print::to_string(&array))
    }

    /// The elements and dtype for pickling, as upstream writes them: a numpy array, for bfloat16 with the
    /// bits as uint16, and the number of the dtype.
    fn __getstate__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let array = slf.get().array();
        let bits = match array.dtype() {
            Dtype::Bfloat16 => mlx::ops::view(&array, Dtype::Uint16).or_raise()?,
            _ => array.clone(),
        };
        let elements = numpy(py, PyArray::from(bits).into_pyobject(py)?.as_any())?;
        PyTuple::new(py, [elements, pickled(array.dtype()).into_bound_py_any(py)?])
    }

    fn __setstate__(&self, state: &Bound<'_, PyTuple>) -> PyResult<()> {
        let (elements, number): (Bound<'_, PyAny>, u8) = state.extract()?;
        let dtype = Dtype::ALL.into_iter().find(|&dtype| pickled(dtype) == number);
        let array = match dtype {
            Some(Dtype::Bfloat16) => {
                let bits = create::array(&elements, Some(Dtype::Uint16))?;
                mlx::ops::view(&bits, Dtype::Bfloat16).or_raise()?
            }
            Some(dtype) => create::array(&elements, Some(dtype))?,
            None => return Err(PyValueError::new_err("Invalid pickle state: no such dtype")),
        };
        self.replace(array);
        Ok(())
    }

    /// The elements as a numpy array, without a copy where the memory allows it.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let elements = numpy(slf.py(), slf.as_any())?;
        match (dtype, copy) {
            (Some(dtype), _) => elements.call_method1("astype", (dtype,)),
            (None, Some(true)) => elements.call_method0("copy"),
            _ => Ok(elements),
        }
    }

    // Where the elements are for those who share memory: the host.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::CPU, 0)
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = stream;
        dlpack::export(py, &self.array(), max_version, dl_device, copy.unwrap_or(false))
    }
}

/// The number by which upstream pickles a dtype.
fn pickled(dtype: Dtype) -> u8 {
    match dtype {
        Dtype::Bfloat16 => 12,
        Dtype::Float32 => 10,
        Dtype::Float64 => 11,
        other => other as u8,
    }
}

/// A numpy array over the memory of `array`, which the buffer protocol shows.
fn numpy<'py>(py: Python<'py>, array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let inner = array.cast::<PyArray>()?.get().array();
    if inner.dtype() == Dtype::Bfloat16 {
        return Err(PyTypeError::new_err("bfloat16 arrays cannot be converted to NumPy."));
    }
    let memory = pyo3::types::PyMemoryView::from(array)?;
    py.import("numpy")?.call_method1("asarray", (memory,))
}
