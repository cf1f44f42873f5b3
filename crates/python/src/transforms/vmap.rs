//! `vmap`: functions of arrays with one more axis.

use std::cell::RefCell;

use mlx::{Array, transforms};
use pyo3::{
    exceptions::{PyIndexError, PyTypeError, PyValueError},
    prelude::*,
    types::{PyDict, PyInt, PyModule, PyTuple},
};

use crate::{
    array::PyArray,
    error::{OrRaise, to_core},
    function::{Call, Held, PyFunction},
    functions, trees,
};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: vmap);
    Ok(())
}

/// A function that does what ``fun`` does for every index of an axis of its arguments.
///
/// Args:
///     fun (Callable): A function of arrays or trees of arrays that returns the same.
///     in_axes (int, optional): The axis of every argument, or a tree that begins like the arguments and
///       names an axis for each part of them. ``None`` is no axis: what it names is the same for every index.
///     out_axes (int, optional): The same for what ``fun`` returns: which axis the indices become.
///
/// Returns:
///     Callable: A function of the same arguments with one more axis.
///
/// Example:
///     >>> mx.vmap(mx.matmul, in_axes=(0, None))(matrices, matrix)
#[pyfunction]
#[pyo3(
    signature = (fun, in_axes=Axes::First, out_axes=Axes::First),
    text_signature = "(fun, in_axes=0, out_axes=0)"
)]
fn vmap(fun: Bound<'_, PyAny>, in_axes: Axes, out_axes: Axes) -> PyResult<PyFunction> {
    let py = fun.py();
    PyFunction::new(fun, Some([in_axes.tree(py)?, out_axes.tree(py)?]), Vmap)
}

/// Axes of a tree's arrays. `None` is not the same as none given.
enum Axes {
    First,
    Tree(Py<PyAny>),
}

impl Axes {
    fn tree(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Axes::First => Ok(0i64.into_pyobject(py)?.into_any().unbind()),
            Axes::Tree(tree) => Ok(tree),
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Axes {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Axes::Tree(object.to_owned().unbind()))
    }
}

struct Vmap;

impl Call for Vmap {
    fn call<'py>(
        &self,
        held: &Held,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        if !kwargs.is_empty() {
            let message = "[vmap] Keyword arguments are not supported.";
            return Err(PyTypeError::new_err(message));
        }
        let [in_axes, out_axes] = held.trees.as_ref().expect("`vmap` gives axes");
        let inputs = trees::arrays(args, true)?;
        let tree = if args.len() == 1 { args.get_item(0)? } else { args.clone().into_any() };
        let in_axes = axes_of(&tree, in_axes.bind(py), false)?;
        let returned = RefCell::new(None);
        let run = |arrays: &[Array]| {
            let args = trees::with_arrays(args, arrays)?.cast_into::<PyTuple>()?;
            let value = held.function.bind(py).call1(args)?;
            let outputs = trees::arrays(&value, true)?;
            returned.replace(Some(value));
            Ok(outputs)
        };
        let axes_of_outputs = || match &*returned.borrow() {
            Some(value) => axes_of(value, out_axes.bind(py), true),
            None => Ok(Vec::new()),
        };
        let outputs = transforms::vmap(
            |arrays| run(arrays).map_err(to_core),
            &inputs,
            &in_axes,
            |_| axes_of_outputs().map_err(to_core),
        )
        .or_raise()?;
        let returned = returned.take().expect("the function has run");
        trees::with_arrays(&returned, &outputs)
    }
}

/// The axis of each array of a tree. Outputs will have one more axis than they have now.
fn axes_of(
    tree: &Bound<'_, PyAny>,
    axes: &Bound<'_, PyAny>,
    is_output: bool,
) -> PyResult<Vec<Option<isize>>> {
    let invalid = || PyValueError::new_err("[vmap] axis must be int or None.");
    let mut flat = Vec::new();
    let mut has_tuple = false;
    trees::visit_both(tree, axes, &mut |leaf, axis| {
        let Some(array) = trees::array_of(leaf) else {
            let message = "[vmap] The arguments should contain only arrays";
            return Err(PyValueError::new_err(message));
        };
        let mut axis = axis.clone();
        if let Ok(tuple) = axis.clone().cast::<PyTuple>() {
            has_tuple = true;
            axis = match tuple.len() {
                1 => tuple.get_item(0)?,
                _ => return Err(invalid()),
            };
        }
        flat.push(match axis {
            axis if axis.is_none() => None,
            axis if axis.is_instance_of::<PyInt>() => {
                Some(index(&array, axis.extract()?, is_output)?)
            }
            _ => return Err(invalid()),
        });
        Ok(())
    })?;
    // `(0,)` may stand for the axis of a single argument only.
    match has_tuple && !tree.is_instance_of::<PyArray>() {
        true => Err(invalid()),
        false => Ok(flat),
    }
}

/// An axis as an index.
fn index(array: &Array, axis: isize, is_output: bool) -> PyResult<isize> {
    let ndim = (array.ndim() + usize::from(is_output)) as isize;
    let index = if axis < 0 { axis + ndim } else { axis };
    if (0..ndim).contains(&index) {
        return Ok(index);
    }
    let sizes: Vec<String> = array.shape().iter().map(usize::to_string).collect();
    let kind = if is_output { " output " } else { " " };
    let message = format!(
        "[vmap] Invalid{kind}vectorization axis {index} for array with shape ({})",
        sizes.join(",")
    );
    Err(PyIndexError::new_err(message))
}
