//! `custom_function`: functions with derivatives and mappings of their own.

use std::sync::Arc;

use mlx::{Array, ops, transforms};
use parking_lot::Mutex;
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    pyclass::{PyTraverseError, PyVisit},
    types::{PyDict, PyModule, PyTuple},
};

use crate::{
    error::{OrRaise, to_core},
    function::expect_callable,
    trees::{self, Structure},
};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyCustomFunction>()
}

/// A function and the rules that there are for it.
#[derive(Default)]
struct Rules {
    function: Option<Py<PyAny>>,
    vjp: Option<Py<PyAny>>,
    jvp: Option<Py<PyAny>>,
    vmap: Option<Py<PyAny>>,
}

/// A function of which derivatives and mappings can be said. It is called like ``f`` itself; transforms do
/// what the rules say, where there are some. Arrays that it captures are constants to derivatives.
///
/// Args:
///     f (Callable): A function of arrays or trees of arrays.
///
/// Example:
///     >>> @mx.custom_function
///     ... def rounded(x):
///     ...     return mx.round(x)
///     >>> @rounded.vjp
///     ... def passed(primals, cotangent, output):
///     ...     return cotangent
#[pyclass(name = "custom_function", module = "mlx.core", frozen)]
struct PyCustomFunction {
    rules: Mutex<Rules>,
}

impl PyCustomFunction {
    /// The rules as they are now.
    fn rules(&self, py: Python<'_>) -> Rules {
        let rules = self.rules.lock();
        let copy = |rule: &Option<Py<PyAny>>| rule.as_ref().map(|rule| rule.clone_ref(py));
        Rules {
            function: copy(&rules.function),
            vjp: copy(&rules.vjp),
            jvp: copy(&rules.jvp),
            vmap: copy(&rules.vmap),
        }
    }

    fn set(
        &self,
        rule: &Bound<'_, PyAny>,
        of: fn(&mut Rules) -> &mut Option<Py<PyAny>>,
    ) -> PyResult<()> {
        expect_callable(rule)?;
        let before = of(&mut self.rules.lock()).replace(rule.clone().unbind());
        // Outside of the lock: a destructor of Python may run.
        drop(before);
        Ok(())
    }
}

#[pymethods]
impl PyCustomFunction {
    #[new]
    fn new(f: &Bound<'_, PyAny>) -> PyResult<Self> {
        expect_callable(f)?;
        let rules = Rules { function: Some(f.clone().unbind()), ..Rules::default() };
        Ok(PyCustomFunction { rules: Mutex::new(rules) })
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let Rules { function, vjp, jvp, vmap } = self.rules(py);
        let message = "the function was collected";
        let function = function.ok_or_else(|| PyValueError::new_err(message))?;
        if vjp.is_none() && jvp.is_none() && vmap.is_none() {
            return function.bind(py).call(args, kwargs);
        }
        let kwargs = kwargs.map_or_else(|| PyDict::new(py), Clone::clone);
        let given = PyTuple::new(py, [args.as_any(), kwargs.as_any()])?;
        let (arrays, inputs) = Structure::of(&given, false)?;
        let called = Arc::new(Called { function, inputs, outputs: Mutex::new(None) });
        let outputs = called.with_rules(vjp, jvp, vmap).call(&arrays).or_raise()?;
        called.outputs()?.filled(py, &outputs)
    }

