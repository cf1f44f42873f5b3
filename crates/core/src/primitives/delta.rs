//! The gated delta rule.

use super::{
    Family, Input, SpecRef, Specs,
    spec::{Spec, one},
};
use crate::Dtype;

/// The gated delta rule over time: for each value head a state `s` (values, keys) that decays, forgets what
/// it holds for a key and takes the value instead, `s ← γ s; s ← s + β (v - s k) kᵀ; y = s q` (Yang, Kautz
/// and Hatamizadeh, Gated Delta Networks, 2024). Sums and states are float32 at least.
///
/// Inputs are `q` and `k` (batch, time, key heads, dk) and `v` (batch, time, value heads, dv) of one dtype;
/// `γ` (batch, time, value heads), or one for each key feature (batch, time, value heads, dk), and `β`
/// (batch, time, value heads), each of that dtype or as wide as the state; the state (batch, value heads,
/// dv, dk). A group of value heads shares a key head. Outputs are `y`, which is like `v`, and the last
/// state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GatedDelta;

impl Family for GatedDelta {
    fn name(&self) -> &'static str {
        "GatedDelta"
    }

    fn is_view(&self) -> bool {
        false
    }

    fn takes(&self, dtype: Dtype) -> bool {
        dtype.is_floating()
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let [q, k, v, gamma, beta, state] = inputs else { return None };
        let (&[batch, time, key_heads, width], &[_, _, heads, values]) = (q.shape, v.shape) else {
            return None;
        };
        let wide = v.dtype.promote(Dtype::Float32);
        let tokens = [batch, time, heads];
        let is_gate = |gate: &SpecRef<'_>| [v.dtype, wide].contains(&gate.dtype);
        let fits = v.dtype.is_floating()
            && q.is_like(*k)
            && q.dtype == v.dtype
            && v.shape[..2] == q.shape[..2]
            && key_heads > 0
            && width > 0
            && heads.is_multiple_of(key_heads)
            && is_gate(gamma)
            && is_gate(beta)
            && (gamma.shape == tokens || gamma.shape == [batch, time, heads, width])
            && beta.shape == tokens
            && state.is_like(Spec { shape: &[batch, heads, values, width], dtype: wide });
        fits.then(|| [*v, *state].iter().flat_map(|o| one(o.shape, o.dtype)).flatten().collect())
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let wide = dtype.promote(Dtype::Float32);
        let keys = Input::new(&[2, 3, 1, 4], dtype);
        let (values, beta) = (Input::new(&[2, 3, 2, 2], dtype), Input::new(&[2, 3, 2], dtype));
        let gamma = Input::new(&[2, 3, 2], wide);
        let state = Input::new(&[2, 2, 2, 4], wide);
        vec![(GatedDelta, vec![keys.clone(), keys, values, gamma, beta, state])]
    }
}
