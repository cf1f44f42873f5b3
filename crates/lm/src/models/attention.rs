//! Grouped-query attention over the key/value cache.

use mlx::{Array, Result, fast, fast::Mask, ops};

use super::{Linear, cache::Layer, rope::Rope};

/// Projections and norms of one layer's attention.
#[derive(Clone)]
pub(crate) struct Attention {
    pub(crate) q: Linear,
    pub(crate) k: Linear,
    pub(crate) v: Linear,
    pub(crate) o: Linear,
    /// Norms over each head of the queries and keys (Qwen 3).
    pub(crate) q_norm: Option<Array>,
    pub(crate) k_norm: Option<Array>,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) eps: f32,
}

impl Attention {
    /// `x` is (batch, tokens, hidden); `offset` is the first token's position as an array.
    pub(crate) fn forward(
        &self,
        x: &Array,
        rope: &Rope,
        offset: &Array,
        cache: &mut Layer,
    ) -> Result<Array> {
        let (batch, tokens) = (x.dim(0) as isize, x.dim(1) as isize);
        let q = self.split_heads(&self.q.forward(x)?, self.heads, self.q_norm.as_ref())?;
        let k = self.split_heads(&self.k.forward(x)?, self.kv_heads, self.k_norm.as_ref())?;
        let v = self.split_heads(&self.v.forward(x)?, self.kv_heads, None)?;
        let q = rope.forward(&q, offset)?;
        let k = rope.forward(&k, offset)?;
        let (k, v) = cache.update(&k, &v)?;

        // A single query sees everything; causal order matters between several.
        let mask = if tokens > 1 { Mask::Causal } else { Mask::None };
        let scale = (self.head_dim as f32).sqrt().recip();
        let out = fast::scaled_dot_product_attention(&q, &k, &v, scale, mask)?;
        // One token's heads lie one after the other as they are.
        let out = if tokens > 1 { ops::transpose(&out, &[0, 2, 1, 3])? } else { out };
        let width = (self.heads * self.head_dim) as isize;
        self.o.forward(&ops::reshape(&out, &[batch, tokens, width])?)
    }

    /// (batch, tokens, heads · features) to (batch, heads, tokens, features), normalized.
    fn split_heads(&self, x: &Array, heads: usize, norm: Option<&Array>) -> Result<Array> {
        let (batch, tokens) = (x.dim(0), x.dim(1));
        let axes = if tokens > 1 { [tokens, heads] } else { [heads, 1] };
        let shape = [batch, axes[0], axes[1], self.head_dim].map(|d| d as isize);
        let x = ops::reshape(x, &shape)?;
        let x = match norm {
            Some(weight) => fast::rms_norm(&x, Some(weight), self.eps)?,
            None => x,
        };
        if tokens > 1 { ops::transpose(&x, &[0, 2, 1, 3]) } else { Ok(x) }
    }

    pub(crate) fn arrays(&self) -> Vec<&Array> {
        let linears = [&self.q, &self.k, &self.v, &self.o];
        let norms = self.q_norm.iter().chain(&self.k_norm);
        linears.into_iter().flat_map(Linear::arrays).chain(norms).collect()
    }
}
