//! Reductions and indices of extremes.

use smallvec::smallvec;

use super::{
    Applied, Mapped, Outputs, Rules,
    mapping::{self, behind},
    no_derivatives, no_tangents, one, only,
};
use crate::{
    Array, Dtype, Result,
    graph::Inputs,
    ops,
    primitives::{ArgReduce, Reduce, ReduceOp, Scan, ScanOp},
};

impl Rules for Reduce {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        let (x, cotangent) = (&node.inputs[0], &cotangents[0]);
        Ok(smallvec![match self.op {
            ReduceOp::All | ReduceOp::Any => return no_derivatives(node, wanted),
            ReduceOp::Max | ReduceOp::Min => self.share(node, cotangent)?,
            ReduceOp::Prod => ops::multiply(&ops::conjugate(&self.others(x)?)?, cotangent)?,
            ReduceOp::Sum => ops::broadcast_like(cotangent, x)?,
        }])
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        let (x, tangent) = (&node.inputs[0], only(tangents));
        let terms = match self.op {
            ReduceOp::All | ReduceOp::Any => return no_tangents(node),
            ReduceOp::Max => return one(self.of_first(ops::argmax, x, tangent)?),
            ReduceOp::Min => return one(self.of_first(ops::argmin, x, tangent)?),
            ReduceOp::Prod => ops::multiply(&self.others(x)?, tangent)?,
            ReduceOp::Sum => tangent.clone(),
        };
        one(ops::node(Reduce { op: ReduceOp::Sum, axes: self.axes.clone() }, [terms])?)
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let (input, axis) = mapping::only(inputs, axes);
        let axes = self.axes.iter().map(|&x| behind(x, axis)).collect();
        Mapped::one(ops::node(Reduce { op: self.op, axes }, [input.clone()])?, axis)
    }
}

impl Reduce {
    /// What of `values` is that of the extreme elements: equal ones share it.
    fn share(&self, node: &Applied<'_>, values: &Array) -> Result<Array> {
        let (x, extreme) = (&node.inputs[0], &node.outputs[0]);
        let is_extreme = ops::astype(&ops::equal(x, extreme)?, Dtype::Int32)?;
        let count = Reduce { op: ReduceOp::Sum, axes: self.axes.clone() };
        let each = ops::divide(values, &ops::node(count, [is_extreme.clone()])?)?;
        ops::astype(&ops::multiply(&each, &is_extreme)?, x.dtype())
    }

    /// What of `values` is that of the first of equal extreme elements, in row-major order.
    fn of_first(
        &self,
        places: impl Fn(&Array, Option<isize>, bool) -> Result<Array>,
        x: &Array,
        values: &Array,
    ) -> Result<Array> {
        let (mut x, mut values) = (x.clone(), values.clone());
        for &axis in self.axes.iter().rev() {
            let at = places(&x, Some(axis as isize), true)?;
            x = ops::take_along_axis(&x, &at, axis as isize)?;
            values = ops::take_along_axis(&values, &at, axis as isize)?;
        }
        Ok(values)
    }

    /// For each element the product of all others along the axes, without a division by zero: of those of its
    /// line along the first axis, and then of the other lines.
    fn others(&self, x: &Array) -> Result<Array> {
        let (mut others, mut lines) = (None, x.clone());
        for &axis in &self.axes {
            let product = |reverse| {
                let scan = Scan { op: ScanOp::Prod, axis, reverse, inclusive: false };
                ops::node(scan, [lines.clone()])
            };
            let beside = ops::multiply(&product(false)?, &product(true)?)?;
            others = Some(match others {
                None => beside,
                Some(others) => ops::multiply(&others, &beside)?,
            });
            lines = ops::node(Reduce { op: ReduceOp::Prod, axes: smallvec![axis] }, [lines])?;
        }
        others.map_or_else(|| ops::ones_like(x), Ok)
    }
}

impl Rules for ArgReduce {
    fn vjp(&self, node: &Applied<'_>, _cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        no_derivatives(node, wanted)
    }

    fn jvp(&self, node: &Applied<'_>, _tangents: &[Option<Array>]) -> Result<Outputs> {
        no_tangents(node)
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let (input, axis) = mapping::only(inputs, axes);
        let moved = ArgReduce { op: self.op, axis: behind(self.axis, axis) };
        Mapped::one(ops::node(moved, [input.clone()])?, axis)
    }
}
