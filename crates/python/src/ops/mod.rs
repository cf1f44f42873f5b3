//! Operations as functions of `mlx.core`, a file per family.

mod arrange;
mod binary;
mod convolution;
mod copy;
mod create;
mod diagonal;
mod indexing;
mod join;
mod matmul;
mod pad;
mod products;
mod quantized;
mod range;
mod reduce;
mod scan;
mod shape;
mod sort;
mod spread;
mod statistics;
mod ternary;
mod unary;

use mlx::Array;
use pyo3::{
    prelude::*,
    types::{PyModule, PyTuple},
};

use crate::{arguments::fits_32_bits, array::PyArray};

/// Numbers with names, in the words of the array API.
const CONSTANTS: [(&str, f64); 5] = [
    ("e", std::f64::consts::E),
    ("euler_gamma", 0.577_215_664_901_532_9),
    ("inf", f64::INFINITY),
    ("nan", f64::NAN),
    ("pi", std::f64::consts::PI),
];

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    CONSTANTS.iter().try_for_each(|&(name, value)| module.add(name, value))?;
    module.add("newaxis", module.py().None())?;
    unary::register(module)?;
    binary::register(module)?;
    ternary::register(module)?;
    reduce::register(module)?;
    statistics::register(module)?;
    scan::register(module)?;
    sort::register(module)?;
    shape::register(module)?;
    spread::register(module)?;
    arrange::register(module)?;
    join::register(module)?;
    pad::register(module)?;
    copy::register(module)?;
    create::register(module)?;
    range::register(module)?;
    diagonal::register(module)?;
    indexing::register(module)?;
    matmul::register(module)?;
    products::register(module)?;
    quantized::register(module)?;
    convolution::register(module)
}

/// Adds other names of functions that the module has.
fn aliases(module: &Bound<'_, PyModule>, names: &[(&str, &str)]) -> PyResult<()> {
    names.iter().try_for_each(|&(alias, name)| module.add(alias, module.getattr(name)?))
}

/// Arrays as a tuple.
fn tuple<'py>(py: Python<'py>, arrays: Vec<PyArray>) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, arrays)
}

/// The array, unless an axis that was computed is longer than sizes in Python may be.
fn within_32_bits(array: Array) -> PyResult<PyArray> {
    array.shape().iter().try_for_each(|&size| fits_32_bits(size as i64))?;
    Ok(array.into())
}
