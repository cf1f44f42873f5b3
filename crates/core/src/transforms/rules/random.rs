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

    /// Each key by itself: backends take one at a time.
    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let (keys, axis) = mapping::only(inputs, axes);
        let keys = ops::moveaxis(keys, axis as isize, 0)?;
        let mut shape: Vec<isize> = keys.shape().iter().map(|&size| size as isize).collect();
        shape.pop();
        shape.extend(self.shape.iter().map(|&size| size as isize));
        let rows = ops::reshape(&keys, &[(keys.size() / 2) as isize, 2])?;
        let of_row = |row: isize| {
            let key = ops::squeeze(&ops::slice_axis(&rows, 0, row, row + 1)?, &[0])?;
            ops::node(self.clone(), [key])
        };
        let parts = (0..rows.dim(0) as isize).map(of_row).collect::<Result<Vec<Array>>>()?;
        if parts.is_empty() {
            return Mapped::one(ops::node(self.clone(), [keys])?, 0);
        }
        let stacked = ops::stack(&parts.iter().collect::<Vec<_>>(), 0)?;
        Mapped::one(ops::reshape(&stacked, &shape)?, 0)
    }
}
