//! Random bits.

use super::{Family, Input, SpecRef, Specs, spec::one};
use crate::{Dtype, Shape};

/// Threefry bits: input keys (…, 2) uint32; each key fills a part of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RandomBits {
    /// Axes of a key's part, behind those of the keys.
    pub shape: Shape,
    /// Bytes per number: 1, 2 or 4, as uint8, uint16 or uint32.
    pub width: usize,
}

impl Family for RandomBits {
    fn name(&self) -> &'static str {
        "RandomBits"
    }

    fn is_view(&self) -> bool {
        false
    }

    fn takes(&self, dtype: Dtype) -> bool {
        dtype == Dtype::Uint32
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let [keys] = inputs else { return None };
        let [leading @ .., 2] = keys.shape else { return None };
        let dtype = match (keys.dtype, self.width) {
            (Dtype::Uint32, 1) => Dtype::Uint8,
            (Dtype::Uint32, 2) => Dtype::Uint16,
            (Dtype::Uint32, 4) => Dtype::Uint32,
            _ => return None,
        };
        let mut shape = Shape::from(leading);
        shape.extend_from_slice(&self.shape);
        one(shape, dtype)
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let bits = |width| RandomBits { shape: Shape::from_slice(&[9]), width };
        let keys = || vec![Input::of(&[7.0, 4e9], &[2], dtype)];
        [1, 2, 4].map(|width| (bits(width), keys())).into()
    }
}
