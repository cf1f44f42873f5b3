//! Mixtures of experts: a router picks a few of many feed-forward blocks for each token.

use std::ops::RangeInclusive;

use mlx::{
    Array, Dtype, Result, Tree,
    backend::{InfoValue, backend_for},
    default_device, ops,
};

use super::{Linear, mlp::Activation, weight::Weight};
use crate::config::Scores;

/// Bounds of how many picks a GPU multiplies sooner one by one than sorted by their experts, where an
/// expert's weights are read once for all of its tokens: as many as there are experts, few of which have
/// several then. What sorts is a score of small operations. `SwitchGLU` of mlx_lm sorts from 64 on.
const ONE_BY_ONE: RangeInclusive<usize> = 64..=128;

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
    /// Picks up to which nothing is sorted.
    #[tree(skip)]
    most_unsorted: usize,
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

    /// Rows `x` (…, 1, in) through the experts that `picked` names for their leading axes, with which it
    /// broadcasts.
    fn forward(&self, x: &Array, picked: &Array, sorted: bool) -> Result<Array> {
        let y = self.weight.gathered_product(x, picked, sorted)?;
        match &self.bias {
            Some(bias) => ops::add(&y, &ops::expand_dims(&ops::take(bias, picked, 0)?, &[-2])?),
            None => Ok(y),
        }
    }
}

impl Mixture {
    /// The experts' blocks `[gate, up, down]`, of which the router picks `per_token`.
    pub(crate) fn new(
        router: Linear,
        [gate, up, down]: [Experts; 3],
        per_token: usize,
        scores: Scores,
        activation: Activation,
    ) -> Self {
        let experts = gate.weight.stacked();
        let any_order = [&gate, &up, &down].iter().all(|experts| experts.weight.fits_any_order());
        let most = if any_order { unsorted_picks(experts) } else { 0 };
        let most_unsorted = most.max(experts.clamp(*ONE_BY_ONE.start(), *ONE_BY_ONE.end()));
        Mixture { router, gate, up, down, per_token, scores, activation, most_unsorted }
    }

    /// (batch, tokens, hidden) to the same shape.
    pub(crate) fn forward(&self, x: &Array) -> Result<Array> {
        let (picked, scores) = self.route(x)?;
        self.weighted(x, &picked, &scores, picked.size() > self.most_unsorted)
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
            Scores::OfAll { normalized: false } => ops::softmax(&logits, &[-1], true)?,
            // The picked ones' part of all is a softmax over them.
            Scores::OfAll { normalized: true } | Scores::OfPicked => logits,
        };
        let (axis, count) = (all.ndim() as isize - 1, all.dim(-1) as isize);
        let order = ops::argpartition(&all, -(self.per_token as isize), -1)?;
        let picked = ops::slice_axis(&order, axis, count - self.per_token as isize, count)?;
        let values = ops::take_along_axis(&all, &picked, -1)?;
        let shares = match self.scores {
            Scores::OfAll { normalized: false } => values,
            Scores::OfAll { normalized: true } | Scores::OfPicked => {
                ops::softmax(&values, &[-1], true)?
            }
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
        let order = self.order(&flat)?;
        let tokens = ops::floor_divide(&order, &Array::scalar(per_token as u32)?)?;
        let rows = ops::take(&ops::reshape(x, &[-1, 1, hidden])?, &tokens, 0)?;
        let y = self.products(&rows, &ops::take(&flat, &order, 0)?, true)?;
        let back = ops::take(&y, &inverse(&order)?, 0)?;
        let shape = [x.dim(0) as isize, x.dim(1) as isize, per_token as isize, hidden];
        ops::reshape(&back, &shape)
    }

    /// The order in which picked experts ascend. What fits into a byte is sorted in fewer passes.
    fn order(&self, picked: &Array) -> Result<Array> {
        let narrow = if self.gate.weight.stacked() <= 256 { Dtype::Uint8 } else { picked.dtype() };
        ops::argsort(&ops::astype(picked, narrow)?, 0)
    }
}

/// Picks up to which the default device multiplies all of an expert's together, in whatever order they are.
fn unsorted_picks(experts: usize) -> usize {
    let device = default_device();
    let info = backend_for(device).and_then(|backend| backend.device_info(device.index));
    let number = |key| match info.as_ref().ok()?.get(key) {
        Some(InfoValue::Number(number)) => Some(*number as usize),
        _ => None,
    };
    let most = number("unsorted_picks").zip(number("unsorted_picks_each"));
    most.map_or(0, |(all, each)| all.min(experts.saturating_mul(each)))
}

