//! `checkpoint`: functions that are computed again for their derivatives.

use std::sync::Arc;

use mlx::{Array, transforms};
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyDict, PyModule, PyTuple},
};

use super::custom::spread;
use crate::{
    error::{OrRaise, to_core},
    function::{Call, Held, PyFunction},
    functions,
    trees::Structure,
};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: checkpoint);
    Ok(())
}

/// A function that does what ``fun`` does, but whose intermediate results derivatives do not keep: they
/// compute them again, which takes less memory and more time.
///
/// Args:
///     fun (Callable): A function of arrays or trees of arrays.
///
/// Returns:
///     Callable: The same function.
#[pyfunction]
fn checkpoint(fun: Bound<'_, PyAny>) -> PyResult<PyFunction> {
    PyFunction::new(fun, None, Checkpoint)
}

struct Checkpoint;

impl Call for Checkpoint {
    fn call<'py>(
        &self,
        held: &Held,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let given = PyTuple::new(py, [args.as_any(), kwargs.as_any()])?;
        let (inputs, structure) = Structure::of(&given, false)?;
        let function = held.function.clone_ref(py);
        let returned = Arc::new(Mutex::new(None));
        let of_call = returned.clone();
        let fun = move |inputs: &Vec<Array>| {
            Python::attach(|py| -> PyResult<_> {
                let value = spread(function.bind(py), &structure, inputs)?;
                let (outputs, structure) = Structure::of(&value, false)?;
                let before = of_call.lock().replace(Arc::new(structure));
                drop(before);
                Ok(outputs)
            })
            .map_err(to_core)
        };
        let outputs = transforms::checkpoint(fun)(&inputs).or_raise()?;
        let structure = returned.lock().clone().expect("the function has run");
        structure.filled(py, &outputs)
    }
}
