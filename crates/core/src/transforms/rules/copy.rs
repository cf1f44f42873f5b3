//! Conversions and copies.

use smallvec::smallvec;

use super::{Applied, Mapped, Outputs, Rules, Transform, mapping, one, only, refused};
use crate::{Array, Result, graph::Inputs, ops, primitives::CopyOp};

impl Rules for CopyOp {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], _wanted: &[usize]) -> Result<Inputs> {
        let cotangent = &cotangents[0];
        match self {
            Self::AsType { .. } => Ok(smallvec![ops::astype(cotangent, node.inputs[0].dtype())?]),
            Self::Full | Self::Contiguous { .. } => Ok(smallvec![cotangent.clone()]),
            Self::View { .. } => refused(Transform::Vjp, *self),
        }
    }

    fn jvp(&self, _node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        let tangent = only(tangents);
        match *self {
            Self::AsType { dtype } => one(ops::astype(tangent, dtype)?),
            Self::Full | Self::Contiguous { .. } => one(tangent.clone()),
            Self::View { .. } => refused(Transform::Jvp, *self),
        }
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let (input, axis) = mapping::only(inputs, axes);
        match self {
            Self::AsType { .. } | Self::Full | Self::Contiguous { .. } => {
                Mapped::one(ops::node(*self, [input.clone()])?, axis)
            }
            // The last axis may change its size, so it must not be the mapped one.
            Self::View { .. } => {
                let front = ops::moveaxis(input, axis as isize, 0)?;
                Mapped::one(ops::node(*self, [ops::contiguous(&front, false)?])?, 0)
            }
        }
    }
}
