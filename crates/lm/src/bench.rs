//! Speed of prompt processing and generation, counted as llama-bench does.

use std::time::{Duration, Instant};

use mlx::{Array, ops};

use crate::{Result, config::Quantization, generate::prefill, models::Transformer};

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct BenchOptions {
    /// Tokens of the prompt test; 0 leaves it out.
    pub prompt: usize,
    /// Tokens of the generation test; 0 leaves it out.
    pub generate: usize,
    /// Measured runs of each test, after those that warm up.
    pub repetitions: usize,
    /// Format of the generation test's cache; none leaves it dense.
    pub kv: Option<Quantization>,
}

/// What the calling thread does while tokens are generated. Where it hardly waits, the
/// host is what bounds the speed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostTime {
    /// Building graphs.
    pub graphs: Duration,
    /// Evaluating them: planning, encoding, handing over.
    pub evaluation: Duration,
    /// Waiting for tokens.
    pub waiting: Duration,
}

impl HostTime {
    /// Microseconds a token, in the order of the fields.
    pub fn micros(&self, tokens: usize) -> [f64; 3] {
        [self.graphs, self.evaluation, self.waiting]
            .map(|time| time.as_secs_f64() * 1e6 / tokens.max(1) as f64)
    }

    fn add(&mut self, other: HostTime) {
        self.graphs += other.graphs;
        self.evaluation += other.evaluation;
        self.waiting += other.waiting;
    }
}

/// Figures of one test.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchResult {
    /// `pp512`, `tg128`.
    pub test: String,
    /// Tokens of each run.
    pub tokens: usize,
    /// Tokens per second of each run.
    pub runs: Vec<f64>,
    /// What the host did in all of them, in a generation test.
    pub host: Option<HostTime>,
}

impl BenchResult {
    /// Microseconds a token that the host spent on graphs, on evaluating them, and waiting.
    pub fn host_micros(&self) -> Option<[f64; 3]> {
        self.host.map(|host| host.micros(self.tokens * self.runs.len()))
    }

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
        let run = || generate(model, count, options.kv);
        results.push(repeat(format!("tg{count}"), count, options.repetitions, run)?);
    }
    Ok(results)
}

/// How long a test runs before it is measured, after its first run: a GPU that was idle takes a third
/// of a second to reach its clock.
const WARM_UP: Duration = Duration::from_millis(500);

/// Runs until the device is warm, then `repetitions` measured runs of `tokens` tokens.
fn repeat(
    test: String,
    tokens: usize,
    repetitions: usize,
    run: impl Fn() -> Result<Option<HostTime>>,
) -> Result<BenchResult> {
    // The first run may compile pipelines while the device idles, so it warms nothing.
    run()?;
    let begin = Instant::now();
    while begin.elapsed() < WARM_UP {
        run()?;
    }
    let (mut runs, mut host) = (Vec::with_capacity(repetitions), None);
    for _ in 0..repetitions {
        let start = Instant::now();
        let spent = run()?;
        runs.push(tokens as f64 / start.elapsed().as_secs_f64());
        if let Some(spent) = spent {
            host.get_or_insert_with(HostTime::default).add(spent);
        }
    }
    Ok(BenchResult { test, tokens, runs, host })
}

/// A prompt into an empty cache, up to the logits of its last token.
fn process_prompt(model: &Transformer, tokens: usize) -> Result<Option<HostTime>> {
    let ids = arbitrary_ids(tokens, model.config().vocab_size);
    let logits = prefill(model, &mut model.new_cache(), &ids, 2048)?;
    mlx::eval(&[&logits])?;
    Ok(None)
}

/// Tokens one by one from an empty cache, each continuing from the one before.
fn generate(
    model: &Transformer,
    tokens: usize,
    kv: Option<Quantization>,
) -> Result<Option<HostTime>> {
    let mut cache = model.new_cache();
    kv.map_or(Ok(()), |format| cache.quantize(format))?;
    let mut token = Array::from_slice(&[1u32], &[1, 1])?;
    let (mut last, mut host) = (None, HostTime::default());
    for _ in 0..tokens {
        let start = Instant::now();
        let logits = model.forward_last(&token, &mut cache)?;
        let next = ops::argmax(&logits, Some(-1), true)?;
        let built = Instant::now();
        mlx::async_eval(&[&next])?;
        let evaluated = Instant::now();
        // As in generation: read the token before, while this one is computed.
        if let Some(before) = last.replace(next.clone()) {
            Array::item::<u32>(&before)?;
        }
        host.add(HostTime {
            graphs: built - start,
            evaluation: evaluated - built,
            waiting: evaluated.elapsed(),
        });
        token = next;
    }
    mlx::eval(&[&token])?;
    Ok(Some(host))
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
        let of = |runs| BenchResult { test: "tg1".into(), tokens: 1, runs, host: None };
        let result = of(vec![1.0, 3.0]);
        assert_eq!(result.mean(), 2.0);
        assert!((result.deviation() - 2f64.sqrt()).abs() < 1e-12);
        assert_eq!(of(vec![1.0]).deviation(), 0.0);
        let millis = Duration::from_millis;
        let host = HostTime { graphs: millis(4), evaluation: millis(6), waiting: millis(0) };
        let timed = BenchResult { tokens: 10, host: Some(host), ..of(vec![1.0, 2.0]) };
        assert_eq!(timed.host_micros(), Some([200.0, 300.0, 0.0]));
    }

    #[test]
    fn ids_are_of_the_vocabulary_and_varied() {
        let ids = arbitrary_ids(100, 50);
        assert!(ids.len() == 100 && ids.iter().all(|id| *id < 50));
        assert!(ids.iter().collect::<std::collections::HashSet<_>>().len() > 20);
    }
}
