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
/// (batch, kv heads, m, dv), the mask (batch, heads, n, m) if it is an array, and sinks (heads) if there are
/// any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Factor of the scores.
    pub scale: Exact<f32>,
    /// What masks the scores.
    pub mask: AttentionMask,
    /// Whether the last input is a score for each head that takes its share of the softmax and adds no value,
    /// whatever the mask hides (Xiao and others, Efficient Streaming Language Models with Attention Sinks,
    /// 2023).
    pub sinks: bool,
}

impl Attention {
    /// Queries, keys, values and the mask, and what of the inputs are sinks.
    pub fn split<'a, T>(&self, inputs: &'a [T]) -> (&'a [T], Option<&'a T>) {
        match inputs.split_last() {
            Some((sinks, others)) if self.sinks => (others, Some(sinks)),
            _ => (inputs, None),
        }
    }
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
        let (attended, sinks) = self.split(inputs);
        let output = self::attended(self.mask, attended)?;
        let q = inputs[0];
        sinks.is_none_or(|s| s.shape == [q.shape[1]] && s.dtype == q.dtype).then_some(output)
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let of = |mask, sinks| Attention { scale: Exact(0.5), mask, sinks };
        let plain = examples(dtype).into_iter().map(|(mask, inputs)| (of(mask, false), inputs));
        let with_sinks = examples(dtype).into_iter().map(|(mask, mut inputs)| {
            inputs.push(Input::new(&[2], dtype));
            (of(mask, true), inputs)
        });
        plain.chain(with_sinks).collect()
    }
}

/// The derivatives of [`Attention`] along a cotangent of its output, by queries, keys and values, which are
/// the outputs. Inputs are those of the attention, its output and the cotangent.
///
/// With the weights `p = softmax(s)` and what scores change by, `ds = p (cotangent vᵀ - rowsum(cotangent *
/// output))`, which is zero where a mask hides a key, these are `scale ds k`, `scale dsᵀ q` and
/// `pᵀ cotangent` (Dao and others, FlashAttention, 2022, appendix B).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttentionVjp {
    /// Factor of the scores.
    pub scale: Exact<f32>,
    /// What masks the scores.
    pub mask: AttentionMask,
}

impl Family for AttentionVjp {
    fn name(&self) -> &'static str {
        "ScaledDotProductAttentionVJP"
    }

    fn is_view(&self) -> bool {
        false
    }

    fn takes(&self, dtype: Dtype) -> bool {
        dtype.is_floating()
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let (primals, along) = inputs.split_at_checked(inputs.len().checked_sub(2)?)?;
        let output = attended(self.mask, primals)?;
        let fits = along.iter().all(|a| a.is_like(output[0].as_ref()));
        fits.then(|| primals[..3].iter().map(|primal| primal.to_spec()).collect())
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let along = Input::new(&[1, 2, 5, 8], dtype);
        let example = |(mask, mut inputs): (AttentionMask, Vec<Input>)| {
            inputs.extend([along.clone(), along.clone()]);
            (AttentionVjp { scale: Exact(0.5), mask }, inputs)
        };
        examples(dtype).into_iter().map(example).collect()
    }
}

/// The output of attention on these inputs.
fn attended(mask: AttentionMask, inputs: &[SpecRef<'_>]) -> Option<Specs> {
    let (q, k, v, mask) = match (inputs, mask) {
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

/// Inputs of attention under each mask.
fn examples(dtype: Dtype) -> Vec<(AttentionMask, Vec<Input>)> {
    let operand = || Input::new(&[1, 2, 5, 8], dtype);
    let mask = Input::new(&[1, 2, 5, 5], dtype);
    let arrays = || vec![operand(), operand(), operand()];
    vec![
        (AttentionMask::None, arrays()),
        (AttentionMask::Causal, arrays()),
        (AttentionMask::Array, arrays().into_iter().chain([mask]).collect()),
    ]
}
