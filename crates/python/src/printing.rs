//! How numbers are printed.

use mlx::print;
use parking_lot::Mutex;
use pyo3::{prelude::*, types::PyModule};

use crate::functions;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyPrintOptions>()?;
    module.add_class::<PrintOptionsContext>()?;
    functions!(module: set_printoptions get_printoptions printoptions);
    Ok(())
}

/// How numbers are printed.
///
/// Args:
///     precision (int, optional): Digits behind the point. Default: -1, which is six significant digits.
#[pyclass(name = "PrintOptions", module = "mlx.core")]
struct PyPrintOptions {
    #[pyo3(get, set)]
    precision: i32,
}

#[pymethods]
impl PyPrintOptions {
    #[new]
    #[pyo3(
        signature = (precision=-1),
        text_signature = "(precision=-1)"
    )]
    fn new(precision: i32) -> Self {
        PyPrintOptions { precision }
    }
}

/// The options with this precision; a negative one is none.
fn options(precision: i32) -> print::PrintOptions {
    print::PrintOptions { precision: usize::try_from(precision).ok() }
}

/// Says how numbers are printed from now on.
///
/// Args:
///     precision (int, optional): Digits behind the point. Default: -1, which is six significant digits.
#[pyfunction]
#[pyo3(
    signature = (precision=-1),
    text_signature = "(precision=-1)"
)]
fn set_printoptions(precision: i32) {
    print::set_options(options(precision));
}

/// How numbers are printed now.
#[pyfunction]
fn get_printoptions() -> PyPrintOptions {
    let digits = print::options().precision;
    PyPrintOptions { precision: digits.and_then(|digits| digits.try_into().ok()).unwrap_or(-1) }
}

/// A context in which numbers are printed with some precision.
///
/// Args:
///     precision (int, optional): Digits behind the point. Default: -1, which is six significant digits.
///
/// Example:
///     >>> with mx.printoptions(precision=2):
///     ...     print(mx.array(2.0 / 3.0))
///     array(0.67, dtype=None)
#[pyfunction]
#[pyo3(
    signature = (precision=-1),
    text_signature = "(precision=-1)"
)]
fn printoptions(precision: i32) -> PrintOptionsContext {
    PrintOptionsContext { inside: options(precision), before: Mutex::default() }
}

/// What [`printoptions`] returns.
#[pyclass(name = "_PrintOptionsContext", module = "mlx.core", frozen)]
struct PrintOptionsContext {
    inside: print::PrintOptions,
    /// The options that were found when it was entered.
    before: Mutex<Vec<print::PrintOptions>>,
}

#[pymethods]
impl PrintOptionsContext {
    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        let context = slf.get();
        context.before.lock().push(print::options());
        print::set_options(context.inside);
        slf
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        exc_type: Option<&Bound<'_, PyAny>>,
        exc_value: Option<&Bound<'_, PyAny>>,
        traceback: Option<&Bound<'_, PyAny>>,
    ) {
        let _ = (exc_type, exc_value, traceback);
        if let Some(before) = self.before.lock().pop() {
            print::set_options(before);
        }
    }
}
