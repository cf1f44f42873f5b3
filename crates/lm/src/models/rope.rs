//! Rotary position embedding with the frequencies of a configuration.

use mlx::{Array, Result, fast};

use crate::config::RopeConfig;

/// Rotates queries and keys by their positions.
#[derive(Clone)]
pub(crate) struct Rope {
    dims: usize,
    traditional: bool,
    scale: f32,
    /// Base of the frequencies, unless `inverse` lists them.
    base: Option<f32>,
    inverse: Option<Array>,
}

impl Rope {
    /// For heads of `dims` features.
    pub(crate) fn new(config: &RopeConfig, dims: usize) -> Result<Self> {
        let inverse = match config.inverse_frequencies(dims) {
            Some(list) => Some(Array::from_slice(&list, &[list.len()])?),
            None => None,
        };
        let base = inverse.is_none().then_some(config.base);
        Ok(Self { dims, traditional: config.traditional, scale: config.scale(), base, inverse })
    }

    /// Rotates `x` (batch, heads, tokens, features), whose first token is at `offset`.
    pub(crate) fn forward(&self, x: &Array, offset: &Array) -> Result<Array> {
        let freqs = self.inverse.as_ref();
        fast::rope(x, self.dims, self.traditional, self.base, self.scale, offset, freqs)
    }
}
