//! Mixtures of experts: a router picks a few of many feed-forward blocks for each token.

use mlx::{Array, Result, Tree, ops};

use super::{Linear, mlp::Activation, weight::Weight};
use crate::config::Scores;

/// Picks from which on tokens are sorted by their experts, so that an expert's weights are read once for all
/// of its tokens (`SwitchGLU` of mlx_lm).
const SORTED_FROM: usize = 64;

/// The experts' blocks, and the router that picks `per_token` of them and weighs what they say.
#[derive(Clone, Tree)]
pub(crate) struct Mixture {
    pub(crate) router: Linear,
    pub(crate) gate: Experts,
    pub(crate) up: Experts,
    pub(crate) down: Experts,
    #[tree(skip)]
    pub(crate) per_token: usize,
    #[tree(skip)]
    pub(crate) scores: Scores,
    #[tree(skip)]
    pub(crate) activation: Activation,
}

/// One product of all experts: weights (experts, out, in) and biases (experts, out).
#[derive(Clone, Tree)]
pub(crate) struct Experts {
    weight: Weight,
    bias: Option<Array>,
}

impl Experts {
    /// Weights (experts, out, in), and biases (experts, out).
    pub(crate) fn new(weight: Weight, bias: Option<Array>) -> Self {
        Self { weight, bias }
    }

    /// The weights of all experts.
    pub(crate) fn weight(&self) -> &Weight {
        &self.weight
    }

    /// Rows `x` (…, 1, in) through the picked experts: `picked` has the leading axes, or broadcasts with them.
    fn forward(&self, x: &Array, picked: &Array, sorted: bool) -> Result<Array> {
        let y = self.weight.gathered_product(x, picked, sorted)?;
        match &self.bias {
            Some(bias) => ops::add(&y, &ops::expand_dims(&ops::take(bias, picked, 0)?, &[-2])?),
            None => Ok(y),
        }
    }
}

impl Mixture {
    /// (batch, tokens, hidden) to the same shape.
    pub(crate) fn forward(&self, x: &Array) -> Result<Array> {
        let (picked, scores) = self.route(x)?;
        self.weighted(x, &picked, &scores, picked.size() >= SORTED_FROM)
    }

    /// What the picked experts say of `x`, weighed and summed.
    fn weighted(&self, x: &Array, picked: &Array, scores: &Array, sorted: bool) -> Result<Array> {
        let y = if sorted { self.sorted(x, picked)? } else { self.unsorted(x, picked)? };
        ops::sum(&ops::multiply(&y, &ops::expand_dims(scores, &[-1])?)?, &[-2], false)
    }

    /// Indices of the experts of each token and their shares, both (batch, tokens, per token), in no order.
    fn route(&self, x: &Array) -> Result<(Array, Array)> {
        let logits = self.router.forward(x)?;
        let all = match self.scores {
            Scores::OfAll { .. } => ops::softmax(&logits, &[-1], true)?,
            Scores::OfPicked => logits,
        };
        let (axis, count) = (all.ndim() as isize - 1, all.dim(-1) as isize);
        let order = ops::argpartition(&all, -(self.per_token as isize), -1)?;
        let picked = ops::slice_axis(&order, axis, count - self.per_token as isize, count)?;
        let values = ops::take_along_axis(&all, &picked, -1)?;
        let shares = match self.scores {
            Scores::OfAll { normalized: false } => values,
            Scores::OfAll { normalized: true } => {
                ops::divide(&values, &ops::sum(&values, &[-1], true)?)?
            }
            Scores::OfPicked => ops::softmax(&values, &[-1], true)?,
        };
        Ok((picked, shares))
    }

    /// (…, 1, hidden) through the picked experts.
    fn products(&self, x: &Array, picked: &Array, sorted: bool) -> Result<Array> {
        let up = self.up.forward(x, picked, sorted)?;
        let gate = self.gate.forward(x, picked, sorted)?;
        self.down.forward(&self.activation.apply(&gate, &up)?, picked, sorted)
    }

    /// What each picked expert says, (batch, tokens, per token, hidden).
    fn unsorted(&self, x: &Array, picked: &Array) -> Result<Array> {
        let y = self.products(&ops::expand_dims(x, &[-2, -3])?, picked, false)?;
        ops::squeeze(&y, &[-2])
    }

    /// The same by way of rows in the order of their experts.
    fn sorted(&self, x: &Array, picked: &Array) -> Result<Array> {
        let (hidden, per_token) = (x.dim(-1) as isize, picked.dim(-1));
        let flat = ops::reshape(picked, &[-1])?;
        let order = ops::argsort(&flat, 0)?;
        let tokens = ops::floor_divide(&order, &Array::scalar(per_token as u32)?)?;
        let rows = ops::take(&ops::reshape(x, &[-1, 1, hidden])?, &tokens, 0)?;
        let y = self.products(&rows, &ops::take(&flat, &order, 0)?, true)?;
        let back = ops::take(&y, &ops::argsort(&order, 0)?, 0)?;
        let shape = [x.dim(0) as isize, x.dim(1) as isize, per_token as isize, hidden];
        ops::reshape(&back, &shape)
    }
}
