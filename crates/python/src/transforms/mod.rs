//! Transforms of Python's functions, over trees of arrays.
//!
//! Core's transforms take functions of slices. Here arguments are taken apart into arrays, the user's
//! function is called with trees of them, and an exception that it raises comes out as it was.

mod checkpoint;
mod custom;
mod gradient;
mod passing;
mod products;
mod vmap;

use pyo3::{prelude::*, types::PyModule};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    gradient::register(module)?;
    products::register(module)?;
    vmap::register(module)?;
    checkpoint::register(module)?;
    custom::register(module)?;
    passing::register(module)
}

/// The name of an object's class, as messages have it.
pub(crate) fn class_of(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().fully_qualified_name();
    name.map_or_else(|_| "?".into(), |name| name.to_string())
}
