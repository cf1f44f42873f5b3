//! Functions in files, and graphs as pictures.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use mlx::{
    Array,
    compile::export_to_dot as dot,
    export::{Argument, Event, Exporter, ImportedFunction, Value},
    io::Arrays,
    primitives::Scalar,
};
use parking_lot::Mutex;
use pyo3::{
    exceptions::{PyRuntimeError, PyTypeError, PyValueError},
    prelude::*,
    pyclass::{PyTraverseError, PyVisit},
    types::{PyDict, PyList, PyModule, PyString, PyTuple},
};

use crate::{
    array::{PyArray, Wrap},
    dtype,
    error::{OrRaise, released, to_core},
    function::expect_callable,
    functions, trees,
};

const EXPORT: &str = "[export_function]";

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyFunctionExporter>()?;
    functions!(module: export_function import_function exporter export_to_dot);
    Ok(())
}

/// Arrays by position and by keyword.
type Inputs = (Vec<Array>, Arrays);

/// The arrays of a list or tuple, if there are only arrays.
fn listed(object: &Bound<'_, PyAny>) -> Option<Vec<Array>> {
    let is_list = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
    let items = is_list.then(|| object.try_iter().ok()).flatten()?;
    items.map(|item| trees::array_of(&item.ok()?)).collect()
}

/// The arrays of a dictionary by name, if there are only arrays.
fn named(object: &Bound<'_, PyAny>) -> Option<Arrays> {
    let items = object.cast::<PyDict>().ok()?.iter();
    items.map(|(key, item)| Some((key.extract().ok()?, trees::array_of(&item)?))).collect()
}

/// The arrays that a function is called with: each an argument, or a tuple and a dictionary of them.
fn inputs(
    name: &str,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Inputs> {
    let has_kwargs = kwargs.is_some_and(|kwargs| !kwargs.is_empty());
    let keywords = || kwargs.map_or_else(|| Some(Arrays::new()), |kwargs| named(kwargs));
    let found = match &args.iter().collect::<Vec<_>>()[..] {
        [] => keywords().map(|keywords| (Vec::new(), keywords)),
        [first, ..] if first.is_instance_of::<PyArray>() => listed(args).zip(keywords()),
        [_, ..] if has_kwargs => None,
        [all] => match listed(all) {
            Some(arrays) => Some((arrays, Arrays::new())),
            None => named(all).map(|keywords| (Vec::new(), keywords)),
        },
        [positional, keywords] => listed(positional).zip(named(keywords)),
        _ => None,
    };
    found.ok_or_else(|| {
        let message = format!(
            "{name} Inputs can either be a variable number of positional and keyword arrays or a single \
             tuple and/or dictionary of arrays."
        );
        PyValueError::new_err(message)
    })
}

/// What is exported: a user's function.
fn called(function: &Py<PyAny>, args: &[Array], kwargs: &Arrays) -> mlx::Result<Vec<Array>> {
    let call = |py: Python<'_>| {
        let args = args.iter().map(|array| trees::leaf(py, array.clone()));
        let args = PyTuple::new(py, args.collect::<PyResult<Vec<_>>>()?)?;
        let named = PyDict::new(py);
        for (name, array) in kwargs {
            named.set_item(name, trees::leaf(py, array.clone())?)?;
        }
        let outputs = function.bind(py).call(args, Some(&named))?;
        let alone = trees::array_of(&outputs).map(|output| vec![output]);
        alone.or_else(|| listed(&outputs)).ok_or_else(|| {
            let message = "Outputs can be either a single array, a tuple, or a list of arrays.";
            PyValueError::new_err(format!("{EXPORT} {message}"))
        })
    };
    Python::attach(call).map_err(to_core)
}

/// Writes what a function computes into a file, or tells a callback of it.
///
/// Args:
///     file_or_callback (str or Callable): The file, or a function that gets a dictionary for each part.
///     fun (Callable): A function of arrays that returns arrays.
///     *args (array): Example inputs; a tuple and a dictionary of arrays will do as well.
///     shapeless (bool, optional): Whether the function takes arrays of any sizes. Default: ``False``.
///     metadata (str, optional): A text that the file has beside the function.
///     **kwargs (array): Example inputs by keyword.
///
/// Example:
///     >>> mx.export_function("add.mlxfn", lambda x, y: x + y, mx.array(1), y=mx.array(2))
#[pyfunction]
#[pyo3(signature = (file_or_callback, fun, *args, shapeless=false, metadata=None, **kwargs))]
fn export_function(
    py: Python<'_>,
    file_or_callback: &Bound<'_, PyAny>,
    fun: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    shapeless: bool,
    metadata: Option<String>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    expect_callable(fun)?;
    let (args, kwargs) = inputs(EXPORT, args, kwargs)?;
    let function = fun.clone().unbind();
    let fun = move |args: &[Array], kwargs: &Arrays| called(&function, args, kwargs);
    let mut exporter = match file_or_callback.extract::<PathBuf>() {
        Ok(path) => Exporter::new(path, fun, shapeless).with_metadata(metadata.unwrap_or_default()),
        Err(_) if metadata.as_deref().is_some_and(|text| !text.is_empty()) => {
            let message = "The metadata argument is only supported when exporting to a file, not when using \
                           a callback.";
            return Err(PyValueError::new_err(format!("{EXPORT} {message}")));
        }
        Err(_) => {
            expect_callable(file_or_callback)?;
            let callback = file_or_callback.clone().unbind();
            Exporter::to_callback(move |event| tell(&callback, event), fun, shapeless)
        }
    };
    exporter.export(&args, &kwargs).or_raise()?;
    released(py, || exporter.close())
}

