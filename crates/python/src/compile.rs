//! `compile`: functions that are traced once for each kind of arguments.

use std::sync::Arc;

use mlx::{
    Array,
    compile::{Mode, Traces, set_mode},
};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyModule, PyString, PyTuple},
};

use crate::{
    error::{OrRaise, to_core},
    function::{Call, Held, PyFunction},
    functions,
    transforms::class_of,
    trees::{self, Structure},
};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: compile disable_compile enable_compile);
    Ok(())
}

/// A function that does what ``fun`` does, but traces it once for each kind of arguments and does not run it
/// again.
///
/// Args:
///     fun (Callable): A function of trees of arrays and of constants: numbers, strings, ``None``.
///     inputs (list or dict, optional): A tree of arrays that ``fun`` reads besides its arguments.
///     outputs (list or dict, optional): A tree of arrays that ``fun`` writes besides what it returns.
///     shapeless (bool, optional): Trace once for arguments of any sizes. Not every function can be traced
///       so. Default: ``False``.
///
/// Returns:
///     Callable: The compiled function.
///
/// Example:
///     >>> @partial(mx.compile, inputs=state, outputs=state)
///     ... def step(x):
///     ...     state["n"] = state["n"] + 1
///     ...     return mx.exp(x)
#[pyfunction]
#[pyo3(signature = (fun, inputs=None, outputs=None, shapeless=false))]
fn compile(
    fun: Bound<'_, PyAny>,
    inputs: Option<Py<PyAny>>,
    outputs: Option<Py<PyAny>>,
    shapeless: bool,
) -> PyResult<PyFunction> {
    let py = fun.py();
    let captured = [inputs, outputs].map(|tree| tree.unwrap_or_else(|| py.None()));
    PyFunction::new(fun, Some(captured), Compile { traces: Traces::new(shapeless) })
}

/// Lets compiled functions run as they are, in all threads. ``MLX_DISABLE_COMPILE`` in the environment does
/// it too.
#[pyfunction]
fn disable_compile() {
    set_mode(Mode::Disabled);
}

/// Lets compiling do all it can, in all threads.
#[pyfunction]
fn enable_compile() {
    set_mode(Mode::Enabled);
}

/// What a function was traced to, with the structure of what it returned.
struct Compile {
    traces: Traces<Arc<Structure>>,
}

impl Call for Compile {
    fn call<'py>(
        &self,
        held: &Held,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let [inputs, outputs] = held.trees.as_ref().expect("`compile` gives trees");
        let (inputs, outputs) = (inputs.bind(py), outputs.bind(py));
        let mut given = Given::default();
        given.add(args)?;
        let positional = given.arrays.len();
        given.add(kwargs)?;
        let own = given.arrays.len();
        if !inputs.is_none() {
            given.arrays.extend(trees::arrays(inputs, false)?);
        }
        let traced = |arrays: &[Array]| {
            let function = held.function.bind(py);
            let run = || -> PyResult<_> {
                let args = trees::with_arrays(args, &arrays[..positional])?;
                let kwargs = trees::with_arrays(kwargs, &arrays[positional..own])?;
                let kwargs = kwargs.cast::<PyDict>()?;
                let returned = function.call(args.cast_into::<PyTuple>()?, Some(kwargs))?;
                let (mut results, structure) = Structure::of(&returned, false)?;
                if !outputs.is_none() {
                    results.extend(trees::arrays(outputs, false)?);
                }
                Ok((results, Arc::new(structure)))
            };
            capturing(inputs, &arrays[own..], run).map_err(to_core)
        };
        let (results, structure) =
            self.traces.call(&given.arrays, &given.constants, traced).or_raise()?;
        if !outputs.is_none() {
            trees::fill(outputs, &results[structure.arrays..])?;
        }
        structure.filled(py, &results)
    }
}

