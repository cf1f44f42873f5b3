//! The decoder-only transformer that Llama and Qwen share.

use mlx::{Array, Tree, fast, ops};

use super::{
    Cache, Linear, attention::Attention, cache::Layer as CacheLayer, embedding::Embedding,
    mlp::Mlp, rope::Rope,
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
    pub(crate) mlp: Mlp,
}

impl Block {
    fn forward(
        &self,
        x: &Array,
        rope: &Rope,
        offset: &Array,
        cache: &mut CacheLayer,
        eps: f32,
    ) -> Result<Array> {
        let normed = fast::rms_norm(x, Some(&self.attention_norm), eps)?;
        let x = ops::add(x, &self.attention.forward(&normed, rope, offset, cache)?)?;
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
        Cache::new(self.blocks.len())
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
        let mut x = self.embedding.embed(tokens)?;
        for (block, cache) in self.blocks.iter().zip(cache.layers_mut()) {
            x = block.forward(&x, &self.rope, &offset, cache, self.config.rms_norm_eps)?;
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