    /// Says the derivatives by the arguments.
    ///
    /// Args:
    ///     f (Callable): A function of ``primals``, the positional arguments as a tuple, or the only one by
    ///       itself; ``cotangents``, which look like the results; and ``outputs``, the results. It returns
    ///       the derivatives in the structure of the primals.
    #[pyo3(name = "vjp")]
    fn set_vjp<'py>(slf: Bound<'py, Self>, f: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        slf.get().set(f, |rules| &mut rules.vjp)?;
        Ok(slf)
    }

    /// Says the derivatives of the results along tangents of the arguments.
    ///
    /// Args:
    ///     f (Callable): A function of ``primals``, as for :meth:`vjp`, and ``tangents``, which look like
    ///       them, with ``None`` where there is no tangent. It returns tangents in the structure of the
    ///       results.
    #[pyo3(name = "jvp")]
    fn set_jvp<'py>(slf: Bound<'py, Self>, f: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        slf.get().set(f, |rules| &mut rules.jvp)?;
        Ok(slf)
    }

    /// Says the results for arguments with one more axis.
    ///
    /// Args:
    ///     f (Callable): A function of ``inputs``, the positional arguments as a tuple, or the only one by
    ///       itself, and ``axes``, which look like them, with ``None`` where there is no such axis. It
    ///       returns a tuple of results and of the axes that they have.
    #[pyo3(name = "vmap")]
    fn set_vmap<'py>(slf: Bound<'py, Self>, f: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        slf.get().set(f, |rules| &mut rules.vmap)?;
        Ok(slf)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(rules) = self.rules.try_lock() else { return Ok(()) };
        let Rules { function, vjp, jvp, vmap } = &*rules;
        [function, vjp, jvp, vmap].into_iter().try_for_each(|rule| visit.call(rule))
    }

    fn __clear__(&self) {
        let rules = std::mem::take(&mut *self.rules.lock());
        drop(rules);
    }
}

/// Calls a function with the arguments and keyword arguments of a call that had other arrays.
pub(super) fn spread<'py>(
    function: &Bound<'py, PyAny>,
    given: &Structure,
    arrays: &[Array],
) -> PyResult<Bound<'py, PyAny>> {
    let (args, kwargs) = arguments(function.py(), given, arrays)?;
    function.call(args, Some(&kwargs))
}

/// The arguments and keyword arguments of a call, with other arrays.
fn arguments<'py>(
    py: Python<'py>,
    given: &Structure,
    arrays: &[Array],
) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
    let given = given.filled(py, arrays)?.cast_into::<PyTuple>()?;
    let (args, kwargs) = (given.get_item(0)?, given.get_item(1)?);
    Ok((args.cast_into::<PyTuple>()?, kwargs.cast_into::<PyDict>()?))
}

/// A call of a function that has rules.
struct Called {
    function: Py<PyAny>,
    /// A tuple of arguments and keyword arguments.
    inputs: Structure,
    outputs: Mutex<Option<Arc<Structure>>>,
}

impl Called {
    /// The function of arrays that core transforms.
    fn with_rules(
        self: &Arc<Self>,
        vjp: Option<Py<PyAny>>,
        jvp: Option<Py<PyAny>>,
        vmap: Option<Py<PyAny>>,
    ) -> transforms::CustomFunction<Vec<Array>, Vec<Array>> {
        let called = self.clone();
        let fun =
            move |inputs: &Vec<Array>| Python::attach(|py| called.run(py, inputs)).map_err(to_core);
        let mut custom = transforms::custom_function(fun);
        if let Some(rule) = vjp {
            let called = self.clone();
            custom = custom.vjp(move |primals, cotangents, outputs| {
                Python::attach(|py| called.vjp(rule.bind(py), primals, cotangents, outputs))
                    .map_err(to_core)
            });
        }
        if let Some(rule) = jvp {
            let called = self.clone();
            custom = custom.jvp(move |primals, tangents| {
                Python::attach(|py| called.jvp(rule.bind(py), primals, tangents)).map_err(to_core)
            });
        }
        if let Some(rule) = vmap {
            let called = self.clone();
            custom = custom.vmap(move |inputs, axes| {
                Python::attach(|py| called.vmap(rule.bind(py), inputs, axes)).map_err(to_core)
            });
        }
        custom
    }

    /// The structure of the results, once there are some.
    fn outputs(&self) -> PyResult<Arc<Structure>> {
        let message = "[custom_function] The function has not run.";
        self.outputs.lock().clone().ok_or_else(|| PyValueError::new_err(message))
    }

    fn run(&self, py: Python<'_>, inputs: &[Array]) -> PyResult<Vec<Array>> {
        let value = spread(self.function.bind(py), &self.inputs, inputs)?;
        let (outputs, structure) = Structure::of(&value, true)?;
        let before = self.outputs.lock().replace(Arc::new(structure));
        drop(before);
        Ok(outputs)
    }

