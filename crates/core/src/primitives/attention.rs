//! Softmax attention.

use super::{Exact, Family, Input, SpecRef, Specs, spec::one};
use crate::Dtype;

/// What masks the scores of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttentionMask {
    /// Nothing.
    None,
    /// Query `i` of `n` sees keys up to `i + keys - n`.
    Causal,
    /// The fourth input: bool (true is kept) or additive, of the scores' shape.
    Array,
}

/// Softmax attention: inputs queries (batch, heads, n, d), keys (batch, kv heads, m, d), values
/// (batch, kv heads, m, dv), and the mask (batch, heads, n, m) if it is an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Factor of the scores.
    pub scale: Exact<f32>,
    /// What masks the scores.
    pub mask: AttentionMask,
}

impl Family for Attention {
    fn name(&self) -> &'static str {
        "ScaledDotProductAttention"
    }

    fn is_view(&self) -> bool {
        false
    }

    fn takes(&self, dtype: Dtype) -> bool {
        dtype.is_floating()
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let (q, k, v, mask) = match (inputs, self.mask) {
            (&[q, k, v], AttentionMask::None | AttentionMask::Causal) => (q, k, v, None),
            (&[q, k, v, mask], AttentionMask::Array) => (q, k, v, Some(mask)),
            _ => return None,
        };
        let (&[batch, heads, n, d], &[_, kv_heads, m, kd], &[_, _, _, dv]) =
            (q.shape, k.shape, v.shape)
        else {
            return None;
        };
        let fits = [k.dtype, v.dtype] == [q.dtype; 2]
            && k.shape[0] == batch
            && k.shape[..3] == v.shape[..3]
            && d == kd
            && heads.checked_rem(kv_heads) == Some(0)
            && mask.is_none_or(|mask| {
                mask.shape == [batch, heads, n, m] && [Dtype::Bool, q.dtype].contains(&mask.dtype)
            });
        fits.then(|| one([batch, heads, n, dv].as_slice(), q.dtype))?
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let attention = |mask| Attention { scale: Exact(0.5), mask };
        let operand = || Input::new(&[1, 2, 5, 8], dtype);
        let mask = Input::new(&[1, 2, 5, 5], dtype);
        let arrays = || vec![operand(), operand(), operand()];
        vec![
            (attention(AttentionMask::None), arrays()),
            (attention(AttentionMask::Causal), arrays()),
            (attention(AttentionMask::Array), arrays().into_iter().chain([mask]).collect()),
        ]
    }
}