/// Where each index stands in an order of all of them.
fn inverse(order: &Array) -> Result<Array> {
    let places = ops::arange(0.0, order.size() as f64, 1.0, order.dtype())?;
    ops::put_along_axis(&ops::zeros_like(order)?, order, &places, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlx::{Device, Dtype, random};

    fn noise(seed: u64, shape: &[usize]) -> Array {
        let key = random::key(seed).unwrap();
        random::normal(shape, Dtype::Float32, 0.0, 0.3, Some(&key)).unwrap()
    }

    fn experts(seed: u64, shape: &[usize], biased: bool) -> Experts {
        let bias = biased.then(|| noise(seed + 100, &shape[..2]));
        Experts::new(Weight::dense(noise(seed, shape)).unwrap(), bias)
    }

    fn mixture(scores: Scores, biased: bool) -> Mixture {
        let experts = [(2, [5, 24, 16]), (3, [5, 24, 16]), (4, [5, 16, 24])]
            .map(|(seed, shape)| experts(seed, &shape, biased));
        let router = Linear::new(Weight::dense(noise(1, &[5, 16])).unwrap(), None);
        Mixture::new(router, experts, 2, scores, Activation::Silu)
    }

    fn numbers(a: &Array) -> Vec<f32> {
        a.to_vec().unwrap()
    }

    #[track_caller]
    fn assert_close(got: &[f32], want: &[f32], what: &str) {
        assert_eq!(got.len(), want.len(), "{what}");
        let worst = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 1e-5, "{what}: differs by {worst}");
    }

    /// What every expert says of every token, (experts, tokens, hidden), by plain products.
    fn of_all(mixture: &Mixture, x: &Array) -> Array {
        let product = |x: &Array, experts: &Experts| {
            let rows = experts.weight.matrices(Dtype::Float32).unwrap();
            let y = ops::matmul(x, &ops::swapaxes(&rows, -1, -2).unwrap()).unwrap();
            match &experts.bias {
                Some(bias) => ops::add(&y, ops::expand_dims(bias, &[1]).unwrap()).unwrap(),
                None => y,
            }
        };
        let (gate, up) = (product(x, &mixture.gate), product(x, &mixture.up));
        product(&mixture.activation.apply(&gate, &up).unwrap(), &mixture.down)
    }

    /// The sum over the largest two scores of each token, in loops.
    fn by_hand(mixture: &Mixture, x: &Array) -> Vec<f32> {
        let said = numbers(&of_all(mixture, x));
        let logits = numbers(&mixture.router.forward(x).unwrap());
        let (tokens, hidden) = (x.dim(0), x.dim(1));
        let mut out = vec![0.0; tokens * hidden];
        for (token, logits) in logits.chunks(5).enumerate() {
            let mut order: Vec<usize> = (0..5).collect();
            order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
            let picked = &order[..2];
            let all: f32 = logits.iter().map(|x| x.exp()).sum();
            let of_picked: f32 = picked.iter().map(|i| logits[*i].exp()).sum();
            let total = match mixture.scores {
                Scores::OfAll { normalized: false } => all,
                _ => of_picked,
            };
            for expert in picked {
                let share = logits[*expert].exp() / total;
                let said = &said[(expert * tokens + token) * hidden..][..hidden];
                for (out, said) in out[token * hidden..].iter_mut().zip(said) {
                    *out += share * said;
                }
            }
        }
        out
    }

    /// In either order, and by hand: for few tokens, and for so many that they are sorted.
    #[test]
    fn experts_are_picked_and_weighed() {
        mlx::init();
        let scores = [
            Scores::OfAll { normalized: true },
            Scores::OfAll { normalized: false },
            Scores::OfPicked,
        ];
        for device in [Device::CPU, default_device()] {
            mlx::with_device(device, || {
                for (scores, biased, tokens) in
                    scores.iter().flat_map(|s| [(*s, true, 3), (*s, false, 40)])
                {
                    let what = format!("{scores:?} of {tokens} tokens on {device}");
                    let mixture = mixture(scores, biased);
                    let x = noise(9, &[tokens, 16]);
                    let want = by_hand(&mixture, &x);
                    let x = ops::reshape(&x, &[1, tokens as isize, 16]).unwrap();
                    assert_close(&numbers(&mixture.forward(&x).unwrap()), &want, &what);
                    let (picked, shares) = mixture.route(&x).unwrap();
                    for sorted in [false, true] {
                        let y = mixture.weighted(&x, &picked, &shares, sorted).unwrap();
                        assert_eq!(y.shape(), x.shape());
                        assert_close(&numbers(&y), &want, &format!("{what}, sorted {sorted}"));
                    }
                }
            })
            .unwrap();
        }
    }
}
