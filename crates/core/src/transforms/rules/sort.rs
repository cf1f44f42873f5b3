//! Sorting and searching. The order is the same for all inputs nearby, so indices have no derivatives.

use smallvec::smallvec;

use super::{
    Applied, Mapped, Outputs, Rules, Transform,
    mapping::{self, behind},
    no_derivatives, no_tangents, one, only, refused,
};
use crate::{Array, Result, graph::Inputs, ops, primitives::SortOp};

impl Rules for SortOp {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        let cotangent = &cotangents[0];
        let (axis, ascending) = match *self {
            Self::Sort { axis } => (axis, cotangent.clone()),
            Self::Partition { axis, .. } => (axis, sorted_as(&node.outputs[0], cotangent, axis)?),
            Self::ArgSort { .. } | Self::ArgPartition { .. } | Self::SearchSorted { .. } => {
                return no_derivatives(node, wanted);
            }
        };
        Ok(smallvec![unsorted_as(&node.inputs[0], &ascending, axis)?])
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        let ascending = |axis| {
            let tangent = only(tangents);
            sorted_as(&node.inputs[0], tangent, axis)
        };
        match *self {
            Self::Sort { axis } => one(ascending(axis)?),
            Self::Partition { axis, .. } => {
                one(unsorted_as(&node.outputs[0], &ascending(axis)?, axis)?)
            }
            Self::ArgSort { .. } | Self::ArgPartition { .. } | Self::SearchSorted { .. } => {
                no_tangents(node)
            }
        }
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        match *self {
            Self::Sort { .. }
            | Self::ArgSort { .. }
            | Self::Partition { .. }
            | Self::ArgPartition { .. } => {
                let (input, axis) = mapping::only(inputs, axes);
                Mapped::one(ops::node(self.with_axis(axis), [input.clone()])?, axis)
            }
            Self::SearchSorted { .. } => match axes {
                &[None, Some(axis)] => Mapped::one(ops::node(*self, inputs.iter().cloned())?, axis),
                _ => refused(Transform::Vmap, *self),
            },
        }
    }
}

impl SortOp {
    /// The same primitive when its inputs have another axis.
    fn with_axis(self, new: usize) -> Self {
        match self {
            Self::Sort { axis } => Self::Sort { axis: behind(axis, new) },
            Self::ArgSort { axis } => Self::ArgSort { axis: behind(axis, new) },
            Self::Partition { kth, axis } => Self::Partition { kth, axis: behind(axis, new) },
            Self::ArgPartition { kth, axis } => Self::ArgPartition { kth, axis: behind(axis, new) },
            Self::SearchSorted { right } => Self::SearchSorted { right },
        }
    }
}

/// Indices of the ascending order of `a`.
fn order(a: &Array, axis: usize) -> Result<Array> {
    ops::stop_gradient(&ops::node(SortOp::ArgSort { axis }, [a.clone()])?)
}

/// Values, one for each element of `keys`, in the ascending order of those.
///
/// A partition's permutation is found so on both sides: it need not be the one of the indices that partition.
fn sorted_as(keys: &Array, values: &Array, axis: usize) -> Result<Array> {
    ops::take_along_axis(values, &order(keys, axis)?, axis as isize)
}

/// Values in the ascending order of `keys`, each at the place of its key.
fn unsorted_as(keys: &Array, values: &Array, axis: usize) -> Result<Array> {
    ops::put_along_axis(&ops::zeros_like(values)?, &order(keys, axis)?, values, axis as isize)
}
