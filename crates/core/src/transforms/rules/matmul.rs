//! Matrix products. Each is linear in both of its factors.

use super::{
    Applied, Mapped, Outputs, Rules,
    gathered::{by_right, mapped_picks, numbers, spread},
    indexing::by_indices,
    mapping::{self, to_front},
    no_tangents, sum,
};
use crate::{
    Array, Dtype, Result,
    graph::Inputs,
    ops,
    primitives::{Exact, MatmulOp},
};

impl Rules for MatmulOp {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        let cotangent = &cotangents[0];
        let derivative = |&i: &usize| match self {
            Self::Matmul => by_factor(node, cotangent, i),
            Self::AddMm { beta, .. } if i == 2 => times(cotangent, *beta),
            Self::AddMm { alpha, .. } => by_factor(node, &times(cotangent, *alpha)?, i),
            Self::GatherMm { .. } if i > 1 => Err(by_indices("gather_mm")),
            Self::SegmentedMm if i > 1 => ops::zeros_like(&node.inputs[i]),
            Self::GatherMm { left_sorted, right_sorted } => {
                by_gathered(node, cotangent, i, (*left_sorted, *right_sorted))
            }
            Self::SegmentedMm => by_segmented(node, cotangent, i),
        };
        wanted.iter().map(derivative).collect()
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        let [a, b, rest @ ..] = node.inputs else { unreachable!("a product has two factors") };
        let (by_a, by_b) = (tangents[0].as_ref(), tangents[1].as_ref());
        let products = |product: &dyn Fn(&Array, &Array) -> Result<Array>| {
            [by_a.map(|t| product(t, b)).transpose(), by_b.map(|t| product(a, t)).transpose()]
        };
        match self {
            Self::Matmul => sum(products(&|a, b| ops::matmul(a, b))),
            Self::AddMm { alpha, beta } => {
                let by_c = tangents[2].as_ref().map(|t| times(t, *beta)).transpose();
                let scaled = |a: &Array, b: &Array| times(&ops::matmul(a, b)?, *alpha);
                sum(products(&scaled).into_iter().chain([by_c]))
            }
            Self::GatherMm { .. } | Self::SegmentedMm => {
                if by_a.or(by_b).is_none() {
                    return no_tangents(node);
                }
                sum(products(&|a, b| ops::node(*self, [a, b].into_iter().chain(rest).cloned())))
            }
        }
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        match *self {
            Self::Matmul | Self::AddMm { .. } => {
                Mapped::one(ops::node(*self, mapping::all_to_front(inputs, axes)?)?, 0)
            }
            Self::GatherMm { left_sorted, right_sorted } => {
                let size = mapping::size(inputs, axes);
                let (a, b) = (to_front(&inputs[0], axes[0])?, to_front(&inputs[1], axes[1])?);
                let left = mapped_picks((&inputs[2], axes[2]), (&a, axes[0]), size)?;
                let right = mapped_picks((&inputs[3], axes[3]), (&b, axes[1]), size)?;
                // The matrices of each index of the mapped axis are behind those of the one before it.
                let left_sorted = left_sorted && axes[0].is_some();
                let right_sorted = right_sorted && axes[1].is_some();
                let gather = Self::GatherMm { left_sorted, right_sorted };
                Mapped::one(ops::node(gather, [a, b, left, right])?, 0)
            }
            Self::SegmentedMm => mapped_segments(inputs, axes),
        }
    }
}

/// An array times a constant.
fn times(a: &Array, factor: Exact<f32>) -> Result<Array> {
    if factor.0 == 1.0 { Ok(a.clone()) } else { ops::multiply(a, factor.0) }
}

/// The conjugate transpose of matrices.
fn adjoint(a: &Array) -> Result<Array> {
    ops::swapaxes(&ops::conjugate(a)?, -1, -2)
}

/// The derivative of `a @ b` by one of them.
fn by_factor(node: &Applied<'_>, cotangent: &Array, i: usize) -> Result<Array> {
    match i {
        0 => ops::matmul(cotangent, &adjoint(&node.inputs[1])?),
        _ => ops::matmul(&adjoint(&node.inputs[0])?, cotangent),
    }
}

/// The derivative of products of picked matrices by one of the stacks that they are picked from.
fn by_gathered(
    node: &Applied<'_>,
    cotangent: &Array,
    i: usize,
    sorted: (bool, bool),
) -> Result<Array> {
    let [a, b, left, right] = node.inputs else {
        unreachable!("a gathered product has four inputs")
    };
    if i == 0 {
        let gather = MatmulOp::GatherMm { left_sorted: true, right_sorted: sorted.1 };
        let turned = ops::swapaxes(b, -1, -2)?;
        let inputs = [cotangent.clone(), turned, numbers(right.shape())?, right.clone()];
        return spread(&ops::node(gather, inputs)?, left, a.shape());
    }
    by_right(a, cotangent, [left, right], sorted, &b.shape()[..b.ndim() - 2])
}

/// The derivative of products over segments by one of the factors: what each segment leaves out is zero.
fn by_segmented(node: &Applied<'_>, cotangent: &Array, i: usize) -> Result<Array> {
    let [a, b, segments] = node.inputs else {
        unreachable!("a segmented product has three inputs")
    };
    let inner = ops::arange(0.0, b.shape()[0] as f64, 1.0, Dtype::Uint32)?;
    let start = ops::slice_axis(segments, -1, 0, 1)?;
    let end = ops::slice_axis(segments, -1, 1, 2)?;
    let within = ops::logical_and(&ops::greater_equal(&inner, &start)?, &ops::less(&inner, &end)?)?;
    let (product, axis) = match i {
        0 => (ops::matmul(cotangent, &adjoint(b)?)?, -2),
        _ => (ops::matmul(&adjoint(a)?, cotangent)?, -1),
    };
    let kept = ops::where_(&ops::expand_dims(&within, &[axis])?, &product, 0.0)?;
    let batch: Vec<isize> = (0..kept.ndim() as isize - 2).collect();
    if batch.is_empty() { Ok(kept) } else { ops::sum(&kept, &batch, false) }
}

/// Products over segments with one more axis. The inner axes of all factors become one.
fn mapped_segments(inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
    if axes[0].or(axes[1]).is_none() {
        let segments = to_front(&inputs[2], axes[2])?;
        let inputs = [inputs[0].clone(), inputs[1].clone(), segments];
        return Mapped::one(ops::node(MatmulOp::SegmentedMm, inputs)?, 0);
    }
    let inputs = mapping::all_to_front(inputs, axes)?;
    let [size, rows, inner] = *inputs[0].shape() else { unreachable!("it has three axes now") };
    let columns = inputs[1].shape()[2];
    let sizes = |rows: usize, columns: usize| [rows as isize, columns as isize];
    let a = ops::reshape(&ops::swapaxes(&inputs[0], 0, 1)?, &sizes(rows, size * inner))?;
    let b = ops::reshape(&inputs[1], &sizes(size * inner, columns))?;
    let within = ops::minimum(&inputs[2], &Array::scalar(inner as u32)?)?;
    let first = ops::arange(0.0, size as f64, 1.0, Dtype::Uint32)?;
    let first = ops::multiply(&first, &Array::scalar(inner as u32)?)?;
    let behind: Vec<isize> = (1..within.ndim() as isize).collect();
    let segments = ops::add(&within, &ops::expand_dims(&first, &behind)?)?;
    Mapped::one(ops::node(MatmulOp::SegmentedMm, [a, b, segments])?, 0)
}
