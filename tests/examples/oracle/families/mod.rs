//! Which closure makes the call of which function: a table for each family.

mod reduce;
mod unary;

use std::{collections::HashMap, sync::LazyLock};

use mlx::{Array, Result};

use crate::argument::Args;

/// Makes a call.
pub(crate) type Function = fn(&Args<'_>) -> Result<Vec<Array>>;

/// Functions by their names without `mx.`.
type Table = &'static [(&'static str, Function)];

const TABLES: &[Table] = &[reduce::TABLE, unary::TABLE];

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
