//! Selection between two arrays.

use super::{
    Applied, Mapped, Outputs, Rules,
    elementwise::{self, Factor},
    mapping,
};
use crate::{Array, Result, graph::Inputs, ops, primitives::TernaryOp};

impl Rules for TernaryOp {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        elementwise::vjp(node, &cotangents[0], wanted, |i| factor(*self, node, i))
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        elementwise::jvp(node, tangents, |i| factor(*self, node, i))
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let (inputs, axis) = mapping::joined(inputs, axes)?;
        Mapped::one(ops::node(*self, inputs)?, axis)
    }
}

/// The derivative by an input: 1 where it is the one that is selected.
fn factor(op: TernaryOp, node: &Applied<'_>, i: usize) -> Result<Factor> {
    let (condition, dtype) = (&node.inputs[0], node.outputs[0].dtype());
    Ok(match (op, i) {
        (TernaryOp::Select, 1) => Factor::Times(ops::astype(condition, dtype)?),
        (TernaryOp::Select, 2) => Factor::Times(ops::astype(&ops::logical_not(condition)?, dtype)?),
        (TernaryOp::Select, _) => Factor::Zero,
    })
}
