//! Derivatives of scatters, and scatters that are mapped.

use super::{
    Applied, Mapped, Outputs, alike,
    indexing::{from_start, numbered},
    mapping::{self, behind},
    one, sum,
};
use crate::{
    Array, Result, Shape, ops,
    primitives::{Axes, IndexingOp, ScatterOp},
};

/// The inputs of a scatter.
struct Scatter<'a> {
    op: ScatterOp,
    axes: &'a Axes,
    a: &'a Array,
    indices: &'a [Array],
    updates: &'a Array,
    result: &'a Array,
}

impl<'a> Scatter<'a> {
    fn new(op: ScatterOp, axes: &'a Axes, node: &Applied<'a>) -> Self {
        let [a, indices @ .., updates] = node.inputs else {
            unreachable!("a scatter has at least two inputs")
        };
        Scatter { op, axes, a, indices, updates, result: &node.outputs[0] }
    }

    /// Updates that join another array at the same indices.
    fn joined(&self, op: ScatterOp, a: &Array, updates: &Array) -> Result<Array> {
        let inputs = std::iter::once(a).chain(self.indices).chain([updates]).cloned();
        ops::node(IndexingOp::Scatter { op, axes: self.axes.clone() }, inputs)
    }

    /// The slices of an array that the updates join.
    fn slices(&self, a: &Array) -> Result<Array> {
        let batch = self.indices.first().map_or(0, Array::ndim);
        let slice_sizes = Shape::from(&self.updates.shape()[batch..]);
        let inputs = std::iter::once(a).chain(self.indices).cloned();
        ops::node(IndexingOp::Gather { axes: self.axes.clone(), slice_sizes }, inputs)
    }

    /// What of slices belongs to updates that are not left out because they reach outside. Single elements
    /// outside are anybody's guess, as in MLX.
    fn kept(&self, slices: Array) -> Result<Array> {
        let batch = self.indices.first().map_or(0, Array::ndim);
        let slice = &self.updates.shape()[batch..];
        let mut kept = slices;
        for (index, &axis) in
            self.indices.iter().zip(self.axes).filter(|(_, axis)| slice[**axis] > 1)
        {
            let dim = self.a.shape()[axis];
            let place = from_start(index, dim)?;
            let fits = ops::less_equal(&place, (dim - slice[axis]) as i32)?;
            let fits = ops::logical_and(&fits, &ops::greater_equal(&place, 0)?)?;
            let behind: Vec<isize> = (batch..kept.ndim()).map(|x| x as isize).collect();
            kept =
                ops::where_(&ops::expand_dims(&fits, &behind)?, &kept, &ops::zeros_like(&kept)?)?;
        }
        Ok(kept)
    }

    /// The derivative by the array that is updated, but where that is replaced; none is 1.
    fn by_array(&self) -> Result<Option<Array>> {
        match self.op {
            ScatterOp::Assign | ScatterOp::Sum => Ok(None),
            ScatterOp::Prod => {
                let ones = ops::ones_like(self.a)?;
                Ok(Some(self.joined(ScatterOp::Prod, &ones, self.updates)?))
            }
            ScatterOp::Max | ScatterOp::Min => Ok(Some(same(self.result, self.a)?)),
        }
    }

    /// The derivatives by the updates of the places that they go to; none is 1. Of several for one place that
    /// replace it, each counts as if it was the one that is left.
    fn by_updates(&self) -> Result<Option<Array>> {
        match self.op {
            ScatterOp::Assign | ScatterOp::Sum => Ok(None),
            ScatterOp::Prod => Ok(Some(self.product_of_others()?)),
            ScatterOp::Max | ScatterOp::Min => {
                Ok(Some(same(&self.slices(self.result)?, self.updates)?))
            }
        }
    }

    /// The product of all that is multiplied at the place of each update, without that update.
    fn product_of_others(&self) -> Result<Array> {
        let (one, zero) = (ops::ones_like(self.updates)?, ops::zeros_like(self.updates)?);
        let is_zero = ops::equal(self.updates, &zero)?;
        // Zeros are left out and counted: with one of them, only its own derivative is not zero.
        let product =
            self.joined(ScatterOp::Prod, self.a, &ops::where_(&is_zero, &one, self.updates)?)?;
        let count = ops::where_(&is_zero, &one, &zero)?;
        let zeros = self.joined(ScatterOp::Sum, &ops::zeros_like(self.a)?, &count)?;
        let (product, zeros) = (self.slices(&product)?, self.slices(&zeros)?);
        let own = ops::where_(&is_zero, &one, self.updates)?;
        let others_are_not_zero = ops::equal(&zeros, &count)?;
        ops::where_(&others_are_not_zero, &ops::divide(&product, &own)?, &zero)
    }
}

