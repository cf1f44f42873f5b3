//! Arrays of files, which depend on no array.

use super::{Applied, Mapped, Outputs, Rules};
use crate::{Array, Result, graph::Inputs, primitives::Load};

const NO_INPUTS: &str = "rules are asked only of what has inputs";

impl Rules for Load {
    fn vjp(&self, _node: &Applied<'_>, _cotangents: &[Array], _wanted: &[usize]) -> Result<Inputs> {
        unreachable!("{NO_INPUTS}")
    }

    fn jvp(&self, _node: &Applied<'_>, _tangents: &[Option<Array>]) -> Result<Outputs> {
        unreachable!("{NO_INPUTS}")
    }

    fn vmap(&self, _inputs: &[Array], _axes: &[Option<usize>]) -> Result<Mapped> {
        unreachable!("{NO_INPUTS}")
    }
}
