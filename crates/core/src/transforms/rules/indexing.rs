//! Reading and writing elements at indices, on which nothing depends smoothly.

use super::{
    Applied, Mapped, Outputs, Rules, Transform, alike,
    mapping::{self, behind},
    no_tangents, one, refused, scatter, with_axis,
};
use crate::{
    Array, Dtype, Error, Result, Shape,
    graph::Inputs,
    ops,
    primitives::{Axes, IndexingOp, ScatterOp},
};

/// What is said of a derivative by indices.
pub(super) fn by_indices(op: &'static str) -> Error {
    let message = "Cannot calculate VJP with respect to indices. Use stop_gradient on indices to stop \
                   gradients from being computed.";
    Error::invalid(op, message)
}

impl Rules for IndexingOp {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        let cotangent = &cotangents[0];
        let derivative = |&i: &usize| {
            if self.is_index(i, node.inputs.len()) {
                return ops::zeros_like(&node.inputs[i]);
            }
            match self {
                Self::Take { .. } | Self::TakeAlongAxis { .. } | Self::Gather { .. } => {
                    self.spread(node.inputs, cotangent)
                }
                Self::Scatter { op, axes } => scatter::vjp(*op, axes, node, cotangent, i),
                Self::ScatterAxis { op, axis } => along_axis_vjp(*op, *axis, node, cotangent, i),
            }
        };
        wanted.iter().map(derivative).collect()
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        match self {
            Self::Take { .. } | Self::TakeAlongAxis { .. } | Self::Gather { .. } => {
                let Some(tangent) = &tangents[0] else { return no_tangents(node) };
                let indices = node.inputs[1..].iter().cloned();
                one(ops::node(self.clone(), std::iter::once(tangent.clone()).chain(indices))?)
            }
            Self::Scatter { op, axes } => scatter::jvp(*op, axes, node, tangents),
            Self::ScatterAxis { op: ScatterOp::Assign | ScatterOp::Sum, .. } => {
                let mut inputs = alike(node, tangents, [0, 2])?;
                inputs.insert(1, node.inputs[1].clone());
                one(ops::node(self.clone(), inputs)?)
            }
            Self::ScatterAxis { op: ScatterOp::Prod | ScatterOp::Max | ScatterOp::Min, .. } => {
                refused(Transform::Jvp, self.clone())
            }
        }
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        match self {
            Self::Take { axis } => mapped_take(*axis, inputs, axes),
            Self::TakeAlongAxis { axis } => {
                let (inputs, at) = mapping::joined(inputs, axes)?;
                let axis = behind(*axis, at);
                Mapped::one(ops::node(Self::TakeAlongAxis { axis }, inputs)?, at)
            }
            Self::Gather { axes: indexed, slice_sizes } => {
                mapped_gather(indexed, slice_sizes, inputs, axes)
            }
            Self::Scatter { op, axes: indexed } => scatter::vmap(*op, indexed, inputs, axes),
            Self::ScatterAxis { op, axis } => {
                let (inputs, at) = mapping::joined(inputs, axes)?;
                let axis = behind(*axis, at);
                Mapped::one(ops::node(Self::ScatterAxis { op: *op, axis }, inputs)?, at)
            }
        }
    }
}

impl IndexingOp {
    /// Whether an input of `count` is one of indices.
    fn is_index(&self, i: usize, count: usize) -> bool {
        match self {
            Self::Take { .. } | Self::TakeAlongAxis { .. } | Self::Gather { .. } => i > 0,
            Self::Scatter { .. } | Self::ScatterAxis { .. } => i > 0 && i + 1 < count,
        }
    }

