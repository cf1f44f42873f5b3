//! `grad` and `value_and_grad`.

use std::collections::BTreeSet;

use mlx::{Array, Early, transforms};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyDict, PyList, PyModule, PyString, PyTuple},
};

use super::class_of;
use crate::{
    arguments::Axes,
    array::PyArray,
    error::{OrRaise, released, to_core},
    function::{Call, Held, PyFunction},
    functions, trees,
};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: grad value_and_grad);
    Ok(())
}

/// Names of arguments: one, or several.
struct Names(BTreeSet<String>);

impl<'a, 'py> FromPyObject<'a, 'py> for Names {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(name) = object.cast::<PyString>() {
            return Ok(Names([name.to_str()?.to_owned()].into()));
        }
        object.try_iter()?.map(|name| name?.extract()).collect::<PyResult<_>>().map(Names)
    }
}

/// A function that returns the gradient of ``fun``.
///
/// Args:
///     fun (Callable): A function of arrays or trees of arrays that returns a scalar array.
///     argnums (int or list(int), optional): The positional arguments to differentiate by. Default: the
///       first, unless there are ``argnames``.
///     argnames (str or list(str), optional): The keyword arguments to differentiate by.
///
/// Returns:
///     Callable: A function of the same arguments. What it returns has the structure of the argument, or is a
///     tuple of them for several; with ``argnames`` it is a tuple of that and a dictionary.
///
/// Example:
///     >>> mx.grad(lambda x: x * x)(mx.array(3.0))
///     array(6, dtype=None)
#[pyfunction]
#[pyo3(
    signature = (fun, argnums=None, argnames=None),
    text_signature = "(fun, argnums=None, argnames=[])"
)]
fn grad(
    fun: Bound<'_, PyAny>,
    argnums: Option<Axes>,
    argnames: Option<Names>,
) -> PyResult<PyFunction> {
    PyFunction::new(fun, None, Gradient::new(false, argnums, argnames)?)
}

/// A function that returns what ``fun`` returns, and the gradient.
///
/// Args:
///     fun (Callable): A function of arrays or trees of arrays that returns a scalar array, or a tuple that
///       begins with one. No derivative goes through the rest of it.
///     argnums (int or list(int), optional): As for :func:`grad`.
///     argnames (str or list(str), optional): As for :func:`grad`.
///
/// Returns:
///     Callable: A function of the same arguments, which returns a tuple of value and gradient.
///
/// Example:
///     >>> loss, by_weights = mx.value_and_grad(lambda w: (w * w).sum())(weights)
#[pyfunction]
#[pyo3(
    signature = (fun, argnums=None, argnames=None),
    text_signature = "(fun, argnums=None, argnames=[])"
)]
fn value_and_grad(
    fun: Bound<'_, PyAny>,
    argnums: Option<Axes>,
    argnames: Option<Names>,
) -> PyResult<PyFunction> {
    PyFunction::new(fun, None, Gradient::new(true, argnums, argnames)?)
}

/// What is differentiated by, and what is returned.
struct Gradient {
    with_value: bool,
    /// The positional arguments, in order.
    positions: Vec<usize>,
    names: BTreeSet<String>,
    /// Derivatives that are begun before somebody evaluates them.
    early: Early,
}

/// The arrays of a call.
#[derive(Default)]
struct Given<'py> {
    arrays: Vec<(Array, Bound<'py, PyAny>)>,
    /// Which of them are differentiated by.
    wanted: Vec<isize>,
    /// The arguments that are differentiated by, and where their arrays begin among those.
    positional: Vec<(Bound<'py, PyAny>, usize)>,
    /// The same by keyword.
    named: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>, usize)>,
}

impl Gradient {
    fn new(with_value: bool, numbers: Option<Axes>, names: Option<Names>) -> PyResult<Self> {
        let names = names.map_or_else(BTreeSet::new, |names| names.0);
        let mut numbers = match numbers {
            Some(numbers) => numbers.as_slice().to_vec(),
            None if names.is_empty() => vec![0],
            None => Vec::new(),
        };
        numbers.sort_unstable();
        let early = Early::default();
        let mut gradient = Gradient { with_value, positions: Vec::new(), names, early };
        if numbers.is_empty() && gradient.names.is_empty() {
            return Err(gradient.error("Gradient wrt no argument requested"));
        }
        for number in numbers {
            let Ok(position) = usize::try_from(number) else {
                let what = "Can't compute the gradient of negative argument index";
                return Err(gradient.error(&format!("{what} {number}")));
            };
            if gradient.positions.last() == Some(&position) {
                let what = format!("Duplicate argument index {position} is not allowed.");
                return Err(gradient.error(&what));
            }
            gradient.positions.push(position);
        }
        Ok(gradient)
    }

    fn error(&self, what: &str) -> PyErr {
        let name = if self.with_value { "value_and_grad" } else { "grad" };
        PyValueError::new_err(format!("[{name}] {what}"))
    }

    /// What the function cannot be differentiated by because it was called without it.
    fn expect_arguments(
        &self,
        args: &Bound<'_, PyTuple>,
        kwargs: &Bound<'_, PyDict>,
    ) -> PyResult<()> {
        if let Some(&last) = self.positions.last().filter(|&&last| last >= args.len()) {
            let what = format!(
                "Can't compute the gradient of argument index {last} because the function is called with \
                 only {} positional arguments.",
                args.len()
            );
            return Err(self.error(&what));
        }
        for name in &self.names {
            if !kwargs.contains(name)? {
                let given = kwargs.keys().iter().map(|key| format!("{key},")).collect::<String>();
                let what = format!(
                    "Can't compute the gradient of keyword argument '{name}' because the function is called \
                     with the following keyword arguments {{{given}}}"
                );
                return Err(self.error(&what));
            }
        }
        Ok(())
    }

