//! Random bits.

use super::{Applied, Mapped, Outputs, Rules, mapping, no_derivatives, no_tangents};
use crate::{Array, Result, graph::Inputs, ops, primitives::RandomBits};

impl Rules for RandomBits {
    fn vjp(&self, node: &Applied<'_>, _cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        no_derivatives(node, wanted)
    }

    fn jvp(&self, node: &Applied<'_>, _tangents: &[Option<Array>]) -> Result<Outputs> {
        no_tangents(node)
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let (keys, axis) = mapping::only(inputs, axes);
        let (keys, axis) = mapping::before_last(keys, axis)?;
        Mapped::one(ops::node(self.clone(), [keys])?, axis)
    }
}
