//! The class of what transforms make of functions.

use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    pyclass::{PyTraverseError, PyVisit},
    types::{PyDict, PyModule, PyString, PyTuple},
};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("_gc_func", module.py().get_type::<PyFunction>())
}

/// A function and what was given with it.
pub(crate) struct Held {
    /// The user's function.
    pub(crate) function: Py<PyAny>,
    /// Trees: axes, or what a compiled function captures.
    pub(crate) trees: Option<[Py<PyAny>; 2]>,
}

/// What a transformed function does when it is called.
pub(crate) trait Call: Send + Sync {
    /// Calls it.
    fn call<'py>(
        &self,
        held: &Held,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>>;
}

// A function often refers to what was made of it, by a closure or a module: the garbage collector has to see
// what this holds.
/// A function that a transform has made of another one, whose attributes it has.
#[pyclass(name = "gc_func", module = "mlx", frozen)]
pub(crate) struct PyFunction {
    /// Until it is collected.
    held: Mutex<Option<Arc<Held>>>,
    call: Box<dyn Call>,
}

impl PyFunction {
    /// What a transform makes of a function.
    pub(crate) fn new(
        function: Bound<'_, PyAny>,
        trees: Option<[Py<PyAny>; 2]>,
        call: impl Call + 'static,
    ) -> PyResult<Self> {
        expect_callable(&function)?;
        let held = Arc::new(Held { function: function.unbind(), trees });
        Ok(PyFunction { held: Mutex::new(Some(held)), call: Box::new(call) })
    }

    fn held(&self) -> PyResult<Arc<Held>> {
        let held = self.held.lock().clone();
        held.ok_or_else(|| PyRuntimeError::new_err("the function was collected"))
    }
}

/// Refuses what cannot be called.
pub(crate) fn expect_callable(function: &Bound<'_, PyAny>) -> PyResult<()> {
    match function.is_callable() {
        true => Ok(()),
        false => {
            let name = function.get_type().name()?;
            let message = format!("a function is asked for, not {name}");
            Err(pyo3::exceptions::PyTypeError::new_err(message))
        }
    }
}

#[pymethods]
impl PyFunction {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let held = self.held()?;
        match kwargs {
            Some(kwargs) => self.call.call(&held, args, kwargs),
            None => self.call.call(&held, args, &PyDict::new(args.py())),
        }
    }

    // All of them, its class too: so `inspect` and `functools` see the function itself.
    fn __getattribute__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        self.held()?.function.bind(name.py()).getattr(name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Whoever holds the lock holds the function as well.
        if let Some(held) = self.held.try_lock()
            && let Some(held) = &*held
        {
            visit.call(&held.function)?;
            held.trees.iter().flatten().try_for_each(|tree| visit.call(tree))?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        let held = self.held.lock().take();
        drop(held);
    }
}