    /// Refuses derivatives by integers that some of the inputs `depend` on, if they are indices: who asks for
    /// them is wrong. Indices that are computed from something else have a derivative of zero.
    pub(crate) fn refuse_by_indices(
        &self,
        count: usize,
        depend: impl Fn(usize) -> bool,
    ) -> Result<()> {
        if !(0..count).any(|i| self.is_index(i, count) && depend(i)) {
            return Ok(());
        }
        let op = match self {
            Self::Take { .. } | Self::Gather { .. } => "gather",
            Self::TakeAlongAxis { .. } => "gather_axis",
            Self::Scatter { .. } => "scatter",
            Self::ScatterAxis { .. } => "scatter_axis",
        };
        Err(by_indices(op))
    }

    /// What reading elements of the first input passes back to it: each of them the sum of the cotangents of
    /// where it went.
    fn spread(&self, inputs: &[Array], cotangent: &Array) -> Result<Array> {
        let (a, indices) = (&inputs[0], &inputs[1..]);
        let zeros = ops::zeros_like(a)?;
        if cotangent.size() == 0 {
            return Ok(zeros);
        }
        let op = ScatterOp::Sum;
        match self {
            Self::Take { axis } => {
                let updates = slices_of_take(cotangent, *axis, indices[0].ndim())?;
                let scatter = Self::Scatter { op, axes: Axes::from_slice(&[*axis]) };
                ops::node(scatter, [zeros, indices[0].clone(), updates])
            }
            Self::TakeAlongAxis { axis } => {
                let add = Self::ScatterAxis { op, axis: *axis };
                ops::node(add, [zeros, indices[0].clone(), cotangent.clone()])
            }
            Self::Gather { axes, slice_sizes } => {
                let places = places(a.shape(), axes, slice_sizes, indices)?;
                let inputs = std::iter::once(zeros).chain(places).chain([cotangent.clone()]);
                ops::node(Self::Scatter { op, axes: axes.clone() }, inputs)
            }
            Self::Scatter { .. } | Self::ScatterAxis { .. } => unreachable!("they write"),
        }
    }
}

/// The result of a take as slices of what was taken from, behind the `ndim` axes of the indices.
fn slices_of_take(taken: &Array, axis: usize, ndim: usize) -> Result<Array> {
    let before = (0..axis).chain(axis + ndim..taken.ndim());
    let order: Vec<isize> = (axis..axis + ndim).chain(before).map(|x| x as isize).collect();
    let front = if order.is_empty() { taken.clone() } else { ops::transpose(taken, &order)? };
    ops::expand_dims(&front, &[(ndim + axis) as isize])
}

/// The indices of where slices are read: those that would reach outside are moved, which a scatter does not
/// do. Single elements outside are anybody's guess, as in MLX.
fn places(shape: &[usize], axes: &Axes, sizes: &[usize], indices: &[Array]) -> Result<Inputs> {
    if axes.iter().all(|&axis| sizes[axis] == 1) {
        return Ok(indices.into());
    }
    let place = |(index, &axis): (&Array, &usize)| {
        let place = ops::maximum(&from_start(index, shape[axis])?, 0)?;
        ops::minimum(&place, (shape[axis] - sizes[axis]) as i32)
    };
    indices.iter().zip(axes).map(place).collect()
}

/// Indices into an axis of `dim` elements that count from its start.
pub(super) fn from_start(index: &Array, dim: usize) -> Result<Array> {
    let index = ops::astype(index, Dtype::Int64)?;
    ops::where_(&ops::less(&index, 0)?, &ops::add(&index, dim as i32)?, &index)
}

/// The derivative of a scatter along an axis by an input that is no index.
fn along_axis_vjp(
    op: ScatterOp,
    axis: usize,
    node: &Applied<'_>,
    cotangent: &Array,
    i: usize,
) -> Result<Array> {
    let (indices, values) = (node.inputs[1].clone(), &node.inputs[2]);
    let write = IndexingOp::ScatterAxis { op, axis };
    match (op, i) {
        (ScatterOp::Assign, 0) => {
            ops::node(write, [cotangent.clone(), indices, ops::zeros_like(values)?])
        }
        (ScatterOp::Sum, 0) => Ok(cotangent.clone()),
        (ScatterOp::Assign | ScatterOp::Sum, _) => {
            ops::node(IndexingOp::TakeAlongAxis { axis }, [cotangent.clone(), indices])
        }
        (ScatterOp::Prod | ScatterOp::Max | ScatterOp::Min, _) => refused(Transform::Vjp, write),
    }
}

