//! Streams, and on which of them an operation runs.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use mlx::{Stream, stream::ThreadLocalStream};
use pyo3::{
    exceptions::{PyRuntimeError, PyTypeError},
    prelude::*,
    types::PyModule,
};

use crate::{
    device::{DeviceArg, PyDevice},
    error::{OrRaise, released},
    functions, lock,
};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyStream>()?;
    module.add_class::<PyThreadLocalStream>()?;
    module.add_class::<StreamContext>()?;
    functions!(module: default_stream set_default_stream new_stream new_thread_unsafe_stream
        new_thread_local_stream clear_streams stream synchronize);
    Ok(())
}

/// A stream for running operations on a given device.
#[pyclass(name = "Stream", module = "mlx.core", frozen)]
pub(crate) struct PyStream(pub(crate) Stream);

#[pymethods]
impl PyStream {
    /// Where the work runs.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice(self.0.device)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyStream>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        self.0.index.into()
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}

/// A stream of which each thread has its own.
#[pyclass(name = "ThreadLocalStream", module = "mlx.core", frozen)]
pub(crate) struct PyThreadLocalStream(ThreadLocalStream);

#[pymethods]
impl PyThreadLocalStream {
    /// Where the work runs.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice(self.0.device)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyThreadLocalStream>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        self.0.index.into()
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}

/// Where an operation is asked to run: a stream, or the default stream of a device.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    Stream(Stream),
    ThreadLocal(ThreadLocalStream),
    Device(mlx::Device),
}

impl Target {
    /// The stream of this thread that is meant.
    pub(crate) fn stream(self) -> PyResult<Stream> {
        match self {
            Target::Stream(stream) => Ok(stream),
            Target::ThreadLocal(stream) => stream.stream().or_raise(),
            Target::Device(device) => default_of(device),
        }
    }

    /// What it runs on, which need not be here.
    pub(crate) fn device(self) -> mlx::Device {
        match self {
            Target::Stream(stream) => stream.device,
            Target::ThreadLocal(stream) => stream.device,
            Target::Device(device) => device,
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Target {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(stream) = object.cast::<PyStream>() {
            Ok(Target::Stream(stream.get().0))
        } else if let Ok(stream) = object.cast::<PyThreadLocalStream>() {
            Ok(Target::ThreadLocal(stream.get().0))
        } else if let Ok(device) = object.extract::<DeviceArg>() {
            Ok(Target::Device(device.0))
        } else {
            Err(PyTypeError::new_err("a Stream or Device is asked for"))
        }
    }
}

/// Runs an operation where it is asked to run.
pub(crate) fn on<T>(
    target: Option<Target>,
    operation: impl FnOnce() -> mlx::Result<T>,
) -> PyResult<T> {
    match target {
        None => operation(),
        Some(target) => mlx::with_stream(target.stream()?, operation),
    }
    .or_raise()
}

/// The stream of the innermost `with mx.stream(…)`.
pub(crate) fn scope() -> Option<Stream> {
    let scope = mlx::stream::replace_scope(None);
    mlx::stream::replace_scope(scope);
    scope
}

fn default_of(device: mlx::Device) -> PyResult<Stream> {
    match scope() {
        Some(scope) if scope.device == device => Ok(scope),
        _ => mlx::default_stream(device).or_raise(),
    }
}

/// The default stream of a device.
#[pyfunction]
fn default_stream(device: DeviceArg) -> PyResult<PyStream> {
    default_of(device.0).map(PyStream)
}

/// Makes a stream this thread's default stream of its device. The default device stays what it is.
#[pyfunction]
fn set_default_stream(stream: &PyStream) {
    mlx::set_default_stream(stream.0);
    if scope().is_some_and(|scope| scope.device == stream.0.device) {
        mlx::stream::replace_scope(Some(stream.0));
    }
}

/// Makes a stream on a device. Only the thread that made it may use it.
#[pyfunction]
fn new_stream(device: DeviceArg) -> PyResult<PyStream> {
    mlx::new_stream(device.0).map(PyStream).or_raise()
}

/// Makes a stream on a device that every thread may use.
#[pyfunction]
fn new_thread_unsafe_stream(device: DeviceArg) -> PyResult<PyStream> {
    mlx::stream::new_thread_unsafe_stream(device.0).map(PyStream).or_raise()
}

/// Makes a name for streams on a device, one for each thread that uses it.
#[pyfunction]
fn new_thread_local_stream(device: DeviceArg) -> PyResult<PyThreadLocalStream> {
    mlx::stream::new_thread_local_stream(device.0).map(PyThreadLocalStream).or_raise()
}

/// Gives back all streams that this thread has made, when their work is done.
#[pyfunction]
fn clear_streams(py: Python<'_>) {
    lock::without(py, mlx::stream::clear_streams);
}

/// Waits until all work of a stream is done: of the default stream of the default device if none is given.
#[pyfunction]
#[pyo3(signature = (stream=None))]
fn synchronize(py: Python<'_>, stream: Option<Target>) -> PyResult<()> {
    let stream = match stream {
        Some(target) => target.stream()?,
        None => mlx::current_stream().or_raise()?,
    };
    released(py, || mlx::synchronize(stream))
}

thread_local! {
    /// What `with mx.stream(…)` found when it was entered, and which context that was.
    static ENTERED: RefCell<Vec<(u64, Option<Stream>)>> = const { RefCell::new(Vec::new()) };
}

/// A context in which operations run on a stream or device.
#[pyclass(module = "mlx.core", frozen)]
pub(crate) struct StreamContext {
    target: Target,
    id: u64,
}

#[pymethods]
impl StreamContext {
    #[new]
    fn new(s: Option<Target>) -> PyResult<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let target = s.ok_or_else(|| {
            let message = "[StreamContext] Invalid argument, please specify a stream or device.";
            PyRuntimeError::new_err(message)
        })?;
        Ok(StreamContext { target, id: NEXT.fetch_add(1, Relaxed) })
    }

    fn __enter__(&self) -> PyResult<()> {
        let before = mlx::stream::replace_scope(Some(self.target.stream()?));
        ENTERED.with_borrow_mut(|entered| entered.push((self.id, before)));
        Ok(())
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        exc_type: Option<&Bound<'_, PyAny>>,
        exc_value: Option<&Bound<'_, PyAny>>,
        traceback: Option<&Bound<'_, PyAny>>,
    ) {
        let _ = (exc_type, exc_value, traceback);
        let left = ENTERED.with_borrow_mut(|entered| {
            let at = entered.iter().rposition(|(id, _)| *id == self.id)?;
            Some(entered.remove(at).1)
        });
        if let Some(before) = left {
            mlx::stream::replace_scope(before);
        }
    }
}

/// A context in which operations run on a stream, or on a device's default stream.
///
/// Example:
///     >>> with mx.stream(mx.cpu):
///     ...     a = mx.ones((2, 2))
#[pyfunction]
fn stream(s: Option<Target>) -> PyResult<StreamContext> {
    StreamContext::new(s)
}
