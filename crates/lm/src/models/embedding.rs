//! Token embeddings, and the output head that may be the same matrix.

use mlx::{Array, Result, Tree};

use super::Linear;

/// The embedding and the head; a tied head is the embedding used the other way round.
#[derive(Clone, Tree)]
pub(crate) struct Embedding {
    pub(crate) tokens: Linear,
    pub(crate) head: Option<Linear>,
}

impl Embedding {
    /// Features (…, hidden) of token ids (…).
    pub(crate) fn embed(&self, ids: &Array) -> Result<Array> {
        self.tokens.rows(ids)
    }

    /// Logits (…, vocabulary) of features (…, hidden).
    pub(crate) fn logits(&self, x: &Array) -> Result<Array> {
        self.head.as_ref().unwrap_or(&self.tokens).forward(x)
    }
}
