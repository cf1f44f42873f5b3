//! Selection between two arrays.

use super::{
    Applied,
    elementwise::{Elementwise, Factor},
};
use crate::{Result, ops, primitives::TernaryOp};

impl Elementwise for TernaryOp {
    /// 1 where it is the input that is selected.
    fn factor(self, node: &Applied<'_>, i: usize) -> Result<Factor> {
        let (condition, dtype) = (&node.inputs[0], node.outputs[0].dtype());
        Ok(match (self, i) {
            (Self::Select, 1) => Factor::Times(ops::astype(condition, dtype)?),
            (Self::Select, 2) => Factor::Times(ops::astype(&ops::logical_not(condition)?, dtype)?),
            (Self::Select, _) => Factor::Zero,
        })
    }
}
