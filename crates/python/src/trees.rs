//! Trees of Python: lists, tuples and dictionaries, whose leaves are arrays or anything else.
//!
//! A list or dictionary is filled in place, because functions read their state from it; a tuple is made anew,
//! of its own class. The sentinel `mx.random.state` stands for the key of the thread that asks.

use mlx::Array;
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyList, PyTuple},
};
use smallvec::SmallVec;

use crate::{array::PyArray, error::OrRaise, random};

/// Keys and values.
type Items<'py> = SmallVec<[(Bound<'py, PyAny>, Bound<'py, PyAny>); 8]>;
/// What is done with a leaf.
type Visit<'v, 'py> = dyn FnMut(&Bound<'py, PyAny>) -> PyResult<()> + 'v;
/// What takes a leaf's place.
type Replace<'r, 'py> = dyn FnMut(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> + 'r;
/// What is done with a leaf and what lies in its place in another tree.
type VisitBoth<'v, 'py> = dyn FnMut(&Bound<'py, PyAny>, &Bound<'py, PyAny>) -> PyResult<()> + 'v;

/// The array that a leaf is.
pub(crate) fn array_of(leaf: &Bound<'_, PyAny>) -> Option<Array> {
    leaf.cast::<PyArray>().ok().map(|array| array.get().array())
}

/// An array as a leaf.
pub(crate) fn leaf<'py>(py: Python<'py>, array: Array) -> PyResult<Bound<'py, PyAny>> {
    Ok(Bound::new(py, PyArray::from(array))?.into_any())
}

/// What a dictionary has now: code that runs for its items may change it.
pub(crate) fn items<'py>(dict: &Bound<'py, PyDict>) -> Items<'py> {
    dict.iter().collect()
}

/// Calls `visit` with every leaf, and with the key that the random state stands for.
pub(crate) fn visit<'py>(tree: &Bound<'py, PyAny>, visitor: &mut Visit<'_, 'py>) -> PyResult<()> {
    if tree.is_exact_instance_of::<PyArray>() {
        visitor(tree)
    } else if let Ok(list) = tree.cast::<PyList>() {
        list.iter().try_for_each(|item| visit(&item, visitor))
    } else if let Ok(tuple) = tree.cast::<PyTuple>() {
        tuple.iter().try_for_each(|item| visit(&item, visitor))
    } else if let Ok(dict) = tree.cast::<PyDict>() {
        items(dict).iter().try_for_each(|(_, item)| visit(item, visitor))
    } else if random::is_state(tree) {
        visitor(&leaf(tree.py(), mlx::random::state().or_raise()?)?)
    } else {
        visitor(tree)
    }
}

/// All arrays. Other leaves are refused if `only_arrays`.
pub(crate) fn arrays(tree: &Bound<'_, PyAny>, only_arrays: bool) -> PyResult<Vec<Array>> {
    let mut arrays = Vec::new();
    visit(tree, &mut |leaf| match array_of(leaf) {
        Some(array) => {
            arrays.push(array);
            Ok(())
        }
        None if only_arrays => Err(no_array()),
        None => Ok(()),
    })?;
    Ok(arrays)
}

/// All arrays with the objects that they are.
pub(crate) fn array_objects<'py>(
    tree: &Bound<'py, PyAny>,
) -> PyResult<Vec<(Array, Bound<'py, PyAny>)>> {
    let mut found = Vec::new();
    visit(tree, &mut |leaf| {
        found.extend(array_of(leaf).map(|array| (array, leaf.clone())));
        Ok(())
    })?;
    Ok(found)
}

/// A leaf that is no array where all have to be.
pub(crate) fn no_array() -> PyErr {
    PyValueError::new_err("[tree_flatten] The argument should contain only arrays")
}

