//! Models with random weights, made on the device: speed does not care what the weights are.

use mlx::{Array, Dtype, ops, ops::FpMode, random};

use super::experts::CLAMPED;
use crate::{
    Result,
    config::{ExpertsConfig, Family, Format, ModelConfig, Quantization},
    models::{
        Activation, Attention, Block, Embedding, Experts, FeedForward, Linear, Mixture, Mlp, Rope,
        Transformer, Weight,
    },
};

/// A model of this shape with random weights: quantized, or dense in `dtype` without
/// `format`. Routers are quantized to 8 bits and gpt-oss's experts to mxfp4 in any case, as mlx_lm has
/// them. Activations stay in range, so that no number is infinite.
///
/// # Errors
/// When memory is out or the device fails.
pub fn random_model(
    config: ModelConfig,
    format: Option<Format>,
    dtype: Dtype,
    seed: u64,
) -> Result<Transformer> {
    let biased = config.family == Family::GptOss;
    let mut source = Source { key: random::key(seed)?, format, dtype, biased };
    let (vocab, hidden) = (config.vocab_size, config.hidden_size);
    let tokens = source.plain(vocab, hidden)?;
    let tied = config.tied_embeddings.unwrap_or(true);
    let head = if tied { None } else { Some(source.plain(vocab, hidden)?) };
    let blocks = (0..config.num_layers).map(|i| source.block(&config, i)).collect::<Result<_>>()?;
    let norm = source.norm(hidden)?;
    let rope = Rope::new(&config.rope, config.head_dim)?;
    Ok(Transformer { config, embedding: Embedding { tokens, head }, blocks, norm, rope })
}

struct Source {
    key: Array,
    format: Option<Format>,
    dtype: Dtype,
    /// Whether all products of the layers have biases.
    biased: bool,
}

impl Source {
    fn next_key(&mut self) -> Result<Array> {
        let (rest, key) = random::split(&self.key)?;
        self.key = rest;
        Ok(key)
    }

    /// Uniform numbers around `middle`, up to `bound` away from it.
    fn uniform(&mut self, middle: f32, bound: f32, shape: &[usize]) -> Result<Array> {
        let key = self.next_key()?;
        let numbers =
            random::uniform(middle - bound, middle + bound, shape, self.dtype, Some(&key))?;
        mlx::eval(&[&numbers])?;
        Ok(numbers)
    }

    fn norm(&mut self, size: usize) -> Result<Array> {
        self.uniform(1.0, 0.1, &[size])
    }

    /// A product of the layers.
    fn linear(&mut self, out: usize, inner: usize) -> Result<Linear> {
        self.product(out, inner, self.biased)
    }

    /// The product that makes queries, keys or values.
    fn projection(&mut self, out: usize, config: &ModelConfig) -> Result<Linear> {
        let biased = self.biased || config.family == Family::Qwen2;
        self.product(out, config.hidden_size, biased)
    }

    /// A product without a bias.
    fn plain(&mut self, out: usize, inner: usize) -> Result<Linear> {
        self.product(out, inner, false)
    }

    fn product(&mut self, out: usize, inner: usize, biased: bool) -> Result<Linear> {
        let weight = self.weight(&[out, inner], self.format)?;
        Ok(Linear::new(weight, self.bias(biased, &[out])?))
    }

    fn bias(&mut self, biased: bool, shape: &[usize]) -> Result<Option<Array>> {
        if biased { self.uniform(0.0, 0.1, shape).map(Some) } else { Ok(None) }
    }

    /// Weights (…, out, in) with a variance of about `1 / in`. Evaluated at once, so that no more than one
    /// stack's intermediate arrays are alive. What a format's groups do not divide stays dense, as in mlx_lm.
    fn weight(&mut self, shape: &[usize], format: Option<Format>) -> Result<Weight> {
        let (rows, inner) = (&shape[..shape.len() - 1], shape[shape.len() - 1]);
        let deviation = (inner as f32).sqrt().recip();
        let columns = |columns: usize| [rows, &[columns]].concat();
        match format.filter(|format| inner.is_multiple_of(format.group_size())) {
            // Uniform numbers in ±√3 have a variance of one.
            None => Ok(Weight::dense(self.uniform(0.0, deviation * 3f32.sqrt(), shape)?)?),
            Some(Format::Affine(format)) => {
                let words = self.words(&columns(inner * format.bits / 32))?;
                let levels = ((1u32 << format.bits) - 1) as f32;
                let scale = deviation * 12f32.sqrt() / levels;
                let groups = columns(inner / format.group_size);
                let scales = self.uniform(scale, 0.1 * scale, &groups)?;
                let biases = ops::multiply(&scales, -levels / 2.0)?;
                mlx::eval(&[&biases])?;
                Ok(Weight::Affine { words, scales, biases, format })
            }
            Some(Format::Floats(mode)) => {
                let words = self.words(&columns(inner * mode.bits() / 32))?;
                let scales = self.scales(mode, deviation, &columns(inner / mode.group_size()))?;
                Ok(Weight::Floats { words, scales, mode, dtype: self.dtype })
            }
        }
    }