/// Runs a function while tracers stand in the places of a captured tree's arrays.
fn capturing<T>(
    tree: &Bound<'_, PyAny>,
    tracers: &[Array],
    run: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    if tree.is_none() {
        return run();
    }
    let arrays = trees::array_objects(tree)?;
    trees::fill(tree, tracers)?;
    let result = run();
    // Also after an exception: the tree is the user's.
    trees::restore(tree, tracers, &arrays)?;
    result
}

/// An integer as Python's `hex` writes it.
fn hexadecimal<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    let hex = object.py().import("builtins")?.getattr("hex")?;
    Ok(hex.call1((object,))?.cast_into()?)
}

/// The arrays of a call, and what else it was traced for.
#[derive(Default)]
struct Given {
    arrays: Vec<Array>,
    /// The structure of the arguments, and the constants among them.
    constants: Vec<u64>,
}

/// What comes next among the constants. With lengths of lists, no two trees have the same ones.
#[repr(u64)]
enum Tag {
    Array,
    List,
    Dict,
    /// A key of a dictionary that is no constant.
    Key,
    Text,
    Bool,
    Int,
    /// A constant as Python writes it.
    Written,
    Float,
    None,
}

impl Given {
    fn add(&mut self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Some(array) = trees::array_of(object) {
            self.arrays.push(array);
            self.constants.push(Tag::Array as u64);
        } else if let Ok(tuple) = object.cast::<PyTuple>() {
            self.tag(Tag::List, tuple.len() as u64);
            tuple.iter().try_for_each(|item| self.add(&item))?;
        } else if let Ok(list) = object.cast::<PyList>() {
            self.tag(Tag::List, list.len() as u64);
            list.iter().try_for_each(|item| self.add(&item))?;
        } else if let Ok(dict) = object.cast::<PyDict>() {
            let items = trees::items(dict);
            self.tag(Tag::Dict, items.len() as u64);
            for (key, item) in items {
                self.add_key(&key)?;
                self.add(&item)?;
            }
        } else if !self.add_constant(object)? {
            let message = format!(
                "[compile] Function arguments must be trees of arrays or constants (floats, ints, strings, \
                 or None), but received type {}.",
                class_of(object)
            );
            return Err(PyValueError::new_err(message));
        }
        Ok(())
    }

    /// Adds a key of a dictionary; one that is neither a constant nor a tuple of such by its hash.
    fn add_key(&mut self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(tuple) = key.cast::<PyTuple>() {
            self.tag(Tag::List, tuple.len() as u64);
            return tuple.iter().try_for_each(|item| self.add_key(&item));
        }
        if !self.add_constant(key)? {
            self.tag(Tag::Key, key.hash()? as u64);
        }
        Ok(())
    }

    /// Adds a constant by its value, as hashes of different ones may be the same; `false` if it is none.
    fn add_constant(&mut self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Ok(text) = object.cast::<PyString>() {
            match text.to_cow() {
                Ok(text) => self.text(Tag::Text, &text),
                // Half a pair of surrogates.
                Err(_) => self.text(Tag::Written, &object.repr()?.to_cow()?),
            }
        } else if let Ok(value) = object.cast::<PyBool>() {
            self.tag(Tag::Bool, value.is_true().into());
        } else if object.is_instance_of::<PyInt>() {
            match object.extract::<i64>() {
                Ok(value) => self.tag(Tag::Int, value as u64),
                // Decimal digits have a limit.
                Err(_) => self.text(Tag::Written, &hexadecimal(object)?.to_cow()?),
            }
        } else if let Ok(value) = object.cast::<PyFloat>() {
            self.tag(Tag::Float, value.value().to_bits());
        } else if object.is_none() {
            self.constants.push(Tag::None as u64);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// A text, eight bytes at a time.
    fn text(&mut self, tag: Tag, text: &str) {
        self.tag(tag, text.len() as u64);
        self.constants.extend(text.as_bytes().chunks(8).map(|bytes| {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(padded)
        }));
    }

    fn tag(&mut self, tag: Tag, value: u64) {
        self.constants.extend([tag as u64, value]);
    }
}
