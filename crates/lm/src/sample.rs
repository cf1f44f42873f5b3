//! Choosing the next token, as lazy array operations: the token stays on the device, so that the
//! next one can be encoded before it is read.
//!
//! The filters are those of `mlx_lm.sample_utils`: top-p, min-p and top-k in this order on log
//! probabilities, then a draw at the temperature; temperature zero takes the largest logit.

use mlx::{Array, Dtype, ops, random};

use crate::{Error, Result};

/// How tokens are chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplerConfig {
    /// Zero takes the most likely token; higher is more random.
    pub temperature: f32,
    /// Keeps the most likely tokens whose probabilities sum to this; 1 (or 0) keeps all.
    pub top_p: f32,
    /// Keeps this many of the most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps tokens at least this likely, relative to the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of recent tokens; 1 leaves them.
    pub repetition_penalty: f32,
    /// How many recent tokens the penalty looks at.
    pub repetition_context: usize,
    /// Seed of the draws; without it they differ from run to run.
    pub seed: Option<u64>,
}

impl Default for SamplerConfig {
    /// Greedy, as mlx_lm's defaults.
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            repetition_context: 20,
            seed: None,
        }
    }
}

impl SamplerConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the argument that is outside of its range.
    pub fn check(&self) -> Result<()> {
        let range = |name, value: f32, ok: bool, wanted: &str| match ok && value.is_finite() {
            true => Ok(()),
            false => Err(Error::argument(name, format!("{value} is not {wanted}"))),
        };
        let unit = 0.0..=1.0;
        range("temp", self.temperature, self.temperature >= 0.0, "zero or more")?;
        range("top-p", self.top_p, unit.contains(&self.top_p), "between 0 and 1")?;
        range("min-p", self.min_p, unit.contains(&self.min_p), "between 0 and 1")?;
        let penalty = self.repetition_penalty;
        range("repetition-penalty", penalty, penalty > 0.0, "above zero")
    }

    fn penalizes(&self) -> bool {
        self.repetition_penalty != 1.0 && self.repetition_context > 0
    }
}

/// Chooses tokens one after the other.
pub struct Sampler {
    config: SamplerConfig,
    key: Array,
    /// The recent tokens, if the penalty looks at them.
    recent: Option<Array>,
}

impl Sampler {
    /// A sampler for a sequence that starts with `prompt`.
    ///
    /// # Errors
    /// When a value of the configuration is outside of its range.
    pub fn new(config: SamplerConfig, prompt: &[u32]) -> Result<Self> {
        config.check()?;
        let seed = config.seed.unwrap_or_else(|| {
            std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_nanos() as u64)
        });
        let first = prompt.len().saturating_sub(config.repetition_context);
        let tail = &prompt[first..];
        let recent = match config.penalizes() {
            true => Some(Array::from_slice(tail, &[tail.len()])?),
            false => None,
        };
        Ok(Self { key: random::key(seed)?, config, recent })
    }

    /// The next token, uint32 of shape (1,), for `logits` of shape (1, vocabulary).
    ///
    /// # Errors
    /// When the array operations fail.
    pub fn sample(&mut self, logits: &Array) -> Result<Array> {
        let logits = match &self.recent {
            Some(recent) => penalize(logits, recent, self.config.repetition_penalty)?,
            None => logits.clone(),
        };
        let token = match self.config.temperature {
            0.0 => ops::argmax(&logits, Some(-1), false)?,
            temperature => self.draw(&logits, temperature)?,
        };
        if let Some(recent) = self.recent.take() {
            self.recent = Some(remember(&recent, &token, self.config.repetition_context)?);
        }
        Ok(token)
    }

    fn draw(&mut self, logits: &Array, temperature: f32) -> Result<Array> {
        let logits = ops::astype(logits, Dtype::Float32)?;
        let logprobs = ops::subtract(&logits, &ops::logsumexp(&logits, &[-1], true)?)?;
        let kept = filter(&logprobs, &self.config)?;
        let (rest, key) = random::split(&self.key)?;
        self.key = rest;
        let scaled = ops::multiply(&kept, temperature.recip())?;
        Ok(random::categorical(&scaled, -1, Some(&key))?)
    }
}

/// Log probabilities with those of refused tokens at minus infinity.
fn filter(logprobs: &Array, config: &SamplerConfig) -> Result<Array> {
    let vocabulary = logprobs.dim(-1);
    let top_p = config.top_p > 0.0 && config.top_p < 1.0;
    let top_k = config.top_k > 0 && config.top_k < vocabulary;
    let mut kept = logprobs.clone();
    if top_p || top_k {
        // Rank 0 is the least likely token. Filters only ever remove the lowest ranks, so the
        // ranks hold for both.
        let order = ops::argsort(logprobs, -1)?;
        let ranks = ops::argsort(&order, -1)?;
        if top_p {
            let probabilities = ops::take_along_axis(&ops::exp(logprobs)?, &order, -1)?;
            let sums = ops::cumsum(&probabilities, Some(-1), false, true, None)?;
            let sums = ops::take_along_axis(&sums, &ranks, -1)?;
            kept = keep(&ops::greater(&sums, 1.0 - config.top_p)?, &kept)?;
        }
        if top_k {
            let lowest = Array::scalar((vocabulary - config.top_k) as u32)?;
            kept = keep(&ops::greater_equal(&ranks, &lowest)?, &kept)?;
        }
    }
    if config.min_p > 0.0 {
        let threshold = ops::add(&ops::max(logprobs, &[-1], true)?, config.min_p.ln())?;
        kept = keep(&ops::greater_equal(logprobs, &threshold)?, &kept)?;
    }
    Ok(kept)
}

