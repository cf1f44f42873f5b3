//! Softmax and its logarithm.

use smallvec::smallvec;

use super::{Applied, Mapped, Outputs, Rules, mapping, one, only};
use crate::{Array, Result, graph::Inputs, ops, primitives::SoftmaxOp};

impl Rules for SoftmaxOp {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], _wanted: &[usize]) -> Result<Inputs> {
        let cotangent = &cotangents[0];
        Ok(smallvec![match self {
            Self::Softmax { .. } => along(&node.outputs[0], cotangent)?,
            Self::LogSumExp => ops::multiply(cotangent, &shares(node)?)?,
        }])
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        let tangent = only(tangents);
        one(match self {
            Self::Softmax { .. } => along(&node.outputs[0], tangent)?,
            Self::LogSumExp => ops::sum(&ops::multiply(tangent, &shares(node)?)?, &[-1], true)?,
        })
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let (input, axis) = mapping::only(inputs, axes);
        let (input, axis) = mapping::before_last(input, axis)?;
        Mapped::one(ops::node(*self, [input])?, axis)
    }
}

/// The derivative of softmax, which is a symmetric matrix, times a vector.
fn along(softmax: &Array, vector: &Array) -> Result<Array> {
    let weighted = ops::multiply(softmax, vector)?;
    ops::subtract(&weighted, &ops::multiply(softmax, &ops::sum(&weighted, &[-1], true)?)?)
}

/// Of each element the share of the sum of exponentials.
fn shares(node: &Applied<'_>) -> Result<Array> {
    ops::node(SoftmaxOp::Softmax { precise: true }, [node.inputs[0].clone()])
}
