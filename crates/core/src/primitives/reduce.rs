//! Reductions over axes.

use super::{
    Axes, Family, Input, SpecRef, Specs,
    operators::operators,
    spec::{one, with_size},
};
use crate::{Dtype, Shape};

operators! {
    /// Reductions over axes.
    ReduceOp {
        /// All nonzero; the result is bool.
        All: "And", truth => bool;
        /// Any nonzero; the result is bool.
        Any: "Or", truth => bool;
        /// Largest; NaN if there is one.
        Max: "Max", any => same;
        /// Smallest; NaN if there is one.
        Min: "Min", any => same;
        /// Product.
        Prod: "Prod", accumulated => same;
        /// Sum.
        Sum: "Sum", accumulated => same;
    }
}

operators! {
    /// Index of an extreme element.
    ArgReduceOp {
        /// First index of the largest element.
        ArgMax: "ArgReduce", any => uint32;
        /// First index of the smallest element.
        ArgMin: "ArgReduce", any => uint32;
    }
}

/// Reduction over axes, which stay with size 1.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reduce {
    /// Which reduction.
    pub op: ReduceOp,
    /// Axes, ascending.
    pub axes: Axes,
}

impl Family for Reduce {
    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn is_view(&self) -> bool {
        false
    }

    fn takes(&self, dtype: Dtype) -> bool {
        self.op.takes(dtype)
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let [a] = inputs else { return None };
        let mut shape = Shape::from(a.shape);
        let ascending = self.axes.windows(2).all(|pair| pair[0] < pair[1]);
        for &axis in &self.axes {
            *shape.get_mut(axis).filter(|_| ascending)? = 1;
        }
        one(shape, self.op.output_dtype(a.dtype))
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let reduce = |op| Reduce { op, axes: Axes::from_slice(&[0]) };
        let inputs = || vec![Input::new(&[4, 6], dtype)];
        ReduceOp::ALL.into_iter().map(|op| (reduce(op), inputs())).collect()
    }
}

/// Index of an extreme element along an axis, which stays with size 1; the output is uint32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArgReduce {
    /// Which extreme.
    pub op: ArgReduceOp,
    /// The axis.
    pub axis: usize,
}

impl Family for ArgReduce {
    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn is_view(&self) -> bool {
        false
    }

    fn takes(&self, dtype: Dtype) -> bool {
        self.op.takes(dtype)
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let [a] = inputs else { return None };
        one(with_size(a.shape, self.axis, 1)?, self.op.output_dtype(a.dtype))
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let inputs = || vec![Input::new(&[4, 6], dtype)];
        ArgReduceOp::ALL.into_iter().map(|op| (ArgReduce { op, axis: 1 }, inputs())).collect()
    }
}
