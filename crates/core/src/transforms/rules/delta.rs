//! The gated delta rule, by what it could be composed of.

use smallvec::smallvec;

use super::{Applied, Mapped, Outputs, Rules, attention::of_batches, composed};
use crate::{
    Array, Result,
    graph::Inputs,
    ops::{self, astype},
    primitives::GatedDelta,
};

impl Rules for GatedDelta {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        composed::vjp(node, cotangents, wanted, |inputs| self.composed(inputs))
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        composed::jvp(node, tangents, |inputs| self.composed(inputs))
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        of_batches(*self, inputs, axes, None)
    }
}

impl GatedDelta {
    /// What it computes, a step after the other; inputs and outputs are the primitive's.
    pub(crate) fn composed(self, inputs: &[Array]) -> Result<Outputs> {
        let [q, k, v, gamma, beta, state] = inputs else { unreachable!("there are six inputs") };
        let mut state = state.clone();
        let group = v.dim(2) / q.dim(2);
        let widen = |a: &Array| astype(a, state.dtype());
        let heads = |a: &Array| repeat_heads(&widen(a)?, group);
        let (queries, keys, values) = (heads(q)?, heads(k)?, widen(v)?);
        let (gamma, beta) = (widen(gamma)?, widen(beta)?);
        let mut outputs = Vec::with_capacity(v.dim(1));
        for t in 0..v.dim(1) as isize {
            let at = |a: &Array| ops::squeeze(&ops::slice_axis(a, 1, t, t + 1)?, &[1]);
            let row = |a: &Array| ops::expand_dims(&at(a)?, &[-2]);
            let column = |a: &Array| ops::expand_dims(&at(a)?, &[-1]);
            let key = row(&keys)?;
            let decay = match gamma.ndim() {
                3 => ops::expand_dims(&column(&gamma)?, &[-1])?,
                _ => row(&gamma)?,
            };
            let decayed = ops::multiply(&state, &decay)?;
            let held = ops::sum(&ops::multiply(&decayed, &key)?, &[-1], true)?;
            let new = ops::subtract(&column(&values)?, &held)?;
            let change = ops::multiply(&new, &ops::expand_dims(&column(&beta)?, &[-1])?)?;
            state = ops::add(&decayed, &ops::multiply(&change, &key)?)?;
            outputs.push(ops::sum(&ops::multiply(&state, &row(&queries)?)?, &[-1], false)?);
        }
        let outputs = match outputs.is_empty() {
            true => ops::zeros_like(v)?,
            false => astype(&ops::stack(&outputs.iter().collect::<Vec<_>>(), 1)?, v.dtype())?,
        };
        Ok(smallvec![outputs, state])
    }
}

/// Each head of the third axis `group` times, one after the other.
fn repeat_heads(a: &Array, group: usize) -> Result<Array> {
    if group == 1 {
        return Ok(a.clone());
    }
    let [batch, time, heads, width] = a.shape()[..] else { unreachable!("four axes") };
    let spread =
        ops::broadcast_to(&ops::expand_dims(a, &[3])?, &[batch, time, heads, group, width])?;
    ops::flatten(&spread, 2, 3)
}
