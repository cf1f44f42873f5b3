//! The decoder-only transformer that all families share.

use mlx::{Array, Tree, fast, fast::Mask, ops};

use super::{
    Cache, Linear,
    attention::{Attention, window_mask},
    cache::Layer as CacheLayer,
    embedding::Embedding,
    mlp::FeedForward,
    rope::Rope,
};
use crate::{Result, config::ModelConfig};

/// A language model: token ids in, logits out.
#[derive(Clone, Tree)]
pub struct Transformer {
    #[tree(skip)]
    pub(crate) config: ModelConfig,
    pub(crate) embedding: Embedding,
    pub(crate) blocks: Vec<Block>,
    pub(crate) norm: Array,
    #[tree(skip)]
    pub(crate) rope: Rope,
}

/// One layer: attention and feed-forward, each behind a norm and beside a residual.
#[derive(Clone, Tree)]
pub(crate) struct Block {
    pub(crate) attention_norm: Array,
    pub(crate) attention: Attention,
    pub(crate) mlp_norm: Array,
    pub(crate) mlp: FeedForward,
}

impl Block {
    fn forward(
        &self,
        x: &Array,
        rope: &Rope,
        offset: &Array,
        mask: Mask<'_>,
        cache: &mut CacheLayer,
        eps: f32,
    ) -> Result<Array> {
        let normed = fast::rms_norm(x, Some(&self.attention_norm), eps)?;
        let x = ops::add(x, &self.attention.forward(&normed, rope, offset, mask, cache)?)?;
        let normed = fast::rms_norm(&x, Some(&self.mlp_norm), eps)?;
        Ok(ops::add(&x, &self.mlp.forward(&normed)?)?)
    }
}

impl Transformer {
    /// What the model looks like.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// An empty cache for this model.
    pub fn new_cache(&self) -> Cache {
        Cache::with_windows((0..self.blocks.len()).map(|layer| self.config.window_of(layer)))
    }

    /// Logits (batch, tokens, vocabulary) of all `tokens` (batch, tokens), which follow those in
    /// the cache.
    ///
    /// # Errors
    /// When the array operations fail.
    pub fn forward(&self, tokens: &Array, cache: &mut Cache) -> Result<Array> {
        let x = self.hidden(tokens, cache)?;
        self.logits(&x)
    }

    /// Logits (batch, vocabulary) of the last token alone.
    ///
    /// # Errors
    /// When the array operations fail.
    pub fn forward_last(&self, tokens: &Array, cache: &mut Cache) -> Result<Array> {
        let x = self.hidden(tokens, cache)?;
        let last = x.dim(1) as isize;
        let logits = self.logits(&ops::slice_axis(&x, 1, last - 1, last)?)?;
        Ok(ops::squeeze(&logits, &[1])?)
    }

    /// Features (batch, tokens, hidden) after the last layer; fills the cache.
    fn hidden(&self, tokens: &Array, cache: &mut Cache) -> Result<Array> {
        let offset = Array::scalar(cache.len() as i32)?;
        let (new, eps) = (tokens.dim(1), self.config.rms_norm_eps);
        let window = self.config.window.as_ref();
        let window = window.map(|w| window_mask(new, cache.len(), w.tokens)).transpose()?.flatten();
        let mut x = self.embedding.embed(tokens)?;
        for (layer, (block, cache)) in self.blocks.iter().zip(cache.layers_mut()).enumerate() {
            // A single query sees everything that is shown; order matters between several.
            let mask = match window.as_ref().filter(|_| self.config.window_of(layer).is_some()) {
                Some(window) => Mask::Array(window),
                None if new > 1 => Mask::Causal,
                None => Mask::None,
            };
            x = block.forward(&x, &self.rope, &offset, mask, cache, eps)?;
        }
        Ok(x)
    }

    fn logits(&self, x: &Array) -> Result<Array> {
        let x = fast::rms_norm(x, Some(&self.norm), self.config.rms_norm_eps)?;
        Ok(self.embedding.logits(&x)?)
    }

    /// Bytes of all weights.
    pub fn nbytes(&self) -> usize {
        self.arrays().into_iter().map(Array::nbytes).sum()
    }

    /// The embedding's matrix, which tells the model's dtype.
    pub fn embedding(&self) -> &Linear {
        &self.embedding.tokens
    }
}
