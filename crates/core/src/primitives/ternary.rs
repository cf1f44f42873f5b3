//! Selection between two arrays.

use super::{Family, Input, SpecRef, Specs, spec::one};
use crate::Dtype;

/// Elementwise functions of three arrays of the same shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TernaryOp {
    /// `condition ? a : b`: inputs condition (bool), `a`, `b`, both of one dtype.
    Select,
}

impl Family for TernaryOp {
    fn name(&self) -> &'static str {
        match self {
            Self::Select => "Select",
        }
    }

    fn is_view(&self) -> bool {
        match self {
            Self::Select => false,
        }
    }

    fn takes(&self, _dtype: Dtype) -> bool {
        match self {
            Self::Select => true,
        }
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        match (self, inputs) {
            (Self::Select, [condition, a, b]) => {
                let fits =
                    condition.dtype == Dtype::Bool && condition.shape == a.shape && a.is_like(*b);
                fits.then(|| one(a.shape, a.dtype))?
            }
            (Self::Select, _) => None,
        }
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let operand = || Input::new(&[4, 6], dtype);
        vec![(Self::Select, vec![Input::new(&[4, 6], Dtype::Bool), operand(), operand()])]
    }
}
