//! Models with random weights, made on the device: speed does not care what the weights are.

use mlx::{Array, Dtype, ops, random};

use crate::{
    Result,
    config::{ModelConfig, Quantization},
    models::{Attention, Block, Embedding, Linear, Mlp, Rope, Transformer},
};

/// A model of this shape with random weights: quantized, or dense in `dtype` without
/// `quantization`. Activations stay in range, so that no number is infinite.
///
/// # Errors
/// When memory is out or the device fails.
pub fn random_model(
    config: ModelConfig,
    quantization: Option<Quantization>,
    dtype: Dtype,
    seed: u64,
) -> Result<Transformer> {
    let mut source = Source { key: random::key(seed)?, quantization, dtype };
    let (vocab, hidden) = (config.vocab_size, config.hidden_size);
    let tokens = source.linear(vocab, hidden)?;
    let tied = config.tied_embeddings.unwrap_or(true);
    let head = if tied { None } else { Some(source.linear(vocab, hidden)?) };
    let blocks = (0..config.num_layers).map(|_| source.block(&config)).collect::<Result<_>>()?;
    let norm = source.norm(hidden)?;
    let rope = Rope::new(&config.rope, config.head_dim)?;
    Ok(Transformer { config, embedding: Embedding { tokens, head }, blocks, norm, rope })
}

struct Source {
    key: Array,
    quantization: Option<Quantization>,
    dtype: Dtype,
}

impl Source {
    fn next_key(&mut self) -> Result<Array> {
        let (rest, key) = random::split(&self.key)?;
        self.key = rest;
        Ok(key)
    }

    /// Weights with a variance of about `1 / inner`. Evaluated at once, so that no more than one
    /// matrix's intermediate arrays are alive.
    fn linear(&mut self, out: usize, inner: usize) -> Result<Linear> {
        let deviation = (inner as f32).sqrt().recip();
        let Some(format) = self.quantization else {
            // Uniform numbers in ±√3 have a variance of one.
            let bound = deviation * 3f32.sqrt();
            let key = self.next_key()?;
            let weight = random::uniform(-bound, bound, &[out, inner], self.dtype, Some(&key))?;
            mlx::eval(&[&weight])?;
            return Ok(Linear::dense(weight, None)?);
        };
        let words = random::bits(&[out, inner * format.bits / 32], 4, Some(&self.next_key()?))?;
        let levels = ((1u32 << format.bits) - 1) as f32;
        let scale = deviation * 12f32.sqrt() / levels;
        let shape = [out, inner / format.group_size];
        let key = self.next_key()?;
        let scales = random::uniform(0.9 * scale, 1.1 * scale, &shape, self.dtype, Some(&key))?;
        let biases = ops::multiply(&scales, -levels / 2.0)?;
        mlx::eval(&[&words, &scales, &biases, &self.key])?;
        Ok(Linear::quantized(words, scales, biases, format, None))
    }

    fn norm(&mut self, size: usize) -> Result<Array> {
        let key = self.next_key()?;
        let weight = random::uniform(0.9f32, 1.1f32, &[size], self.dtype, Some(&key))?;
        mlx::eval(&[&weight])?;
        Ok(weight)
    }

    fn block(&mut self, config: &ModelConfig) -> Result<Block> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        Ok(Block {
            attention_norm: self.norm(hidden)?,
            attention: self.attention(config)?,
            mlp_norm: self.norm(hidden)?,
            mlp: Mlp {
                gate: self.linear(inner, hidden)?,
                up: self.linear(inner, hidden)?,
                down: self.linear(hidden, inner)?,
            },
        })
    }

    fn attention(&mut self, config: &ModelConfig) -> Result<Attention> {
        let (hidden, dim) = (config.hidden_size, config.head_dim);
        let (queries, values) = (config.num_heads * dim, config.num_kv_heads * dim);
        let normed = config.family.has_qk_norm();
        Ok(Attention {
            q: self.linear(queries, hidden)?,
            k: self.linear(values, hidden)?,
            v: self.linear(values, hidden)?,
            o: self.linear(hidden, queries)?,
            q_norm: if normed { Some(self.norm(dim)?) } else { None },
            k_norm: if normed { Some(self.norm(dim)?) } else { None },
            heads: config.num_heads,
            kv_heads: config.num_kv_heads,
            head_dim: dim,
            eps: config.rms_norm_eps,
        })
    }
}
