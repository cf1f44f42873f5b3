//! `mlx.core.distributed`: a group of this process alone, with which distributed programs run as they are.

use pyo3::{
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
    types::PyModule,
};

use crate::{
    arguments::{ArrayArg, Sizes},
    array::PyArray,
    dtype::PyDtype,
    functions,
    stream::Target,
};

pub(crate) fn register(core: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = &PyModule::new(core.py(), "mlx.core.distributed")?;
    module.add_class::<Group>()?;
    functions!(module: is_available init all_sum all_max all_min all_gather sum_scatter send recv recv_like);
    core.add("distributed", module)
}

/// Processes that work together: this one.
#[pyclass(module = "mlx.core.distributed", frozen)]
struct Group;

#[pymethods]
impl Group {
    /// The number of this process: 0.
    fn rank(&self) -> usize {
        0
    }

    /// How many processes there are: 1.
    fn size(&self) -> usize {
        1
    }

    /// Raises a ``RuntimeError``, as there is nothing to split.
    ///
    /// Args:
    ///     color (int): Processes with the same one stay together.
    ///     key (int, optional): Their order. Default: -1, which keeps it.
    #[pyo3(
        signature = (color, key=-1),
        text_signature = "($self, color, key=-1)"
    )]
    fn split(&self, color: i32, key: i32) -> PyResult<Group> {
        let _ = (color, key);
        let message = "[distributed] Cannot split the distributed group further.";
        Err(PyRuntimeError::new_err(message))
    }
}

/// What distributed programs may ask for.
const BACKENDS: [&str; 5] = ["any", "mpi", "ring", "nccl", "jaccl"];

/// Whether processes can work together: they cannot.
///
/// Args:
///     backend (str, optional): By which means. Default: ``"any"``.
#[pyfunction]
#[pyo3(signature = (backend="any"))]
fn is_available(backend: &str) -> bool {
    let _ = backend;
    false
}

/// The group of processes that work together: this one alone.
///
/// Args:
///     strict (bool, optional): Raise a ``RuntimeError`` if there is no other. Default: ``False``.
///     backend (str, optional): By which means. Default: ``"any"``.
///     all_gather_factory (Callable, optional): Makes what some means exchange addresses with; it is not
///       called.
///
/// Returns:
///     Group: The group.
#[pyfunction]
#[pyo3(signature = (strict=false, backend="any", *, all_gather_factory=None))]
fn init(
    strict: bool,
    backend: &str,
    all_gather_factory: Option<&Bound<'_, PyAny>>,
) -> PyResult<Group> {
    let _ = all_gather_factory;
    if !BACKENDS.contains(&backend) {
        let message = format!(
            "[distributed] The only valid values for backend are 'any', 'mpi', 'nccl', 'jaccl' and 'ring' \
             but '{backend}' was provided."
        );
        return Err(PyValueError::new_err(message));
    }
    match strict {
        true => {
            let message = "[distributed] Couldn't initialize any backend";
            Err(PyRuntimeError::new_err(message))
        }
        false => Ok(Group),
    }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Args:
        ///     x (array): This process' array.
        ///     group (Group, optional): The processes. Default: all.
        ///
        /// Returns:
        ///     array: What this process gets: ``x``, as there is no other.
        #[pyfunction]
        #[pyo3(signature = (x, *, group=None, stream=None))]
        fn $name(x: ArrayArg, group: Option<&Group>, stream: Option<Target>) -> PyArray {
            let _ = (group, stream);
            x.0.into()
        }
    )*};
}

reductions! {
    /// The sum of all processes' arrays.
    all_sum;
    /// The maximum of all processes' arrays.
    all_max;
    /// The minimum of all processes' arrays.
    all_min;
    /// All processes' arrays along the first axis.
    all_gather;
    /// This process' part, along the first axis, of the sum of all processes' arrays.
    sum_scatter;
}

fn alone(op: &str, what: &str) -> PyErr {
    PyValueError::new_err(format!("[{op}] Cannot {what} a singleton group"))
}

/// Sends an array: raises a ``ValueError``, as there is nobody to send it to.
///
/// Args:
///     x (array): The array.
///     dst (int): Which process gets it.
///     group (Group, optional): The processes. Default: all.
#[pyfunction]
#[pyo3(signature = (x, dst, *, group=None, stream=None))]
fn send(x: ArrayArg, dst: i32, group: Option<&Group>, stream: Option<Target>) -> PyResult<PyArray> {
    let _ = (x.0, dst, group, stream);
    Err(alone("send", "send to"))
}

/// Receives an array: raises a ``ValueError``, as there is nobody who sends one.
///
/// Args:
///     shape (tuple(int)): Its shape.
///     dtype (Dtype): Its type.
///     src (int): Which process sends it.
///     group (Group, optional): The processes. Default: all.
#[pyfunction]
#[pyo3(signature = (shape, dtype, src, *, group=None, stream=None))]
fn recv(
    shape: Sizes,
    dtype: PyDtype,
    src: i32,
    group: Option<&Group>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let _ = (shape.0, dtype, src, group, stream);
    Err(alone("recv", "recv from"))
}

/// Receives an array like another one: raises a ``ValueError``, as there is nobody who sends one.
///
/// Args:
///     x (array): An array of its shape and type.
///     src (int): Which process sends it.
///     group (Group, optional): The processes. Default: all.
#[pyfunction]
#[pyo3(signature = (x, src, *, group=None, stream=None))]
fn recv_like(
    x: ArrayArg,
    src: i32,
    group: Option<&Group>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let _ = (x.0, src, group, stream);
    Err(alone("recv", "recv from"))
}
