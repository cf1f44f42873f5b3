//! Errors of arrays as Python's exceptions.

use mlx::Error;
use pyo3::{
    exceptions::{PyIndexError, PyRuntimeError, PyValueError},
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyTuple, PyType},
};

use crate::lock;

/// `AxisError(IndexError, ValueError)`, as numpy has it: an axis or index outside of an array.
static AXIS_ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let bases = PyTuple::new(py, [py.get_type::<PyIndexError>(), py.get_type::<PyValueError>()])?;
    let body = PyDict::new(py);
    body.set_item("__module__", "mlx.core")?;
    let class = py.get_type::<PyType>().call1(("AxisError", bases, body))?.cast_into::<PyType>()?;
    let _ = AXIS_ERROR.set(py, class.unbind());
    Ok(())
}

/// The exception that upstream raises for such an error.
pub(crate) fn to_python(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        // The last one is a device that is not there.
        Error::Invalid { .. } | Error::Unsupported { .. } | Error::Device { op: "device", .. } => {
            PyValueError::new_err(text)
        }
        Error::OutOfRange { .. } => Python::attach(|py| match AXIS_ERROR.get(py) {
            Some(class) => PyErr::from_type(class.bind(py).clone(), text),
            None => PyIndexError::new_err(text),
        }),
        Error::Raised(raised) => match raised.downcast_ref::<PyErr>() {
            Some(raised) => Python::attach(|py| raised.clone_ref(py)),
            None => PyRuntimeError::new_err(text),
        },
        Error::File { .. }
        | Error::Device { .. }
        | Error::Runtime { .. }
        | Error::OutOfMemory { .. } => PyRuntimeError::new_err(text),
    }
}

/// An exception that a user's function raised, on its way through core.
pub(crate) fn to_core(raised: PyErr) -> Error {
    Error::raised(raised)
}

/// Results of core for Python.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception that stands for the error.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for mlx::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(to_python)
    }
}

/// Runs `f`, which may wait for devices, without the interpreter's lock. Ctrl-C ends its waits.
pub(crate) fn released<T: Send>(
    py: Python<'_>,
    f: impl FnOnce() -> mlx::Result<T> + Send,
) -> PyResult<T> {
    let signals = || lock::with(|py| py.check_signals()).map_err(to_core);
    lock::without(py, || mlx::interrupt::interruptible(signals, f)).or_raise()
}

/// Runs `f`, which reads `array`: without the interpreter's lock if it has to wait for the contents.
pub(crate) fn read<T: Send>(
    py: Python<'_>,
    array: &mlx::Array,
    f: impl FnOnce() -> mlx::Result<T> + Send,
) -> PyResult<T> {
    if array.is_on_host() { f().or_raise() } else { released(py, f) }
}
