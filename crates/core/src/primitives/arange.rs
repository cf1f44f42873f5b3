//! Ranges of numbers.

use super::{Exact, Family, Input, SpecRef, Specs, spec::one};
use crate::Dtype;

/// `start + i * step`, without inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Arange {
    /// First value.
    pub start: Exact<f64>,
    /// Distance of neighbours.
    pub step: Exact<f64>,
    /// Number of values.
    pub size: usize,
    /// The dtype of the output.
    pub dtype: Dtype,
}

impl Family for Arange {
    fn name(&self) -> &'static str {
        "Arange"
    }

    fn is_view(&self) -> bool {
        false
    }

    fn takes(&self, dtype: Dtype) -> bool {
        dtype != Dtype::Bool
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        inputs.is_empty().then(|| one([self.size].as_slice(), self.dtype))?
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        vec![(Arange { start: Exact(1.0), step: Exact(2.0), size: 4, dtype }, Vec::new())]
    }
}
