//! Cumulative reductions.

use super::{Family, Input, SpecRef, Specs, operators::operators, spec::one};
use crate::Dtype;

operators! {
    /// Cumulative reductions.
    ScanOp {
        /// Running maximum.
        Max: "CumMax", any => same;
        /// Running minimum.
        Min: "CumMin", any => same;
        /// Running product.
        Prod: "CumProd", any => same;
        /// Running sum.
        Sum: "CumSum", number => same;
        /// Running log of the sum of exponentials.
        LogAddExp: "CumLogAddExp", inexact => same;
    }
}

/// Cumulative reduction along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scan {
    /// Which reduction.
    pub op: ScanOp,
    /// The axis.
    pub axis: usize,
    /// From the end.
    pub reverse: bool,
    /// The i-th output includes the i-th input.
    pub inclusive: bool,
}

impl Family for Scan {
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
        match inputs {
            [a] if self.axis < a.ndim() => one(a.shape, self.op.output_dtype(a.dtype)),
            _ => None,
        }
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let scan = |op| Scan { op, axis: 1, reverse: false, inclusive: true };
        let inputs = || vec![Input::new(&[4, 6], dtype)];
        ScanOp::ALL.into_iter().map(|op| (scan(op), inputs())).collect()
    }
}