/// The same tree with what `replace` returns for every leaf, made of new lists and dictionaries.
pub(crate) fn map<'py>(
    tree: &Bound<'py, PyAny>,
    replace: &mut Replace<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tree.py();
    if tree.is_exact_instance_of::<PyArray>() {
        replace(tree)
    } else if let Ok(list) = tree.cast::<PyList>() {
        let items = PyList::empty(py);
        list.iter().try_for_each(|item| items.append(map(&item, replace)?))?;
        Ok(items.into_any())
    } else if let Ok(tuple) = tree.cast::<PyTuple>() {
        let items = tuple.iter().map(|item| map(&item, replace)).collect::<PyResult<Vec<_>>>()?;
        tuple_like(tuple, items)
    } else if let Ok(dict) = tree.cast::<PyDict>() {
        let mapped = PyDict::new(py);
        items(dict).iter().try_for_each(|(key, item)| mapped.set_item(key, map(item, replace)?))?;
        Ok(mapped.into_any())
    } else {
        replace(tree)
    }
}

/// A tuple of the class of another one.
fn tuple_like<'py>(
    like: &Bound<'py, PyTuple>,
    items: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = like.py();
    let items = PyTuple::new(py, items)?;
    let class = like.get_type();
    if like.is_exact_instance_of::<PyTuple>() {
        Ok(items.into_any())
    } else if class.hasattr(pyo3::intern!(py, "_fields"))? {
        class.call1(items)
    } else {
        class.call1((items,))
    }
}

/// Puts what `replace` returns for every array in its place: in lists and dictionaries themselves. Tuples
/// below them are replaced. The random state stays; its key is what is replaced.
pub(crate) fn update<'py>(
    tree: &Bound<'py, PyAny>,
    replace: &mut Replace<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    if tree.is_instance_of::<PyArray>() {
        replace(tree)
    } else if let Ok(list) = tree.cast::<PyList>() {
        for i in 0..list.len() {
            list.set_item(i, update(&list.get_item(i)?, replace)?)?;
        }
        Ok(tree.clone())
    } else if let Ok(tuple) = tree.cast::<PyTuple>() {
        let items =
            tuple.iter().map(|item| update(&item, replace)).collect::<PyResult<Vec<_>>>()?;
        tuple_like(tuple, items)
    } else if let Ok(dict) = tree.cast::<PyDict>() {
        for (key, item) in items(dict) {
            dict.set_item(key, update(&item, replace)?)?;
        }
        Ok(tree.clone())
    } else if random::is_state(tree) {
        let key = replace(&leaf(tree.py(), mlx::random::state().or_raise()?)?)?;
        let key = array_of(&key).ok_or_else(no_array)?;
        mlx::random::set_state(key).or_raise()?;
        Ok(tree.clone())
    } else {
        Ok(tree.clone())
    }
}

/// Puts arrays in the places of a tree's arrays, in order. Places beyond the last one stay as they are.
pub(crate) fn fill<'py>(tree: &Bound<'py, PyAny>, with: &[Array]) -> PyResult<()> {
    let mut arrays = with.iter();
    let mut next = |place: &Bound<'py, PyAny>| match arrays.next() {
        Some(array) => leaf(place.py(), array.clone()),
        None => Ok(place.clone()),
    };
    update(tree, &mut next).map(drop)
}

/// Puts the objects that arrays stand for in their places; what is there by now instead stays.
pub(crate) fn restore<'py>(
    tree: &Bound<'py, PyAny>,
    stand_ins: &[Array],
    objects: &[(Array, Bound<'py, PyAny>)],
) -> PyResult<()> {
    let mut expected = 0;
    let mut original = |place: &Bound<'py, PyAny>| {
        let Some(array) = array_of(place) else { return Ok(place.clone()) };
        let is_it = |at: &usize| stand_ins.get(*at).is_some_and(|other| other.is_same(&array));
        // They come in order, unless the function changed the tree.
        let at = Some(expected).filter(is_it).or_else(|| (0..stand_ins.len()).find(is_it));
        expected = at.unwrap_or(expected) + 1;
        Ok(at
            .and_then(|at| objects.get(at))
            .map_or_else(|| place.clone(), |(_, object)| object.clone()))
    };
    update(tree, &mut original).map(drop)
}

/// The tree with other arrays, in order; those beyond the last one stay.
pub(crate) fn with_arrays<'py>(
    tree: &Bound<'py, PyAny>,
    arrays: &[Array],
) -> PyResult<Bound<'py, PyAny>> {
    let mut arrays = arrays.iter();
    map(tree, &mut |place| match place.cast::<PyArray>().ok().and_then(|_| arrays.next()) {
        Some(array) => leaf(place.py(), array.clone()),
        None => Ok(place.clone()),
    })
}

