//! Which closure makes the call of which function: a table for each family.

mod arrange;
mod binary;
mod convolution;
mod creation;
mod dtypes;
mod export;
mod fast;
mod fft;
mod gathered;
mod indexing;
mod linalg;
mod matmul;
mod products;
mod quantized;
mod random;
mod reduce;
mod scan;
mod select;
mod shape;
mod softmax;
mod sort;
mod transforms;
mod unary;

use std::{collections::HashMap, sync::LazyLock};

use mlx::{Array, Result, ops};

use crate::argument::Args;

/// Makes a call.
pub(crate) type Function = fn(&Args<'_>) -> Result<Vec<Array>>;

/// Functions by their names without `mx.`.
type Table = &'static [(&'static str, Function)];

const TABLES: &[Table] = &[
    arrange::TABLE,
    binary::TABLE,
    convolution::TABLE,
    creation::TABLE,
    dtypes::TABLE,
    export::TABLE,
    fast::TABLE,
    fft::TABLE,
    gathered::TABLE,
    indexing::TABLE,
    indexing::UPDATES,
    linalg::TABLE,
    matmul::TABLE,
    products::TABLE,
    quantized::TABLE,
    random::TABLE,
    reduce::TABLE,
    scan::TABLE,
    select::TABLE,
    shape::TABLE,
    softmax::TABLE,
    sort::TABLE,
    transforms::TABLE,
    unary::TABLE,
];

/// The closure for a name, unless this library has no such function.
pub(crate) fn lookup(name: &str) -> Option<Function> {
    static ALL: LazyLock<HashMap<&str, Function>> =
        LazyLock::new(|| TABLES.iter().copied().flatten().copied().collect());
    ALL.get(name).copied()
}

/// One result.
fn one(result: Result<Array>) -> Result<Vec<Array>> {
    Ok(vec![result?])
}

/// Two results.
fn two(result: Result<(Array, Array)>) -> Result<Vec<Array>> {
    result.map(|(a, b)| vec![a, b])
}

/// The first argument and the argument `axis`; the flattened array where that is `None`.
fn flat(x: &Args<'_>) -> Result<(Array, isize)> {
    let a = x.array(0)?;
    match x.at("axis").maybe_int() {
        Some(axis) => Ok((a, axis)),
        None => Ok((ops::reshape(&a, &[-1])?, 0)),
    }
}
