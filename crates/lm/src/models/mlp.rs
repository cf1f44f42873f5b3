//! The gated feed-forward block.

use mlx::{Array, Result, Tree, ops};

use super::Linear;

/// `down(silu(gate(x)) * up(x))`.
#[derive(Clone, Tree)]
pub(crate) struct Mlp {
    pub(crate) gate: Linear,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
}

impl Mlp {
    pub(crate) fn forward(&self, x: &Array) -> Result<Array> {
        let gate = self.gate.forward(x)?;
        let up = self.up.forward(x)?;
        let silu = ops::multiply(&gate, &ops::sigmoid(&gate)?)?;
        self.down.forward(&ops::multiply(&silu, &up)?)
    }
}