/// Calls a callback with a dictionary that says what an event is.
fn tell(callback: &Py<PyAny>, event: Event<'_>) -> mlx::Result<()> {
    let call = |py: Python<'_>| {
        let told = PyDict::new(py);
        let say = |kind: &str, name: &str, value: Bound<'_, PyAny>| {
            told.set_item("type", kind)?;
            told.set_item(name, value)
        };
        match event {
            Event::Inputs(arrays) => say("inputs", "inputs", values(py, arrays)?)?,
            Event::KeywordInputs(names) => {
                say("keyword_inputs", "keywords", names.into_pyobject(py)?.into_any())?;
            }
            Event::Outputs(arrays) => say("outputs", "outputs", values(py, arrays)?)?,
            Event::Constants(constants) => {
                let each =
                    constants.iter().map(|(name, array)| (name, PyArray::from(array.clone())));
                say("constants", "constants", PyList::new(py, each)?.into_any())?;
            }
            Event::Primitive { name, arguments, inputs, outputs } => {
                told.set_item("inputs", values(py, inputs)?)?;
                told.set_item("outputs", values(py, outputs)?)?;
                told.set_item("name", name)?;
                // Upstream does not tell of what a kernel's outputs hold before it runs.
                let arguments = arguments.iter().filter(|a| !matches!(a, Argument::MaybeFloat(_)));
                let arguments = arguments.map(|argument| argument_object(py, argument));
                let arguments = arguments.collect::<PyResult<Vec<_>>>()?;
                say("primitive", "arguments", PyList::new(py, arguments)?.into_any())?;
            }
            // What upstream does not tell of either.
            _ => return Ok(()),
        }
        callback.call1(py, (told,)).map(drop)
    };
    Python::attach(call).map_err(to_core)
}

/// Names, shapes and dtypes.
fn values<'py>(py: Python<'py>, values: &[Value]) -> PyResult<Bound<'py, PyAny>> {
    let each = values.iter().map(|value| {
        let shape = PyTuple::new(py, value.spec.shape.iter())?;
        (&value.name, shape, dtype::object(py, value.spec.dtype)).into_pyobject(py)
    });
    Ok(PyList::new(py, each.collect::<PyResult<Vec<_>>>()?)?.into_any())
}

/// What a primitive is made with.
fn argument_object<'py>(py: Python<'py>, argument: &Argument) -> PyResult<Bound<'py, PyAny>> {
    Ok(match argument {
        Argument::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Argument::Int(value) => value.into_pyobject(py)?.into_any(),
        Argument::Size(value) => value.into_pyobject(py)?.into_any(),
        Argument::Float(value) => value.into_pyobject(py)?.into_any(),
        Argument::Double(value) => value.into_pyobject(py)?.into_any(),
        Argument::Dtype(value) => dtype::object(py, *value).into_bound(py).into_any(),
        Argument::Shape(values) | Argument::Strides(values) => PyTuple::new(py, values)?.into_any(),
        Argument::Ints(values) => PyList::new(py, values)?.into_any(),
        Argument::Sizes(values) => PyList::new(py, values)?.into_any(),
        Argument::Text(text) => PyString::new(py, text).into_any(),
        Argument::Flags(all) => PyList::new(py, all.iter().map(|&[a, b, c]| (a, b, c)))?.into_any(),
        Argument::Scalars(all) => {
            let all = all.iter().map(|scalar| scalar_object(py, *scalar));
            PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Argument::MaybeFloat(value) => value.into_pyobject(py)?.into_any(),
    })
}

fn scalar_object<'py>(py: Python<'py>, scalar: Scalar) -> PyResult<Bound<'py, PyAny>> {
    Ok(match scalar {
        Scalar::Int(value) => value.into_pyobject(py)?.into_any(),
        Scalar::Float(value) => value.0.into_pyobject(py)?.into_any(),
        Scalar::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
    })
}

/// A function of a file.
#[pyclass(module = "mlx.core", frozen)]
struct PyImportedFunction(ImportedFunction);

#[pymethods]
impl PyImportedFunction {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (positional, named) = inputs("[import_function::call]", args, kwargs)?;
        let outputs = self.0.call(&positional, &named).or_raise()?;
        PyTuple::new(args.py(), outputs.wrap())
    }
}

