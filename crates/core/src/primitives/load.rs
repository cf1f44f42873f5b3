//! Arrays of files.

use smallvec::smallvec;

use super::{Family, Input, SpecRef, Specs, spec::one};
use crate::{Dtype, Shape, io::Part};

/// The row-major array that a part of a file is, without inputs. Core makes it when it is evaluated: until
/// then it takes no memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Load {
    part: Part,
    shape: Shape,
    dtype: Dtype,
}

impl Load {
    /// The array of this shape and dtype, whose bytes `part` holds.
    pub(crate) fn new(part: Part, shape: Shape, dtype: Dtype) -> Self {
        Load { part, shape, dtype }
    }

    /// Where the bytes are.
    pub(crate) fn part(&self) -> &Part {
        &self.part
    }
}

impl Family for Load {
    fn name(&self) -> &'static str {
        "Load"
    }

    fn is_view(&self) -> bool {
        true
    }

    fn takes(&self, _dtype: Dtype) -> bool {
        true
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        inputs.is_empty().then(|| one(self.shape.clone(), self.dtype))?
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let shape: Shape = smallvec![2, 3];
        vec![(Load::new(Part::zeros(6 * dtype.size()), shape, dtype), Vec::new())]
    }
}
