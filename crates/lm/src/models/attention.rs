//! Grouped-query attention over the key/value cache.

use mlx::{Array, Result, Tree, fast, fast::Mask, ops};

use super::{
    Linear,
    cache::{Filled, Layer},
    rope::Rope,
};
use crate::config::Quantization;

/// Projections and norms of one layer's attention.
#[derive(Clone, Tree)]
pub(crate) struct Attention {
    pub(crate) q: Linear,
    pub(crate) k: Linear,
    pub(crate) v: Linear,
    pub(crate) o: Linear,
    /// Norms over each head of the queries and keys (Qwen 3).
    pub(crate) q_norm: Option<Array>,
    pub(crate) k_norm: Option<Array>,
    #[tree(skip)]
    pub(crate) heads: usize,
    #[tree(skip)]
    pub(crate) kv_heads: usize,
    #[tree(skip)]
    pub(crate) head_dim: usize,
    #[tree(skip)]
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
        let out = match (&k, &v) {
            (Filled::Dense(k), Filled::Dense(v)) => {
                fast::scaled_dot_product_attention(&q, k, v, scale, mask)?
            }
            (Filled::Quantized(k, format), Filled::Quantized(v, _)) => {
                quantized_attention(&q, k, v, *format, scale)?
            }
            _ => unreachable!("keys and values are quantized together"),
        };
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
}

/// Causal attention of queries (batch, heads, tokens, features) over quantized keys and values (batch,
/// kv heads, …), as `quantized_scaled_dot_product_attention` of mlx_lm does it: heads that share keys
/// are rows of the same products.
fn quantized_attention(
    q: &Array,
    keys: &[Array; 3],
    values: &[Array; 3],
    format: Quantization,
    scale: f32,
) -> Result<Array> {
    let [batch, heads, tokens, width] = [0, 1, 2, 3].map(|axis| q.dim(axis) as isize);
    let kv_heads = keys[0].dim(1) as isize;
    let grouped = [batch, kv_heads, heads / kv_heads, tokens, width];
    let q = ops::reshape(&ops::multiply(q, scale)?, &grouped)?;
    let product = |x: &Array, parts: &[Array; 3], transpose| {
        let expand = |a: &Array| ops::expand_dims(a, &[2]);
        let [words, scales, biases] = [expand(&parts[0])?, expand(&parts[1])?, expand(&parts[2])?];
        let Quantization { group_size, bits } = format;
        ops::quantized_matmul(x, &words, &scales, &biases, transpose, group_size, bits)
    };
    let mut scores = product(&q, keys, true)?;
    if tokens > 1 {
        let least = ops::full(&[], f32::MIN, scores.dtype())?;
        // Each of the last tokens sees the keys up to its own.
        let keys = scores.dim(4);
        let seen = ops::tri(tokens as usize, keys, keys as isize - tokens, mlx::Dtype::Bool)?;
        scores = ops::where_(&seen, &scores, &least)?;
    }
    let out = product(&ops::softmax(&scores, &[-1], true)?, values, false)?;
    ops::reshape(&out, &[batch, heads, tokens, width])
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlx::{Device, Dtype, random};

    /// The same as attention over what the quantized keys and values stand for.
    #[test]
    fn quantized_attention_is_attention_over_dequantized_rows() {
        mlx::init();
        let devices = [Device::CPU, mlx::default_device()];
        for (device, tokens) in devices.into_iter().flat_map(|d| [1, 5].map(|t| (d, t))) {
            mlx::with_device(device, || {
                let noise = |seed, shape: &[usize]| {
                    let key = random::key(seed).unwrap();
                    random::normal(shape, Dtype::Float32, 0.0, 1.0, Some(&key)).unwrap()
                };
                let q = noise(1, &[2, 6, tokens, 64]);
                let [k, v] = [2, 3].map(|seed| noise(seed, &[2, 3, 21, 64]));
                let format = Quantization { group_size: 32, bits: 8 };
                let quantized = [&k, &v].map(|a| {
                    let (w, s, b) = ops::quantize(a, 32, 8).unwrap();
                    [w, s, b]
                });
                let [keys, values] = &quantized;
                let got = quantized_attention(&q, keys, values, format, 0.125).unwrap();
                let back =
                    quantized.each_ref().map(|[w, s, b]| ops::dequantize(w, s, b, 32, 8).unwrap());
                let mask = if tokens > 1 { Mask::Causal } else { Mask::None };
                let want = fast::scaled_dot_product_attention(&q, &back[0], &back[1], 0.125, mask);
                let (got, want): (Vec<f32>, Vec<f32>) =
                    (got.to_vec().unwrap(), want.unwrap().to_vec().unwrap());
                let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(
                    got.len() == want.len() && worst < 1e-5,
                    "{worst} with {tokens} on {device}"
                );
            })
            .unwrap();
        }
    }
}
