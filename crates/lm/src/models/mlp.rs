//! The gated feed-forward block: one for all tokens, or experts that a router picks.

use mlx::{Array, Result, Tree, ops};

use super::{Linear, mixture::Mixture};

/// A layer's feed-forward block, whichever it has.
#[derive(Clone, Tree)]
pub(crate) enum FeedForward {
    Dense(Mlp),
    Mixture(Mixture),
}

impl FeedForward {
    /// (batch, tokens, hidden) to the same shape.
    pub(crate) fn forward(&self, x: &Array) -> Result<Array> {
        match self {
            Self::Dense(mlp) => mlp.forward(x),
            Self::Mixture(mixture) => mixture.forward(x),
        }
    }
}

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
        self.down.forward(&Activation::Silu.apply(&gate, &up)?)
    }
}

/// How a gate and what it lets through become one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Activation {
    /// `silu(gate) * up`.
    Silu,
    /// `gate * sigmoid(1.702 gate) * (up + 1)`, with gate and up clamped to this limit, the gate from above
    /// only (`swiglu_oai` of mlx_lm).
    Clamped { limit: f32 },
}

impl Activation {
    pub(super) fn apply(self, gate: &Array, up: &Array) -> Result<Array> {
        match self {
            Self::Silu => {
                let silu = ops::multiply(gate, &ops::sigmoid(gate)?)?;
                ops::multiply(&silu, up)
            }
            Self::Clamped { limit } => {
                let gate = ops::minimum(gate, limit)?;
                let up = ops::minimum(&ops::maximum(up, -limit)?, limit)?;
                let open = ops::sigmoid(&ops::multiply(1.702f32, &gate)?)?;
                ops::multiply(&ops::add(&up, 1.0f32)?, &ops::multiply(&gate, &open)?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What upstream's `swiglu_oai` says: the gate is clamped from above alone.
    #[test]
    fn a_clamped_activation_is_upstreams() {
        mlx::init();
        let gate = Array::from_slice(&[-9f32, -1.0, 0.5, 3.0, 7.5, 40.0], &[6]).unwrap();
        let up = Array::from_slice(&[2f32, -8.0, 0.25, -0.5, 9.0, 1.0], &[6]).unwrap();
        let got = Activation::Clamped { limit: 7.0 }.apply(&gate, &up).unwrap();
        let want = [-6.009_54e-6, 0.925_225_4, 0.437_985_54, 1.490_964_4, 55.999_626, 13.999_907];
        for (got, want) in got.to_vec::<f32>().unwrap().into_iter().zip(want) {
            assert!((got - want).abs() <= 1e-5 * f32::abs(want), "{got} {want}");
        }
    }
}
