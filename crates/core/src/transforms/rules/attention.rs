//! Softmax attention, by what it could be composed of.

use super::{Applied, Mapped, Outputs, Rules, composed, mapping};
use crate::{
    Array, Dtype, Result,
    dtype::finfo,
    graph::Inputs,
    ops,
    primitives::{Attention, AttentionMask},
};

impl Rules for Attention {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        composed::vjp(node, cotangents, wanted, |inputs| self.composed(inputs))
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        composed::jvp(node, tangents, |inputs| self.composed(inputs))
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let shares_keys = axes[1..3].iter().all(Option::is_none);
        match self.mask {
            AttentionMask::None | AttentionMask::Array if shares_keys => self.of_rows(inputs, axes),
            AttentionMask::None | AttentionMask::Causal | AttentionMask::Array => {
                let aligned = mapping::all_to_front(inputs, axes)?;
                let sizes = [aligned[0].dim(0) as isize, aligned[0].dim(1) as isize];
                let batches = aligned.iter().map(|a| ops::flatten(a, 0, 1));
                let output = ops::node(*self, batches.collect::<Result<Inputs>>()?)?;
                Mapped::one(ops::unflatten(&output, 0, &sizes)?, 0)
            }
        }
    }
}

impl Attention {
    /// Attention on the same keys and values for every index, whose queries become rows of one.
    fn of_rows(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let count = mapping::size(inputs, axes);
        let rows = |(a, axis): (&Array, &Option<usize>)| {
            let aligned = match *axis {
                Some(axis) => ops::moveaxis(a, axis as isize, 2),
                None => mapping::repeated(a, 2, count),
            };
            ops::flatten(&aligned?, 2, 3)
        };
        let mut all: Inputs = inputs.into();
        for i in (0..inputs.len()).filter(|i| !(1..3).contains(i)) {
            all[i] = rows((&inputs[i], &axes[i]))?;
        }
        let sizes = [count as isize, (all[0].dim(2) / count.max(1)) as isize];
        let output = ops::node(*self, all)?;
        Mapped::one(ops::unflatten(&output, 2, &sizes)?, 2)
    }

    /// Attention as a composition, at least in float32.
    pub(crate) fn composed(&self, inputs: &[Array]) -> Result<Array> {
        let (q, k, v) = (&inputs[0], &inputs[1], &inputs[2]);
        let dtype = q.dtype();
        let wide = if dtype == Dtype::Float64 { dtype } else { Dtype::Float32 };
        let widened = |a: &Array| ops::astype(a, wide);
        let sizes = |a: &Array| [0, 1, 2, 3].map(|axis| a.dim(axis) as isize);
        let ([batch, heads, rows, width], [_, kv_heads, keys, _]) = (sizes(q), sizes(k));
        // Query heads that share keys are rows of one product.
        let shared = |a: &Array, last: isize| {
            ops::reshape(a, &[batch, kv_heads, heads / kv_heads * rows, last])
        };
        let queries = shared(&ops::multiply(&widened(q)?, f64::from(self.scale.0))?, width)?;
        let scores = ops::matmul(&queries, &ops::swapaxes(&widened(k)?, -1, -2)?)?;
        let scores = self.masked(&ops::reshape(&scores, &[batch, heads, rows, keys])?, inputs)?;
        let weights = shared(&ops::softmax(&scores, &[-1], true)?, keys)?;
        let output = ops::matmul(&weights, &widened(v)?)?;
        let output = ops::reshape(&output, &[batch, heads, rows, sizes(v)[3]])?;
        ops::astype(&output, dtype)
    }

    /// The scores with the mask: what it hides has the lowest score of the result's dtype.
    fn masked(&self, scores: &Array, inputs: &[Array]) -> Result<Array> {
        let visible = match self.mask {
            AttentionMask::None => return Ok(scores.clone()),
            AttentionMask::Causal => {
                let (rows, keys) = (scores.dim(2), scores.dim(3));
                ops::tri(rows, keys, keys as isize - rows as isize, Dtype::Bool)?
            }
            AttentionMask::Array if inputs[3].dtype() == Dtype::Bool => inputs[3].clone(),
            AttentionMask::Array => {
                return ops::add(scores, &ops::astype(&inputs[3], scores.dtype())?);
            }
        };
        ops::where_(&visible, scores, finfo(inputs[0].dtype())?.min)
    }
}
