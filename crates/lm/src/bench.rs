//! Speed of prompt processing and generation, counted as llama-bench does.

use std::time::{Duration, Instant};

use mlx::{Array, ops};

use crate::{Result, generate::prefill, models::Transformer};

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct BenchOptions {
    /// Tokens of the prompt test; 0 leaves it out.
    pub prompt: usize,
    /// Tokens of the generation test; 0 leaves it out.
    pub generate: usize,
    /// Measured runs of each test, after those that warm up.
    pub repetitions: usize,
}

/// Figures of one test.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchResult {
    /// `pp512`, `tg128`.
    pub test: String,
    /// Tokens per second of each run.
    pub runs: Vec<f64>,
}

impl BenchResult {
    /// Mean tokens per second.
    pub fn mean(&self) -> f64 {
        self.runs.iter().sum::<f64>() / self.runs.len().max(1) as f64
    }

    /// Sample standard deviation of tokens per second.
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.runs.iter().map(|r| (r - mean).powi(2)).sum();
        (squares / (self.runs.len().max(2) - 1) as f64).sqrt()
    }
}

/// Runs the tests that `options` asks for.
///
/// # Errors
/// When an array operation fails.
pub fn bench(model: &Transformer, options: &BenchOptions) -> Result<Vec<BenchResult>> {
    let mut results = Vec::new();
    let (prompt, count) = (options.prompt, options.generate);
    if prompt > 0 {
        let run = || process_prompt(model, prompt);
        results.push(repeat(format!("pp{prompt}"), prompt, options.repetitions, run)?);
    }
    if count > 0 {
        let run = || generate(model, count);
        results.push(repeat(format!("tg{count}"), count, options.repetitions, run)?);
    }
    Ok(results)
}

/// How long a test runs before it is measured, after its first run: a GPU that was idle takes a third of a second to reach
/// its clock.
const WARM_UP: Duration = Duration::from_millis(500);

/// Runs until the device is warm, then `repetitions` measured runs of `tokens` tokens.
fn repeat(
    test: String,
    tokens: usize,
    repetitions: usize,
    run: impl Fn() -> Result<()>,
) -> Result<BenchResult> {
    // The first run may compile pipelines while the device idles, so it warms nothing.
    run()?;
    let begin = Instant::now();
    while begin.elapsed() < WARM_UP {
        run()?;
    }
    let mut runs = Vec::with_capacity(repetitions);
    for _ in 0..repetitions {
        let start = Instant::now();
        run()?;
        runs.push(tokens as f64 / start.elapsed().as_secs_f64());
    }
    Ok(BenchResult { test, runs })
}

/// A prompt into an empty cache, up to the logits of its last token.
fn process_prompt(model: &Transformer, tokens: usize) -> Result<()> {
    let ids = arbitrary_ids(tokens, model.config().vocab_size);
    let logits = prefill(model, &mut model.new_cache(), &ids, 2048)?;
    Ok(mlx::eval(&[&logits])?)
}

/// Tokens one by one from an empty cache, each continuing from the one before.
fn generate(model: &Transformer, tokens: usize) -> Result<()> {
    let mut cache = model.new_cache();
    let mut token = Array::from_slice(&[1u32], &[1, 1])?;
    let mut last = None;
    for _ in 0..tokens {
        let logits = model.forward_last(&token, &mut cache)?;
        let next = ops::argmax(&logits, Some(-1), true)?;
        mlx::async_eval(&[&next])?;
        // As in generation: read the token before, while this one is computed.
        if let Some(before) = last.replace(next.clone()) {
            Array::item::<u32>(&before)?;
        }
        token = next;
    }
    Ok(mlx::eval(&[&token])?)
}

/// Ids without a pattern (a linear congruential generator), the same in every run.
fn arbitrary_ids(count: usize, vocabulary: usize) -> Vec<u32> {
    let step = |seed: &mut u64| {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some(((*seed >> 33) % vocabulary as u64) as u32)
    };
    std::iter::repeat_n((), count).scan(42, |seed, ()| step(seed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation() {
        let result = BenchResult { test: "tg1".into(), runs: vec![1.0, 3.0] };
        assert_eq!(result.mean(), 2.0);
        assert!((result.deviation() - 2f64.sqrt()).abs() < 1e-12);
        assert_eq!(BenchResult { test: "tg1".into(), runs: vec![1.0] }.deviation(), 0.0);
    }

    #[test]
    fn ids_are_of_the_vocabulary_and_varied() {
        let ids = arbitrary_ids(100, 50);
        assert!(ids.len() == 100 && ids.iter().all(|id| *id < 50));
        assert!(ids.iter().collect::<std::collections::HashSet<_>>().len() > 20);
    }
}