    fn collect<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
    ) -> PyResult<Given<'py>> {
        let mut given = Given::default();
        for (position, argument) in args.iter().enumerate() {
            let is_wanted = self.positions.contains(&position);
            let first = given.add(&argument, is_wanted)?;
            if is_wanted {
                given.positional.push((argument, first));
            }
        }
        for (key, argument) in kwargs.iter() {
            let is_wanted = self.names.contains(key.cast::<PyString>()?.to_str()?);
            let first = given.add(&argument, is_wanted)?;
            if is_wanted {
                given.named.push((key, argument, first));
            }
        }
        Ok(given)
    }

    /// Calls the function with tracers in the places of its arrays, and puts the arrays back.
    fn run<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
        tracers: &[Array],
        arrays: &[(Array, Bound<'py, PyAny>)],
    ) -> PyResult<Bound<'py, PyAny>> {
        let tree = PyList::new(args.py(), [args.as_any(), kwargs.as_any()])?;
        trees::fill(&tree, tracers)?;
        let (args, kwargs) = (tree.get_item(0)?, tree.get_item(1)?);
        let value = function.call(args.cast_into::<PyTuple>()?, Some(kwargs.cast::<PyDict>()?));
        // Also after an exception: lists and dictionaries of the user hold tracers.
        trees::restore(&tree, tracers, arrays)?;
        let value = value?;
        self.expect_scalar(&value)?;
        Ok(value)
    }

    /// What may be differentiated: an array, or a tuple that begins with one.
    fn expect_scalar(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if value.is_instance_of::<PyArray>() {
            return Ok(());
        }
        let returned =
            "The return value of the function whose gradient we want to compute should be";
        if !self.with_value {
            let what = format!("{returned} a scalar array; but {} was returned.", class_of(value));
            return Err(self.error(&what));
        }
        let either = "either a scalar array or a tuple with the first value being a scalar array \
                      (Union[array, tuple[array, Any, ...]]); but";
        let Ok(tuple) = value.cast::<PyTuple>() else {
            let what = format!("{returned} {either} {} was returned.", class_of(value));
            return Err(self.error(&what));
        };
        let Ok(first) = tuple.get_item(0) else {
            let what = format!(
                "{returned} either a scalar array or a non-empty tuple. The first value should be a scalar \
                 array and the rest can be anything. Instead, we got an empty tuple."
            );
            return Err(self.error(&what));
        };
        match first.is_instance_of::<PyArray>() {
            true => Ok(()),
            false => {
                let what = format!(
                    "{returned} {either} it was a tuple with the first value being of type {} .",
                    class_of(&first)
                );
                Err(self.error(&what))
            }
        }
    }
}

impl<'py> Given<'py> {
    /// Adds an argument, and says where its arrays begin among those that are differentiated by.
    fn add(&mut self, argument: &Bound<'py, PyAny>, is_wanted: bool) -> PyResult<usize> {
        let (before, first) = (self.arrays.len(), self.wanted.len());
        trees::visit(argument, &mut |leaf| match trees::array_of(leaf) {
            Some(array) => {
                self.arrays.push((array, leaf.clone()));
                Ok(())
            }
            None if is_wanted => Err(trees::no_array()),
            None => Ok(()),
        })?;
        if is_wanted {
            self.wanted.extend((before..self.arrays.len()).map(|i| i as isize));
        }
        Ok(first)
    }

    /// The arguments that were differentiated by, with derivatives in the places of their arrays.
    fn gradient(&self, py: Python<'py>, derivatives: &[Array]) -> PyResult<Bound<'py, PyAny>> {
        let of = |(argument, first): &(Bound<'py, PyAny>, usize)| {
            trees::with_arrays(argument, &derivatives[*first..])
        };
        let positional = match &self.positional[..] {
            [] => py.None().into_bound(py),
            [one] => of(one)?,
            several => {
                let each = several.iter().map(of).collect::<PyResult<Vec<_>>>()?;
                PyTuple::new(py, each)?.into_any()
            }
        };
        if self.named.is_empty() {
            return Ok(positional);
        }
        let named = PyDict::new(py);
        for (key, argument, first) in &self.named {
            named.set_item(key, trees::with_arrays(argument, &derivatives[*first..])?)?;
        }
        Ok(PyTuple::new(py, [positional, named.into_any()])?.into_any())
    }
}

impl Call for Gradient {
    fn call<'py>(
        &self,
        held: &Held,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        self.expect_arguments(args, kwargs)?;
        let given = self.collect(args, kwargs)?;
        let function = held.function.bind(py);
        let inputs: Vec<Array> = given.arrays.iter().map(|(array, _)| array.clone()).collect();
        let mut returned = None;
        let fun = |tracers: &[Array]| {
            let value = self.run(function, args, kwargs, tracers, &given.arrays);
            let arrays = value.and_then(|value| trees::arrays(returned.insert(value), false));
            arrays.map_err(to_core)
        };
        let (values, derivatives) =
            transforms::value_and_grad_of(fun, &inputs, &given.wanted).or_raise()?;
        let gradient = given.gradient(py, &derivatives)?;
        let returned = returned.filter(|_| self.with_value);
        // Nobody reads a value that is not returned.
        let values = if returned.is_some() { values } else { Vec::new() };
        if self.early.see(&derivatives) {
            released(py, || {
                Early::begin(&derivatives);
                Ok(())
            })?;
        }
        match returned {
            Some(returned) => {
                let value = trees::with_arrays(&returned, &values)?;
                Ok(PyTuple::new(py, [value, gradient])?.into_any())
            }
            None => Ok(gradient),
        }
    }
}
