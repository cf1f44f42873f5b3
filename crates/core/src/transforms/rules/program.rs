//! Programs of compiled functions, of which transforms see the function itself instead.

use std::sync::Arc;

use super::{Applied, Mapped, Outputs, Rules};
use crate::{Array, Error, Result, graph::Inputs, primitives::Program};

impl Rules for Arc<Program> {
    fn vjp(&self, _: &Applied<'_>, _: &[Array], _: &[usize]) -> Result<Inputs> {
        refused("vjp")
    }

    fn jvp(&self, _: &Applied<'_>, _: &[Option<Array>]) -> Result<Outputs> {
        refused("jvp")
    }

    fn vmap(&self, _: &[Array], _: &[Option<usize>]) -> Result<Mapped> {
        refused("vmap")
    }
}

/// A graph that was compiled is not transformed; a compiled function that is given tracers runs as it is.
fn refused<T>(transform: &str) -> Result<T> {
    Err(Error::runtime("Compiled", format!("Cannot {transform} primitive.")))
}
