//! Speed of prompt processing and generation, counted as llama-bench does.

use std::time::{Duration, Instant};

use mlx::{Array, ops};

use crate::{
    Result,
    config::Quantization,
    models::{Cache, Transformer},
};

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchOptions {
    /// Tokens of the prompt test; 0 leaves it out.
    pub prompt: usize,
    /// Tokens of the generation test; 0 leaves it out.
    pub generate: usize,
    /// Numbers of sequences that are processed together, each with its own tokens; the tests run for each.
    pub batches: Vec<usize>,
    /// Tokens of every sequence that are cached before a test begins.
    pub depth: usize,
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
    /// Microseconds a step, in the order of the fields.
    pub fn micros(&self, steps: usize) -> [f64; 3] {
        [self.graphs, self.evaluation, self.waiting]
            .map(|time| time.as_secs_f64() * 1e6 / steps.max(1) as f64)
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
    /// `pp512`, `tg128`, `tg128 x4` of four sequences, `tg128 @ d4096` behind as many tokens.
    pub test: String,
    /// Tokens of each run, of all sequences.
    pub tokens: usize,
    /// Sequences that were processed together.
    pub batch: usize,
    /// Tokens per second of each run.
    pub runs: Vec<f64>,
    /// What the host did in all of them, in a generation test.
    pub host: Option<HostTime>,
}

impl BenchResult {
    /// Microseconds a step, which is a token of every sequence, that the host spent on graphs, on evaluating
    /// them, and waiting.
    pub fn host_micros(&self) -> Option<[f64; 3]> {
        self.host.map(|host| host.micros(self.tokens / self.batch.max(1) * self.runs.len()))
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
    for &batch in &options.batches {
        if options.prompt > 0 {
            let mut sequences = Sequences::new(model, batch, options.depth, None)?;
            let run = || sequences.process(options.prompt);
            results.push(measure("pp", options.prompt, batch, options, run)?);
        }
        if options.generate > 0 {
            let mut sequences = Sequences::new(model, batch, options.depth, options.kv)?;
            let run = || sequences.generate(options.generate);
            results.push(measure("tg", options.generate, batch, options, run)?);
        }
    }
    Ok(results)
}

/// How long a test runs before it is measured, after its first run: a GPU that was idle takes a third
/// of a second to reach its clock.
const WARM_UP: Duration = Duration::from_millis(500);

/// Runs until the device is warm, then measures runs of `count` tokens of each sequence.
fn measure(
    kind: &str,
    count: usize,
    batch: usize,
    options: &BenchOptions,
    mut run: impl FnMut() -> Result<Option<HostTime>>,
) -> Result<BenchResult> {
    // The first run may compile pipelines while the device idles, so it warms nothing.
    run()?;
    let begin = Instant::now();
    while begin.elapsed() < WARM_UP {
        run()?;
    }
    let (mut runs, mut host) = (Vec::with_capacity(options.repetitions), None);
    let tokens = batch * count;
    for _ in 0..options.repetitions {
        let start = Instant::now();
        let spent = run()?;
        runs.push(tokens as f64 / start.elapsed().as_secs_f64());
        if let Some(spent) = spent {
            host.get_or_insert_with(HostTime::default).add(spent);
        }
    }
    Ok(BenchResult { test: name(kind, count, batch, options.depth), tokens, batch, runs, host })
}

/// What a test is called: what is usual goes without saying.
fn name(kind: &str, count: usize, batch: usize, depth: usize) -> String {
    let of =
        |mark: &str, n: usize, usual| if n == usual { String::new() } else { format!("{mark}{n}") };
    format!("{kind}{count}{}{}", of(" x", batch, 1), of(" @ d", depth, 0))
}

/// Tokens of all sequences of a batch that are processed at once.
const CHUNK: usize = 2048;

/// Sequences of one length that are processed together, behind tokens that are cached once.
struct Sequences<'a> {
    model: &'a Transformer,
    batch: usize,
    depth: usize,
    kv: Option<Quantization>,
    cache: Cache,
}

impl<'a> Sequences<'a> {
    fn new(
        model: &'a Transformer,
        batch: usize,
        depth: usize,
        kv: Option<Quantization>,
    ) -> Result<Self> {
        let mut sequences = Sequences { model, batch, depth, kv, cache: model.new_cache() };
        sequences.fill()?;
        Ok(sequences)
    }

    /// Starts over with `depth` tokens; they are quantized when all are there, which is not what is measured.
    fn fill(&mut self) -> Result<()> {
        self.cache = self.model.new_cache();
        if self.depth > 0 {
            self.prefill(self.depth)?;
        }
        self.kv.map_or(Ok(()), |format| self.cache.quantize(format))?;
        Ok(mlx::eval(&self.cache.state())?)
    }

    /// Forgets what the last run added.
    fn rewind(&mut self) -> Result<()> {
        if self.depth > 0 && self.cache.truncate(self.depth) == self.depth {
            return Ok(());
        }
        self.fill()
    }

    /// Logits (batch, vocabulary) after so many arbitrary tokens.
    fn prefill(&mut self, tokens: usize) -> Result<Array> {
        let (ids, chunk) = (self.arbitrary(tokens)?, (CHUNK / self.batch).max(1));
        let mut from = 0;
        loop {
            let until = tokens.min(from + chunk);
            let part = ops::slice_axis(&ids, 1, from as isize, until as isize)?;
            let logits = self.model.forward_last(&part, &mut self.cache)?;
            if until == tokens {
                mlx::eval(&[&logits])?;
                return Ok(logits);
            }
            mlx::eval(&self.cache.state())?;
            mlx::memory::clear_cache();
            from = until;
        }
    }

    /// Ids (batch, tokens), other ones for each sequence.
    fn arbitrary(&self, tokens: usize) -> Result<Array> {
        let ids = arbitrary_ids(self.batch * tokens, self.model.config().vocab_size);
        Ok(Array::from_slice(&ids, &[self.batch, tokens])?)
    }

    /// A prompt, up to the logits of its last tokens.
    fn process(&mut self, tokens: usize) -> Result<Option<HostTime>> {
        self.rewind()?;
        self.prefill(tokens)?;
        Ok(None)
    }

    /// Tokens one by one, each continuing from the one before.
    fn generate(&mut self, tokens: usize) -> Result<Option<HostTime>> {
        self.rewind()?;
        let mut token = self.arbitrary(1)?;
        let (mut last, mut host) = (None, HostTime::default());
        for _ in 0..tokens {
            let start = Instant::now();
            let logits = self.model.forward_last(&token, &mut self.cache)?;
            let next = ops::argmax(&logits, Some(-1), true)?;
            let built = Instant::now();
            mlx::async_eval(&[&next])?;
            let evaluated = Instant::now();
            // As in generation: read the tokens before, while these are computed.
            if let Some(before) = last.replace(next.clone()) {
                Array::to_vec::<u32>(&before)?;
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
        let of = |runs| BenchResult { test: "tg1".into(), tokens: 1, batch: 1, runs, host: None };
        let result = of(vec![1.0, 3.0]);
        assert_eq!(result.mean(), 2.0);
        assert!((result.deviation() - 2f64.sqrt()).abs() < 1e-12);
        assert_eq!(of(vec![1.0]).deviation(), 0.0);
        let millis = Duration::from_millis;
        let host = HostTime { graphs: millis(4), evaluation: millis(6), waiting: millis(0) };
        let timed = BenchResult { tokens: 10, host: Some(host), ..of(vec![1.0, 2.0]) };
        assert_eq!(timed.host_micros(), Some([200.0, 300.0, 0.0]));
        let together = BenchResult { tokens: 20, batch: 2, ..timed };
        assert_eq!(together.host_micros(), Some([200.0, 300.0, 0.0]), "a step is of both");
    }

    #[test]
    fn a_name_says_what_is_unusual() {
        assert_eq!(name("pp", 512, 1, 0), "pp512");
        assert_eq!(name("tg", 128, 4, 0), "tg128 x4");
        assert_eq!(name("tg", 64, 2, 32_768), "tg64 x2 @ d32768");
    }

    #[test]
    fn ids_are_of_the_vocabulary_and_varied() {
        let ids = arbitrary_ids(100, 50);
        assert!(ids.len() == 100 && ids.iter().all(|id| *id < 50));
        assert!(ids.iter().collect::<std::collections::HashSet<_>>().len() > 20);
    }
}