/// 1 where elements are the same, else 0.
fn same(a: &Array, b: &Array) -> Result<Array> {
    ops::astype(&ops::equal(a, b)?, a.dtype())
}

/// A tangent, or a cotangent, times a derivative.
fn times(tangent: &Array, factor: Option<Array>) -> Result<Array> {
    factor.map_or_else(|| Ok(tangent.clone()), |factor| ops::multiply(tangent, &factor))
}

/// The derivative by the array that is updated, which is input 0, or by the updates.
pub(super) fn vjp(
    op: ScatterOp,
    axes: &Axes,
    node: &Applied<'_>,
    cotangent: &Array,
    i: usize,
) -> Result<Array> {
    let scatter = Scatter::new(op, axes, node);
    let conjugate = |factor: Option<Array>| factor.map(|f| ops::conjugate(&f)).transpose();
    match (op, i) {
        (ScatterOp::Assign, 0) => scatter.joined(op, cotangent, &ops::zeros_like(scatter.updates)?),
        (_, 0) => times(cotangent, conjugate(scatter.by_array()?)?),
        _ => times(&scatter.kept(scatter.slices(cotangent)?)?, conjugate(scatter.by_updates()?)?),
    }
}

/// The derivative along tangents.
pub(super) fn jvp(
    op: ScatterOp,
    axes: &Axes,
    node: &Applied<'_>,
    tangents: &[Option<Array>],
) -> Result<Outputs> {
    let scatter = Scatter::new(op, axes, node);
    let last = tangents.len() - 1;
    if matches!(op, ScatterOp::Assign | ScatterOp::Sum) {
        let both = alike(node, tangents, [0, last])?;
        return one(scatter.joined(op, &both[0], &both[1])?);
    }
    let zeros = ops::zeros_like(scatter.a)?;
    let by_array = |tangent: &Array| times(tangent, scatter.by_array()?);
    let by_updates = |tangent: &Array| {
        let updates = times(tangent, scatter.by_updates()?)?;
        scatter.joined(ScatterOp::Sum, &ops::astype(&zeros, updates.dtype())?, &updates)
    };
    sum([
        Ok(Some(zeros.clone())),
        tangents[0].as_ref().map(by_array).transpose(),
        tangents[last].as_ref().map(by_updates).transpose(),
    ])
}

/// The scatter with one more axis.
pub(super) fn vmap(
    op: ScatterOp,
    axes: &Axes,
    inputs: &[Array],
    mapped: &[Option<usize>],
) -> Result<Mapped> {
    let size = mapping::size(inputs, mapped);
    let ([a, indices @ .., updates], [at, of_indices @ .., of_updates]) = (inputs, mapped) else {
        unreachable!("a scatter has at least two inputs")
    };
    let (a, at) = match *at {
        Some(at) => (a.clone(), at),
        None => (mapping::repeated(a, 0, size)?, 0),
    };
    let mut axes: Axes = axes.iter().map(|&x| behind(x, at)).collect();
    let placed = |to: usize| match *of_updates {
        Some(from) => ops::moveaxis(updates, from as isize, to as isize),
        None => mapping::repeated(updates, to, size),
    };
    let (indices, updates) = if of_indices.iter().all(Option::is_none) {
        // All of them are updated at the same places.
        let batch = indices.first().map_or(0, Array::ndim);
        (indices.into(), placed(batch + at)?)
    } else if size == 0 {
        return Mapped::one(a, at);
    } else {
        axes.push(at);
        let indices = numbered(indices, of_indices)?;
        let slice = (indices[0].ndim() + at) as isize;
        (indices, ops::expand_dims(&placed(0)?, &[slice])?)
    };
    let inputs = std::iter::once(a).chain(indices).chain([updates]);
    Mapped::one(ops::node(IndexingOp::Scatter { op, axes }, inputs)?, at)
}