    fn words(&mut self, shape: &[usize]) -> Result<Array> {
        let words = random::bits(shape, 4, Some(&self.next_key()?))?;
        mlx::eval(&[&words, &self.key])?;
        Ok(words)
    }

    /// Scales of small floats whose codes are random, all of them numbers, for a deviation of about this: the
    /// two codes next to the wanted scale.
    fn scales(&mut self, mode: FpMode, deviation: f32, shape: &[usize]) -> Result<Array> {
        let codes = 1u32 << mode.bits();
        let squares: f32 = (0..codes).map(|code| mode.element(code as u8).powi(2)).sum();
        let spread = (squares / codes as f32).sqrt();
        let wanted = deviation / spread;
        let above = (0..=254u8).find(|code| mode.scale(*code) > wanted).unwrap_or(1);
        let either = random::bits(shape, 1, Some(&self.next_key()?))?;
        let one = Array::scalar(1u8)?;
        let scales = ops::subtract(&Array::scalar(above)?, &ops::bitwise_and(&either, &one)?)?;
        mlx::eval(&[&scales, &self.key])?;
        Ok(scales)
    }

    fn block(&mut self, config: &ModelConfig, layer: usize) -> Result<Block> {
        let hidden = config.hidden_size;
        Ok(Block {
            attention_norm: self.norm(hidden)?,
            attention: self.attention(config)?,
            mlp_norm: self.norm(hidden)?,
            mlp: self.feed_forward(config, layer)?,
        })
    }

    fn feed_forward(&mut self, config: &ModelConfig, layer: usize) -> Result<FeedForward> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        if let Some(experts) = config.experts_of(layer) {
            return self.mixture(config, experts).map(FeedForward::Mixture);
        }
        Ok(FeedForward::Dense(Mlp {
            gate: self.linear(inner, hidden)?,
            up: self.linear(inner, hidden)?,
            down: self.linear(hidden, inner)?,
        }))
    }

    fn mixture(&mut self, config: &ModelConfig, experts: &ExpertsConfig) -> Result<Mixture> {
        let (count, hidden, width) = (experts.count, config.hidden_size, experts.width);
        let gpt_oss = config.family == Family::GptOss;
        let eight = self.format.map(|_| Format::Affine(Quantization { group_size: 64, bits: 8 }));
        let format = if gpt_oss { Some(Format::Floats(FpMode::Mxfp4)) } else { self.format };
        let router =
            Linear::new(self.weight(&[count, hidden], eight)?, self.bias(self.biased, &[count])?);
        let mut stack = |out, inner| -> Result<Experts> {
            let weight = self.weight(&[count, out, inner], format)?;
            Ok(Experts::new(weight, self.bias(self.biased, &[count, out])?))
        };
        let stacks = [stack(width, hidden)?, stack(width, hidden)?, stack(hidden, width)?];
        let activation = if gpt_oss { CLAMPED } else { Activation::Silu };
        Ok(Mixture::new(router, stacks, experts.per_token, experts.scores, activation))
    }

    fn attention(&mut self, config: &ModelConfig) -> Result<Attention> {
        let (hidden, dim) = (config.hidden_size, config.head_dim);
        let (queries, values) = (config.num_heads * dim, config.num_kv_heads * dim);
        let normed = config.family.has_qk_norm();
        let sinks = config.family.has_sinks();
        Ok(Attention {
            q: self.projection(queries, config)?,
            k: self.projection(values, config)?,
            v: self.projection(values, config)?,
            o: self.linear(hidden, queries)?,
            q_norm: if normed { Some(self.norm(dim)?) } else { None },
            k_norm: if normed { Some(self.norm(dim)?) } else { None },
            sinks: if sinks { Some(self.norm(config.num_heads)?) } else { None },
            heads: config.num_heads,
            kv_heads: config.num_kv_heads,
            head_dim: dim,
            eps: config.rms_norm_eps,
            scale: config.attention_scale(),
        })
    }
}