fn mapped_take(axis: usize, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
    let [a, indices] = inputs else { unreachable!("a take has two inputs") };
    match (axes[0], axes[1]) {
        (Some(at), None) => {
            let axis = behind(axis, at);
            let taken = ops::node(IndexingOp::Take { axis }, inputs.iter().cloned())?;
            // The axes of the indices replace one.
            let out = if at < axis { at } else { at + indices.ndim() - 1 };
            Mapped::one(taken, out)
        }
        (None, Some(at)) => {
            let taken = ops::node(IndexingOp::Take { axis }, inputs.iter().cloned())?;
            Mapped::one(taken, axis + at)
        }
        _ => {
            let mut sizes = Shape::from(a.shape());
            sizes.remove(axes[0].expect("both are mapped"));
            sizes[axis] = 1;
            let indexed = Axes::from_slice(&[axis]);
            let Mapped { outputs, .. } = mapped_gather(&indexed, &sizes, inputs, axes)?;
            // Behind the mapped axis and those of the indices, the axes of `a`.
            let behind = indices.ndim();
            let slices = ops::squeeze(&outputs[0], &[(behind + axis) as isize])?;
            let before = behind..behind + axis;
            let order = std::iter::once(0).chain(before).chain(1..behind);
            let order = order.chain(behind + axis..slices.ndim()).map(|x| x as isize);
            Mapped::one(ops::transpose(&slices, &order.collect::<Vec<_>>())?, 0)
        }
    }
}

fn mapped_gather(
    indexed: &Axes,
    sizes: &[usize],
    inputs: &[Array],
    axes: &[Option<usize>],
) -> Result<Mapped> {
    let (a, indices) = inputs.split_first().expect("a gather has an input");
    let gather = |axes: Axes, slice_sizes: Shape, indices: &[Array]| {
        let inputs = std::iter::once(a).chain(indices).cloned();
        ops::node(IndexingOp::Gather { axes, slice_sizes }, inputs)
    };
    let Some(at) = axes[0] else {
        let indices = mapping::all_to_front(indices, &axes[1..])?;
        return Mapped::one(gather(indexed.clone(), sizes.into(), &indices)?, 0);
    };
    let mut shifted: Axes = indexed.iter().map(|&x| behind(x, at)).collect();
    if axes[1..].iter().all(Option::is_none) {
        let sizes = with_axis(sizes, at, a.shape()[at]);
        let out = at + indices.first().map_or(0, Array::ndim);
        return Mapped::one(gather(shifted, sizes, indices)?, out);
    }
    let indices = numbered(indices, &axes[1..])?;
    shifted.push(at);
    let read = gather(shifted, with_axis(sizes, at, 1), &indices)?;
    Mapped::one(ops::squeeze(&read, &[(indices[0].ndim() + at) as isize])?, 0)
}

/// Indices that are mapped at the front, and behind them which index of the mapped axis each belongs to.
pub(super) fn numbered(indices: &[Array], axes: &[Option<usize>]) -> Result<Inputs> {
    let mut indices = mapping::all_to_front(indices, axes)?;
    let first = &indices[0];
    // Numbers of many indices may not fit into a small dtype.
    let dtype = if first.dtype().size() < 4 { Dtype::Int32 } else { first.dtype() };
    let shape = Shape::from(first.shape());
    let numbers = ops::arange(0.0, shape[0] as f64, 1.0, dtype)?;
    let behind: Vec<isize> = (1..shape.len() as isize).collect();
    let numbers = ops::broadcast_to(&ops::expand_dims(&numbers, &behind)?, &shape)?;
    for index in &mut indices {
        *index = ops::astype(index, dtype)?;
    }
    indices.push(numbers);
    Ok(indices)
}
