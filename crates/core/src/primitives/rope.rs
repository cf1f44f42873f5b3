//! Rotary position embedding.

use super::{Exact, Family, Input, SpecRef, Specs, spec::one};
use crate::Dtype;

/// Rotary embedding: inputs `x` (batch, …, positions, features), offset (int32 scalar or one per
/// batch), and the frequencies if `base` is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rope {
    /// Features that are rotated; the rest is copied.
    pub dims: usize,
    /// Rotate neighbouring pairs instead of the two halves.
    pub traditional: bool,
    /// Base of the frequencies `base^(-2i/dims)`; `None` when they are the third input
    /// (then the angle is `position / freqs[i]`).
    pub base: Option<Exact<f32>>,
    /// Scale of the positions.
    pub scale: Exact<f32>,
}

impl Family for Rope {
    fn name(&self) -> &'static str {
        "RoPE"
    }

    fn is_view(&self) -> bool {
        false
    }

    fn takes(&self, dtype: Dtype) -> bool {
        dtype.is_floating()
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let (x, offset, freqs) = match (inputs, self.base) {
            (&[x, offset], Some(_)) => (x, offset, None),
            (&[x, offset, freqs], None) => (x, offset, Some(freqs)),
            _ => return None,
        };
        let fits = x.ndim() >= 3
            && self.dims.is_multiple_of(2)
            && self.dims <= x.shape[x.ndim() - 1]
            && offset.dtype == Dtype::Int32
            && (matches!(offset.shape, [] | [1]) || offset.shape == &x.shape[..1])
            && freqs.is_none_or(|f| f.dtype == Dtype::Float32 && f.shape == [self.dims / 2]);
        fits.then(|| one(x.shape, x.dtype))?
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let rope = |base| Rope { dims: 8, traditional: false, base, scale: Exact(1.0) };
        let x = Input::new(&[1, 2, 3, 8], dtype);
        let offset = Input::of(&[2.0], &[], Dtype::Int32);
        let freqs = Input::of(&[1.0, 10.0, 100.0, 1000.0], &[4], Dtype::Float32);
        vec![
            (rope(Some(Exact(10000.0))), vec![x.clone(), offset.clone()]),
            (rope(None), vec![x, offset, freqs]),
        ]
    }
}