    fn vjp(
        &self,
        rule: &Bound<'_, PyAny>,
        primals: &[Array],
        cotangents: &[Array],
        outputs: &[Array],
    ) -> PyResult<Vec<Array>> {
        let py = rule.py();
        let (args, kwargs) = arguments(py, &self.inputs, primals)?;
        let structure = self.outputs()?;
        let (cotangents, outputs) =
            (structure.filled(py, cotangents)?, structure.filled(py, outputs)?);
        let given = PyTuple::new(py, [alone(&args)?, cotangents, outputs])?;
        derivatives(&rule.call(given, Some(&kwargs))?, primals)
    }

    fn jvp(
        &self,
        rule: &Bound<'_, PyAny>,
        primals: &[Array],
        tangents: &[Option<Array>],
    ) -> PyResult<Vec<Array>> {
        let py = rule.py();
        let args = self.positional(py, "[custom jvp]", primals)?;
        let mut tangents = tangents.iter();
        let tangents = trees::map(&args, &mut |leaf| {
            let tangent = match trees::array_of(leaf) {
                Some(_) => tangents.next().cloned().flatten(),
                None => None,
            };
            tangent.map_or_else(|| Ok(py.None().into_bound(py)), |array| trees::leaf(py, array))
        })?;
        let tangents = tangents.cast_into::<PyTuple>()?;
        trees::arrays(&rule.call1((alone(&args)?, alone(&tangents)?))?, false)
    }

    fn vmap(
        &self,
        rule: &Bound<'_, PyAny>,
        inputs: &[Array],
        axes: &[Option<usize>],
    ) -> PyResult<(Vec<Array>, Vec<Option<usize>>)> {
        let py = rule.py();
        let args = self.positional(py, "[custom vmap]", inputs)?;
        let mut axes = axes.iter();
        let axes = trees::map(&args, &mut |leaf| {
            let axis = match trees::array_of(leaf) {
                Some(_) => axes.next().copied().flatten(),
                None => None,
            };
            Ok(axis.into_pyobject(py)?)
        })?;
        let axes = axes.cast_into::<PyTuple>()?;
        let returned = rule.call1((alone(&args)?, alone(&axes)?))?;
        let returned = match returned.cast_into::<PyTuple>() {
            Ok(pair) if pair.len() == 2 => pair,
            _ => {
                let message = "[custom vmap] Vmap function should return a tuple with 2 items.";
                return Err(PyValueError::new_err(message));
            }
        };
        let (mut outputs, mut axes) = (Vec::new(), Vec::new());
        trees::visit_both(&returned.get_item(0)?, &returned.get_item(1)?, &mut |leaf, axis| {
            if let Some(array) = trees::array_of(leaf) {
                outputs.push(array);
                axes.push(axis.extract::<Option<usize>>()?);
            }
            Ok(())
        })?;
        Ok((outputs, axes))
    }

    /// The arguments with other arrays, if all of them are positional.
    fn positional<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        arrays: &[Array],
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (args, kwargs) = arguments(py, &self.inputs, arrays)?;
        match kwargs.is_empty() {
            true => Ok(args),
            false => {
                let message = format!("{name} Function should only accept positional arguments");
                Err(PyValueError::new_err(message))
            }
        }
    }
}

/// What a rule gets of arguments: the only one by itself.
fn alone<'py>(args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    match args.len() {
        1 => args.get_item(0),
        _ => Ok(args.clone().into_any()),
    }
}

/// What a rule returned, with zeros where it says `None` for a primal or ends early.
fn derivatives(returned: &Bound<'_, PyAny>, primals: &[Array]) -> PyResult<Vec<Array>> {
    let mut places = Vec::new();
    trees::visit(returned, &mut |leaf| {
        places.push(trees::array_of(leaf));
        Ok(())
    })?;
    if places.len() != primals.len() {
        places.retain(Option::is_some);
    }
    let missing = primals.len().saturating_sub(places.len());
    places.extend(std::iter::repeat_n(None, missing));
    let stopped = |(i, place): (usize, Option<Array>)| match (place, primals.get(i)) {
        (Some(array), _) => Ok(array),
        (None, Some(primal)) => ops::zeros_like(primal).or_raise(),
        (None, None) => Err(trees::no_array()),
    };
    places.into_iter().enumerate().map(stopped).collect()
}