/// Calls `visit` with every leaf of a tree and what holds for it in another, which may end before the first
/// tree does: what it says of a part holds for all of it.
pub(crate) fn visit_both<'py>(
    tree: &Bound<'py, PyAny>,
    prefix: &Bound<'py, PyAny>,
    visitor: &mut VisitBoth<'_, 'py>,
) -> PyResult<()> {
    let (own, other) = (Kind::of(tree), Kind::of(prefix));
    if own == Kind::Leaf {
        return visitor(tree, prefix);
    }
    let splits = own == other;
    if (splits && tree.len()? != prefix.len()?) || (!splits && other != Kind::Leaf) {
        let message = "[tree_map] Additional input tree is not a valid prefix of the first tree.";
        return Err(PyValueError::new_err(message));
    }
    let part = |key: &Bound<'py, PyAny>| match splits {
        true => prefix.get_item(key),
        false => Ok(prefix.clone()),
    };
    if let Ok(dict) = tree.cast::<PyDict>() {
        for (key, item) in items(dict) {
            if splits && !prefix.contains(&key)? {
                let message = "[tree_visit] Tree is not a valid prefix tree of the first tree.";
                return Err(PyValueError::new_err(message));
            }
            visit_both(&item, &part(&key)?, visitor)?;
        }
    } else {
        for (i, item) in tree.try_iter()?.enumerate() {
            let i = i.into_pyobject(tree.py())?.into_any();
            visit_both(&item?, &part(&i)?, visitor)?;
        }
    }
    Ok(())
}

/// What a part of a tree is.
#[derive(PartialEq, Eq)]
enum Kind {
    List,
    Tuple,
    Dict,
    Leaf,
}

impl Kind {
    fn of(tree: &Bound<'_, PyAny>) -> Self {
        if tree.is_instance_of::<PyList>() {
            Kind::List
        } else if tree.is_instance_of::<PyTuple>() {
            Kind::Tuple
        } else if tree.is_instance_of::<PyDict>() {
            Kind::Dict
        } else {
            Kind::Leaf
        }
    }
}

/// Stands for an array in a [`Structure`].
#[pyclass(module = "mlx.core", frozen)]
struct Place;

fn place(py: Python<'_>) -> PyResult<&Py<Place>> {
    static PLACE: PyOnceLock<Py<Place>> = PyOnceLock::new();
    PLACE.get_or_try_init(py, || Py::new(py, Place))
}

/// A tree without its arrays.
pub(crate) struct Structure {
    tree: Py<PyAny>,
    /// How many arrays it had.
    pub(crate) arrays: usize,
}

impl Structure {
    /// Takes a tree apart into its arrays and the rest. Other leaves are refused if `only_arrays`.
    pub(crate) fn of(
        tree: &Bound<'_, PyAny>,
        only_arrays: bool,
    ) -> PyResult<(Vec<Array>, Structure)> {
        let place = place(tree.py())?.bind(tree.py());
        let mut arrays = Vec::new();
        let hollow = map(tree, &mut |leaf| match array_of(leaf) {
            Some(array) => {
                arrays.push(array);
                Ok(place.clone().into_any())
            }
            None if only_arrays => Err(no_array()),
            None => Ok(leaf.clone()),
        })?;
        let count = arrays.len();
        Ok((arrays, Structure { tree: hollow.unbind(), arrays: count }))
    }

    /// The tree with these arrays, of which there are as many as it had.
    pub(crate) fn filled<'py>(
        &self,
        py: Python<'py>,
        arrays: &[Array],
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut arrays = arrays.iter();
        map(self.tree.bind(py), &mut |part| match part.is_exact_instance_of::<Place>() {
            true => {
                let message = "[tree_unflatten] There are fewer arrays than the tree has places.";
                let array = arrays.next().ok_or_else(|| PyValueError::new_err(message))?;
                leaf(py, array.clone())
            }
            false => Ok(part.clone()),
        })
    }
}