fn keep(condition: &Array, logprobs: &Array) -> Result<Array> {
    Ok(ops::where_(condition, logprobs, f32::NEG_INFINITY)?)
}

/// Makes recent tokens less likely.
fn penalize(logits: &Array, recent: &Array, penalty: f32) -> Result<Array> {
    if recent.size() == 0 {
        return Ok(logits.clone());
    }
    let vocabulary = ops::arange(0.0, logits.dim(-1) as f64, 1.0, Dtype::Uint32)?;
    let matches = ops::equal(&ops::expand_dims(recent, &[1])?, &vocabulary)?;
    let seen = ops::any(&matches, &[0], false)?;
    let negative = ops::less(logits, 0.0f32)?;
    let (lower, higher) = (ops::multiply(logits, penalty)?, ops::divide(logits, penalty)?);
    let penalized = ops::where_(&negative, &lower, &higher)?;
    Ok(ops::where_(&seen, &penalized, logits)?)
}

/// The recent tokens with the new one.
fn remember(recent: &Array, token: &Array, context: usize) -> Result<Array> {
    let all = ops::concatenate(&[recent, token], 0)?;
    let len = all.dim(0);
    Ok(ops::slice_axis(&all, 0, len.saturating_sub(context) as isize, len as isize)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logits(values: &[f32]) -> Array {
        mlx::init();
        Array::from_slice(values, &[1, values.len()]).unwrap()
    }

    /// Which tokens a filter keeps, for probabilities 0.1, 0.4, 0.2, 0.3.
    fn kept(config: SamplerConfig) -> Vec<bool> {
        let logprobs = logits(&[0.1f32, 0.4, 0.2, 0.3].map(f32::ln));
        let out = mlx::with_device(mlx::Device::CPU, || filter(&logprobs, &config).unwrap());
        out.unwrap().to_vec::<f32>().unwrap().into_iter().map(f32::is_finite).collect()
    }

    #[test]
    fn filters_keep_the_likely_tokens() {
        let config = SamplerConfig::default;
        assert_eq!(kept(config()), [true; 4]);
        assert_eq!(kept(SamplerConfig { top_k: 2, ..config() }), [false, true, false, true]);
        assert_eq!(kept(SamplerConfig { top_p: 0.8, ..config() }), [false, true, true, true]);
        assert_eq!(kept(SamplerConfig { top_p: 0.35, ..config() }), [false, true, false, false]);
        assert_eq!(kept(SamplerConfig { min_p: 0.6, ..config() }), [false, true, false, true]);
    }

    fn run(config: SamplerConfig, prompt: &[u32], values: &[f32], n: usize) -> Vec<u32> {
        let logits = logits(values);
        mlx::with_device(mlx::Device::CPU, || {
            let mut sampler = Sampler::new(config, prompt).unwrap();
            (0..n).map(|_| sampler.sample(&logits).unwrap().item::<u32>().unwrap()).collect()
        })
        .unwrap()
    }

    #[test]
    fn greedy_takes_the_largest_and_the_penalty_moves_it() {
        let values = [1.0, 3.0, 2.0, -1.0];
        assert_eq!(run(SamplerConfig::default(), &[], &values, 2), [1, 1]);
        let config = SamplerConfig { repetition_penalty: 2.0, ..Default::default() };
        // 3/2 < 2, then 2/2 < 3/2.
        assert_eq!(run(config, &[], &values, 3), [1, 2, 1]);
        let short =
            SamplerConfig { repetition_penalty: 2.0, repetition_context: 1, ..Default::default() };
        assert_eq!(run(short, &[1], &values, 3), [2, 1, 2]);
    }

    #[test]
    fn seeds_repeat_and_draws_follow_the_probabilities() {
        let config = SamplerConfig { temperature: 1.0, seed: Some(7), ..Default::default() };
        let values = [0.1f32, 0.4, 0.2, 0.3].map(f32::ln);
        let draws = run(config.clone(), &[], &values, 400);
        assert_eq!(draws, run(config, &[], &values, 400));
        let share = draws.iter().filter(|t| **t == 1).count() as f32 / 400.0;
        assert!((share - 0.4).abs() < 0.1, "{share}");
    }

    #[test]
    fn ranges_are_checked_by_name() {
        let bad = SamplerConfig { top_p: 1.5, ..Default::default() };
        assert_eq!(bad.check().unwrap_err().to_string(), "top-p: 1.5 is not between 0 and 1");
        let nan = SamplerConfig { temperature: f32::NAN, ..Default::default() };
        assert!(nan.check().is_err());
    }
}
