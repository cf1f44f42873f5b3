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
    /// Scores (heads) that take their share of attention (gpt-oss).
    pub(crate) sinks: Option<Array>,
    #[tree(skip)]
    pub(crate) heads: usize,
    #[tree(skip)]
    pub(crate) kv_heads: usize,
    #[tree(skip)]
    pub(crate) head_dim: usize,
    #[tree(skip)]
    pub(crate) eps: f32,
    /// Factor on the scores.
    #[tree(skip)]
    pub(crate) scale: f32,
}

impl Attention {
    /// `x` is (batch, tokens, hidden), `offset` the first token's position as an array; `mask` is for the
    /// tokens and what `cache` shows them.
    pub(crate) fn forward(
        &self,
        x: &Array,
        rope: &Rope,
        offset: &Array,
        mask: Mask<'_>,
        cache: &mut Layer,
    ) -> Result<Array> {
        let (batch, tokens) = (x.dim(0) as isize, x.dim(1) as isize);
        let q = self.split_heads(&self.q.forward(x)?, self.heads, self.q_norm.as_ref())?;
        let k = self.split_heads(&self.k.forward(x)?, self.kv_heads, self.k_norm.as_ref())?;
        let v = self.split_heads(&self.v.forward(x)?, self.kv_heads, None)?;
        let q = rope.forward(&q, offset)?;
        let k = rope.forward(&k, offset)?;
        let (k, v) = cache.update(&k, &v)?;

        let (scale, sinks) = (self.scale, self.sinks.as_ref());
        let out = match (&k, &v) {
            (Filled::Dense(k), Filled::Dense(v)) => match sinks {
                None => fast::scaled_dot_product_attention(&q, k, v, scale, mask)?,
                Some(sinks) => {
                    fast::scaled_dot_product_attention_with_sinks(&q, k, v, scale, mask, sinks)?
                }
            },
            (Filled::Quantized(k, format), Filled::Quantized(v, _)) => {
                quantized_attention(&q, k, v, *format, scale, mask, sinks)?
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

/// The mask (tokens, keys) of a layer with a window, for `tokens` new ones behind `before`: keys are those
/// that the first of them sees, and what follows. None where nothing is hidden but what comes later.
pub(super) fn window_mask(tokens: usize, before: usize, window: usize) -> Result<Option<Array>> {
    if tokens == 1 || before + tokens <= window {
        return Ok(None);
    }
    let before = before.min(window - 1);
    let keys = before + tokens;
    // A token's own key is the `before`th behind its row's number.
    let until = |last: isize| ops::tri(tokens, keys, last, mlx::Dtype::Bool);
    let (seen, too_old) = (until(before as isize)?, until(before as isize - window as isize)?);
    Ok(Some(ops::logical_and(&seen, &ops::logical_not(&too_old)?)?))
}

/// Attention of queries (batch, heads, tokens, features) over quantized keys and values (batch,
/// kv heads, …), as `quantized_scaled_dot_product_attention` of mlx_lm does it: heads that share keys
/// are rows of the same products; of one token they are rows of one matrix, which needs no views of keys and
/// values. A mask is of booleans, (tokens, keys).
fn quantized_attention(
    q: &Array,
    keys: &[Array; 3],
    values: &[Array; 3],
    format: Quantization,
    scale: f32,
    mask: Mask<'_>,
    sinks: Option<&Array>,
) -> Result<Array> {
    let [batch, heads, tokens, width] = [0, 1, 2, 3].map(|axis| q.dim(axis) as isize);
    let kv_heads = keys[0].dim(1) as isize;
    let sharing = heads / kv_heads;
    let alone = tokens == 1 && sinks.is_none();
    let grouped: &[isize] = match alone {
        true => &[batch, kv_heads, sharing, width],
        false => &[batch, kv_heads, sharing, tokens, width],
    };
    // The last token sees all keys.
    let mask = if alone && matches!(mask, Mask::Causal) { Mask::None } else { mask };
    let q = ops::reshape(&ops::multiply(q, scale)?, grouped)?;
    let product = |x: &Array, parts: &[Array; 3], transpose| {
        let expand = |a: &Array| if alone { Ok(a.clone()) } else { ops::expand_dims(a, &[2]) };
        let [words, scales, biases] = [expand(&parts[0])?, expand(&parts[1])?, expand(&parts[2])?];
        let Quantization { group_size, bits } = format;
        ops::quantized_matmul(x, &words, &scales, &biases, transpose, group_size, bits)
    };
    let scores = masked(product(&q, keys, true)?, mask)?;
    let weights = match sinks {
        None => ops::softmax(&scores, &[-1], true)?,
        Some(sinks) => softmax_with_sinks(&scores, sinks)?,
    };
    let out = product(&weights, values, false)?;
    ops::reshape(&out, &[batch, heads, tokens, width])
}

/// Scores (…, tokens, keys) where the mask keeps them, and the least number elsewhere.
fn masked(scores: Array, mask: Mask<'_>) -> Result<Array> {
    let (tokens, keys) = (scores.dim(-2), scores.dim(-1));
    let seen = match mask {
        Mask::None => return Ok(scores),
        // Each of the last tokens sees the keys up to its own.
        Mask::Causal => ops::tri(tokens, keys, keys as isize - tokens as isize, mlx::Dtype::Bool)?,
        Mask::Array(mask) => mask.clone(),
    };
    ops::where_(&seen, &scores, &ops::full(&[], f32::MIN, scores.dtype())?)
}

/// A softmax over the keys of scores (batch, kv heads, heads of each, tokens, keys) and a sink per head,
/// without the sinks' shares.
fn softmax_with_sinks(scores: &Array, sinks: &Array) -> Result<Array> {
    let mut shape: Vec<usize> = scores.shape().to_vec();
    let (kv_heads, heads, keys) = (shape[1], shape[2], shape[4]);
    let sinks = ops::reshape(
        &ops::astype(sinks, scores.dtype())?,
        &[1, kv_heads as isize, heads as isize, 1, 1],
    )?;
    shape[4] = 1;
    let all = ops::concatenate(&[scores, &ops::broadcast_to(&sinks, &shape)?], 4)?;
    ops::slice_axis(&ops::softmax(&all, &[-1], true)?, 4, 0, keys as isize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlx::{Device, Dtype, random};

    fn noise(seed: u64, shape: &[usize]) -> Array {
        let key = random::key(seed).unwrap();
        random::normal(shape, Dtype::Float32, 0.0, 1.0, Some(&key)).unwrap()
    }

    fn check(device: Device, tokens: usize, mask: Mask<'_>, sinks: Option<&Array>) {
        let q = noise(1, &[2, 6, tokens, 64]);
        let [k, v] = [2, 3].map(|seed| noise(seed, &[2, 3, 21, 64]));
        let format = Quantization { group_size: 32, bits: 8 };
        let quantized = [&k, &v].map(|a| {
            let (w, s, b) = ops::quantize(a, 32, 8).unwrap();
            [w, s, b]
        });
        let [keys, values] = &quantized;
        let got = quantized_attention(&q, keys, values, format, 0.125, mask, sinks).unwrap();
        let [k, v] = quantized.each_ref().map(|[w, s, b]| ops::dequantize(w, s, b, 32, 8).unwrap());
        let want = match sinks {
            None => fast::scaled_dot_product_attention(&q, &k, &v, 0.125, mask),
            Some(sinks) => {
                fast::scaled_dot_product_attention_with_sinks(&q, &k, &v, 0.125, mask, sinks)
            }
        };
        let (got, want): (Vec<f32>, Vec<f32>) =
            (got.to_vec().unwrap(), want.unwrap().to_vec().unwrap());
        let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let sinks = sinks.is_some();
        assert!(
            got.len() == want.len() && worst < 1e-5,
            "{worst} with {tokens}, sinks {sinks}, on {device}"
        );
    }

    /// The same as attention over what the quantized keys and values stand for.
    #[test]
    fn quantized_attention_is_attention_over_dequantized_rows() {
        mlx::init();
        for device in [Device::CPU, mlx::default_device()] {
            mlx::with_device(device, || {
                let window = window_mask(5, 16, 17).unwrap().unwrap();
                let sinks = noise(4, &[6]);
                for sinks in [None, Some(&sinks)] {
                    check(device, 1, Mask::None, sinks);
                    check(device, 1, Mask::Causal, sinks);
                    check(device, 5, Mask::Causal, sinks);
                    check(device, 5, Mask::Array(&window), sinks);
                }
            })
            .unwrap();
        }
    }

    #[test]
    fn a_window_ends_at_each_token_of_its_own() {
        mlx::init();
        mlx::with_device(Device::CPU, || {
            // Three tokens behind 90, each of which sees itself and one before.
            let mask = window_mask(3, 90, 2).unwrap().unwrap();
            let rows = [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]].concat();
            assert_eq!((mask.shape(), mask.to_bytes().unwrap()), (&[3, 4][..], rows));
            assert!(window_mask(1, 90, 2).unwrap().is_none());
            assert!(window_mask(3, 5, 8).unwrap().is_none());
            assert!(window_mask(4, 5, 8).unwrap().is_some());
        })
        .unwrap();
    }
}
