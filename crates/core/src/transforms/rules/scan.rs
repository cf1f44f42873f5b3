//! Cumulative reductions.
//!
//! Derivatives of products and of logarithms of sums are linear recurrences along the axis. They divide by
//! nothing and take no logarithm of a cotangent: zeros need no care, nor does a derivative of a derivative.

use smallvec::smallvec;

use super::{
    Applied, Mapped, Outputs, Rules,
    mapping::{self, behind},
    one, only,
};
use crate::{
    Array, Dtype, Result,
    dtype::finfo,
    graph::Inputs,
    ops,
    primitives::{Scan, ScanOp},
};

impl Rules for Scan {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], _wanted: &[usize]) -> Result<Inputs> {
        let (x, cotangent) = (&node.inputs[0], &cotangents[0]);
        let back = self.back();
        if self.op == ScanOp::Sum {
            return Ok(smallvec![ops::node(back, [cotangent.clone()])?]);
        }
        let (inclusive, y) = self.inclusive(node)?;
        let cotangent = if self.inclusive { cotangent } else { &back.next(cotangent)? };
        Ok(smallvec![match inclusive.chain(x, &y)? {
            Chain::Owners(owners) => {
                ops::scatter_add_axis(&ops::zeros_like(x)?, &owners, cotangent, self.axis as isize)?
            }
            Chain::Recurrence { factors, weights } => {
                let sums = back.recurrence(ops::conjugate(&factors)?, cotangent.clone())?;
                ops::multiply(&ops::conjugate(&weights)?, &sums)?
            }
        }])
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        let (x, tangent) = (&node.inputs[0], only(tangents));
        if self.op == ScanOp::Sum {
            return one(ops::node(*self, [tangent.clone()])?);
        }
        let (inclusive, y) = self.inclusive(node)?;
        let derivative = match inclusive.chain(x, &y)? {
            Chain::Owners(owners) => ops::take_along_axis(tangent, &owners, self.axis as isize)?,
            Chain::Recurrence { factors, weights } => {
                self.recurrence(factors, ops::multiply(&weights, tangent)?)?
            }
        };
        one(if self.inclusive { derivative } else { self.next(&derivative)? })
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let (input, axis) = mapping::only(inputs, axes);
        let moved = Scan { axis: behind(self.axis, axis), ..*self };
        Mapped::one(ops::node(moved, [input.clone()])?, axis)
    }
}

/// How the outputs of a scan that is not linear follow their inputs.
enum Chain {
    /// Each is the input of that index.
    Owners(Array),
    /// The derivative at each place is that of the one before it times its factor, of which the first place
    /// has none, and the tangent of its input times its weight.
    Recurrence { factors: Array, weights: Array },
}

impl Scan {
    /// The same from the other end.
    fn back(&self) -> Self {
        Scan { reverse: !self.reverse, ..*self }
    }

    /// The scan that includes each element, of whose outputs an exclusive one has the one before; and its
    /// output.
    fn inclusive(&self, node: &Applied<'_>) -> Result<(Self, Array)> {
        let inclusive = Scan { inclusive: true, ..*self };
        let output = match self.inclusive {
            true => node.outputs[0].clone(),
            false => ops::node(inclusive, [node.inputs[0].clone()])?,
        };
        Ok((inclusive, output))
    }

    /// How the outputs `y` of an inclusive scan follow its inputs `x`.
    fn chain(&self, x: &Array, y: &Array) -> Result<Chain> {
        match self.op {
            ScanOp::Max | ScanOp::Min => Ok(Chain::Owners(self.owners(x, y)?)),
            ScanOp::Prod => {
                let weights = ops::node(Scan { inclusive: false, ..*self }, [x.clone()])?;
                Ok(Chain::Recurrence { factors: self.last(x, self.links(x))?, weights })
            }
            ScanOp::LogAddExp => {
                // The difference of infinite ones would be NaN.
                let lowest = Array::scalar_of(finfo(y.dtype())?.min, y.dtype())?;
                let y = ops::where_(&ops::isneginf(y)?, &lowest, y)?;
                let links = self.links(&y);
                let steps = ops::subtract(&self.first(&y, links)?, &self.last(&y, links)?)?;
                let weights = ops::exp(&ops::subtract(x, &y)?)?;
                Ok(Chain::Recurrence { factors: ops::exp(&steps)?, weights })
            }
            ScanOp::Sum => unreachable!("sums are linear"),
        }
    }

    /// For each place the index of the running extreme, of equal ones the latest.
    fn owners(&self, x: &Array, extremes: &Array) -> Result<Array> {
        let n = x.shape()[self.axis];
        let indices = ops::arange(0.0, n as f64, 1.0, Dtype::Uint32)?;
        let others: Vec<isize> =
            (0..x.ndim()).filter(|&x| x != self.axis).map(|x| x as isize).collect();
        let indices = ops::expand_dims(&indices, &others)?;
        let first = if self.reverse { n.saturating_sub(1) } else { 0 };
        let first = Array::scalar(first as u32)?;
        let own = ops::where_(&ops::equal(x, extremes)?, &indices, &first)?;
        let latest = if self.reverse { ScanOp::Min } else { ScanOp::Max };
        ops::stop_gradient(&ops::node(Scan { op: latest, ..*self }, [own])?)
    }

    /// What the recurrence with these factors makes of the terms. It doubles the number of terms that each
    /// place holds until that is all before it.
    fn recurrence(&self, mut factors: Array, mut terms: Array) -> Result<Array> {
        let n = terms.shape()[self.axis];
        let mut step = 1;
        while step < n {
            let carried = ops::multiply(&factors, &self.first(&terms, n - step)?)?;
            let reached = ops::add(&self.last(&terms, n - step)?, &carried)?;
            terms = self.join(&self.first(&terms, step)?, &reached)?;
            let left = n.saturating_sub(2 * step);
            factors = ops::multiply(&self.last(&factors, left)?, &self.first(&factors, left)?)?;
            step *= 2;
        }
        Ok(terms)
    }

    /// Each element at the place of the next one, and zero at the first place.
    fn next(&self, a: &Array) -> Result<Array> {
        let kept = self.first(a, self.links(a))?;
        let free = self.first(a, a.shape()[self.axis] - self.links(a))?;
        self.join(&ops::zeros_like(&free)?, &kept)
    }

    /// Number of places that have one before them.
    fn links(&self, a: &Array) -> usize {
        a.shape()[self.axis].saturating_sub(1)
    }

    /// Elements at the places where the scan begins.
    fn first(&self, a: &Array, count: usize) -> Result<Array> {
        let n = a.shape()[self.axis];
        let start = if self.reverse { n - count } else { 0 };
        ops::slice_axis(a, self.axis as isize, start as isize, (start + count) as isize)
    }

    /// Elements at the places where the scan ends.
    fn last(&self, a: &Array, count: usize) -> Result<Array> {
        self.back().first(a, count)
    }

    /// Some elements and those behind them.
    fn join(&self, first: &Array, last: &Array) -> Result<Array> {
        let parts = if self.reverse { [last, first] } else { [first, last] };
        ops::concatenate(&parts, self.axis as isize)
    }
}