/// Loads a function that :func:`export_function` wrote.
///
/// Args:
///     file (str): The file.
///     return_metadata (bool, optional): Return the file's text as well. Default: ``False``.
///
/// Returns:
///     Callable or tuple: The function, which returns a tuple of arrays; or it and the text.
///
/// Example:
///     >>> add = mx.import_function("add.mlxfn")
///     >>> (z,) = add(mx.array(1), y=mx.array(2))
#[pyfunction]
#[pyo3(signature = (file, return_metadata=false))]
fn import_function(
    py: Python<'_>,
    file: PathBuf,
    return_metadata: bool,
) -> PyResult<Bound<'_, PyAny>> {
    let imported = released(py, || mlx::export::import_function(&file))?;
    let metadata = imported.metadata().to_owned();
    let function = Bound::new(py, PyImportedFunction(imported))?.into_any();
    match return_metadata {
        true => Ok((function, metadata).into_pyobject(py)?.into_any()),
        false => Ok(function),
    }
}

/// Writes several traces of a function into one file; made by :func:`exporter`.
#[pyclass(name = "FunctionExporter", module = "mlx.core", frozen)]
struct PyFunctionExporter {
    /// The same that the exporter calls, for the garbage collector.
    function: Arc<Py<PyAny>>,
    exporter: Mutex<Exporter<'static>>,
}

/// The error about an exporter that is in use.
fn is_tracing() -> PyErr {
    PyRuntimeError::new_err(format!("{EXPORT} The exporter is tracing its function."))
}

#[pymethods]
impl PyFunctionExporter {
    /// Traces the function for arguments like these.
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__(
        &self,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let (args, kwargs) = inputs(EXPORT, args, kwargs)?;
        let mut exporter = self.exporter.try_lock().ok_or_else(is_tracing)?;
        exporter.export(&args, &kwargs).or_raise()
    }

    /// Writes the file. Nothing can be traced afterwards.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        // Whoever waited in the function that is traced would wait for itself.
        let mut exporter = self.exporter.try_lock().ok_or_else(is_tracing)?;
        let exporter = &mut *exporter;
        released(py, || exporter.close())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Option<&Bound<'_, PyAny>>,
        exc_value: Option<&Bound<'_, PyAny>>,
        traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _ = (exc_type, exc_value, traceback);
        self.close(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&*self.function)
    }
}

/// Makes what traces a function for several kinds of arguments, and writes all traces into one file.
///
/// Args:
///     file (str): The file.
///     fun (Callable): A function of arrays that returns arrays.
///     shapeless (bool, optional): Whether the function takes arrays of any sizes. Default: ``False``.
///     metadata (str, optional): A text that the file has beside the function.
///
/// Example:
///     >>> with mx.exporter("sum.mlxfn", lambda *args: sum(args)) as exporter:
///     ...     exporter(mx.array(1))
///     ...     exporter(mx.array(1), mx.array(2))
#[pyfunction]
#[pyo3(signature = (file, fun, *, shapeless=false, metadata=None))]
fn exporter(
    file: PathBuf,
    fun: &Bound<'_, PyAny>,
    shapeless: bool,
    metadata: Option<String>,
) -> PyResult<PyFunctionExporter> {
    expect_callable(fun)?;
    let function = Arc::new(fun.clone().unbind());
    let exported = function.clone();
    let fun = move |args: &[Array], kwargs: &Arrays| called(&exported, args, kwargs);
    let exporter = Exporter::new(file, fun, shapeless).with_metadata(metadata.unwrap_or_default());
    Ok(PyFunctionExporter { function, exporter: Mutex::new(exporter) })
}

/// Writes the graph of arrays in the language of Graphviz.
///
/// Args:
///     file (str): The file, or an object with a method ``write``.
///     *args (array): The arrays.
///     **kwargs (dict[str, array]): Arrays with names.
///
/// Example:
///     >>> mx.export_to_dot("graph.dot", x + y, x=x, y=y)
#[pyfunction]
#[pyo3(signature = (file, *args, **kwargs))]
fn export_to_dot(
    file: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let mut arrays = trees::arrays(args, true)?;
    let mut names = Arrays::new();
    for (name, array) in kwargs.into_iter().flatten() {
        arrays.extend(trees::arrays(&array, true)?);
        let message = "[export_to_dot] Names are given to arrays.";
        let array = trees::array_of(&array).ok_or_else(|| PyTypeError::new_err(message))?;
        names.insert(name.extract()?, array);
    }
    let names: Vec<(&str, &Array)> =
        names.iter().map(|(name, array)| (name.as_str(), array)).collect();
    let text = dot(&arrays, &names);
    if let Ok(path) = file.extract::<PathBuf>() {
        write(&path, &text)
    } else if file.hasattr("write")? {
        file.call_method1("write", (text,)).map(drop)
    } else {
        let message =
            "[export_to_dot] Accepts file-like objects or strings to be used as filenames.";
        Err(PyValueError::new_err(message))
    }
}

fn write(path: &Path, text: &str) -> PyResult<()> {
    Ok(std::fs::write(path, text)?)
}
