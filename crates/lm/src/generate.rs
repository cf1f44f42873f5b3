//! The decode loop: prefill in chunks, then one token after the other, always one token ahead.

use std::time::{Duration, Instant};

use mlx::{Array, ops};

use crate::{
    Error, Result,
    config::Quantization,
    load::LoadedModel,
    models::{Cache, Transformer},
    sample::{Sampler, SamplerConfig},
    stream::TextStream,
};

/// What to generate.
#[derive(Debug, Clone)]
pub struct GenerateOptions {
    /// Most tokens to generate; the model's context limits them as well.
    pub max_tokens: usize,
    /// How tokens are chosen.
    pub sampler: SamplerConfig,
    /// Texts that end the generation and are not part of it.
    pub stop: Vec<String>,
    /// Most tokens of the prompt that are processed at once.
    pub prefill_chunk: usize,
    /// Whether and when keys and values are quantized.
    pub kv: Option<KvQuantization>,
}

/// A cache that is quantized once it is long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvQuantization {
    /// How.
    pub format: Quantization,
    /// Tokens from which on it is.
    pub start: usize,
}

impl KvQuantization {
    fn apply(self, cache: &mut Cache) -> Result<()> {
        if cache.len() > self.start {
            cache.quantize(self.format)?;
        }
        Ok(())
    }
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            max_tokens: 100,
            sampler: SamplerConfig::default(),
            stop: Vec::new(),
            prefill_chunk: 2048,
            kv: None,
        }
    }
}

/// Tokens of one generation. Follows `generate_step` of mlx_lm: a token is encoded and started
/// before the one that it continues is read.
pub struct Tokens<'a> {
    model: &'a Transformer,
    cache: &'a mut Cache,
    sampler: Sampler,
    /// The next token, started.
    next: Option<Array>,
    /// Tokens that may still be started.
    left: usize,
    kv: Option<KvQuantization>,
}

impl<'a> Tokens<'a> {
    /// Processes `prompt`, which follows what is in `cache`, and starts the first token.
    ///
    /// # Errors
    /// When the prompt is empty or longer than the context, or an array operation fails.
    pub fn start(
        model: &'a Transformer,
        cache: &'a mut Cache,
        prompt: &[u32],
        options: &GenerateOptions,
    ) -> Result<Self> {
        check_prompt(model, cache.len(), prompt)?;
        let room = model.config().max_context - cache.len() - prompt.len();
        let mut sampler = Sampler::new(options.sampler.clone(), prompt)?;
        let logits = prefill_quantizing(model, cache, prompt, options.prefill_chunk, options.kv)?;
        let first = sampler.sample(&logits)?;
        mlx::async_eval(&[&first])?;
        // The token after the last one that fits is the end of it.
        let left = options.max_tokens.min(room + 1);
        Ok(Self { model, cache, sampler, next: Some(first), left, kv: options.kv })
    }

    fn token(&mut self, token: &Array) -> Result<Array> {
        let input = ops::reshape(token, &[1, 1])?;
        let logits = self.model.forward_last(&input, self.cache)?;
        self.kv.map_or(Ok(()), |kv| kv.apply(self.cache))?;
        let next = self.sampler.sample(&logits)?;
        mlx::async_eval(&[&next])?;
        Ok(next)
    }

    fn advance(&mut self, token: Array) -> Result<u32> {
        self.left -= 1;
        if self.left > 0 {
            self.next = Some(self.token(&token)?);
        }
        Ok(token.item::<u32>()?)
    }
}

impl Iterator for Tokens<'_> {
    type Item = Result<u32>;

    fn next(&mut self) -> Option<Result<u32>> {
        let token = self.next.take().filter(|_| self.left > 0)?;
        Some(self.advance(token))
    }
}

/// Runs `prompt` through the model and returns the logits (1, vocabulary) after its last token.
///
/// # Errors
/// When an array operation fails.
pub fn prefill(
    model: &Transformer,
    cache: &mut Cache,
    prompt: &[u32],
    chunk: usize,
) -> Result<Array> {
    prefill_quantizing(model, cache, prompt, chunk, None)
}

fn prefill_quantizing(
    model: &Transformer,
    cache: &mut Cache,
    prompt: &[u32],
    chunk: usize,
    kv: Option<KvQuantization>,
) -> Result<Array> {
    let quantize = |cache: &mut Cache| kv.map_or(Ok(()), |kv| kv.apply(cache));
    let mut chunks = prompt.chunks(chunk.max(1)).peekable();
    while let Some(ids) = chunks.next() {
        let ids = Array::from_slice(ids, &[1, ids.len()])?;
        // Of all but the last chunk only the cache is computed: their logits are never asked for.
        let logits = model.forward_last(&ids, cache)?;
        quantize(cache)?;
        if chunks.peek().is_none() {
            return Ok(logits);
        }
        mlx::eval(&cache.state())?;
        mlx::memory::clear_cache();
    }
    Err(Error::Prompt("is empty: there is nothing to continue".into()))
}

/// Checks that `prompt` can be run after the `cached` tokens that a cache holds; [`Tokens::start`]
/// does so as well.
///
/// # Errors
/// When it is empty, longer than the context, or holds a token that the model does not know.
pub fn check_prompt(model: &Transformer, cached: usize, prompt: &[u32]) -> Result<()> {
    let config = model.config();
    if prompt.is_empty() {
        return Err(Error::Prompt("is empty: there is nothing to continue".into()));
    }
    let (len, context) = (cached + prompt.len(), config.max_context);
    if len > context {
        let (path, field) = (config.path.display(), config.context_field());
        let message =
            format!("{len} tokens do not fit into the context of {context} ({path}: {field})");
        return Err(Error::Prompt(message));
    }
    let vocabulary = config.vocab_size;
    match prompt.iter().find(|id| **id as usize >= vocabulary) {
        Some(id) => {
            Err(Error::Prompt(format!("token {id} is outside of the model's {vocabulary}")))
        }
        None => Ok(()),
    }
}

/// A finished generation.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// The text, without stop strings and special tokens.
    pub text: String,
    /// The generated tokens, without the one that ended it.
    pub ids: Vec<u32>,
    /// Why it ended.
    pub finish: Finish,
    /// Figures.
    pub stats: Stats,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model ended it.
    EndOfText,
    /// A stop string came.
    StopString,
    /// As many tokens as were asked for, or as fit into the context.
    Length,
    /// The receiver of the text did not want more.
    Cancelled,
}

/// Figures of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Stats {
    /// Tokens processed before the first one was there.
    pub prompt_tokens: usize,
    /// Tokens generated, the ending one included.
    pub generation_tokens: usize,
    /// From the start to the first token.
    pub prompt_time: Duration,
    /// From the first token to the last.
    pub generation_time: Duration,
    /// Most bytes of array memory in use so far in the process.
    pub peak_memory: usize,
}

impl Stats {
    /// Prompt tokens per second, until the first token.
    pub fn prompt_tps(&self) -> f64 {
        rate(self.prompt_tokens, self.prompt_time)
    }

    /// Tokens per second after the first one, which belongs to the prompt's time.
    pub fn generation_tps(&self) -> f64 {
        rate(self.generation_tokens.saturating_sub(1), self.generation_time)
    }
}

fn rate(count: usize, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}

/// Generates from `prompt`, which follows what is in `cache`, and gives the text to `show` as it
/// comes. `show` returns whether it wants more.
///
/// # Errors
/// As [`Tokens::start`].
pub fn generate(
    loaded: &LoadedModel,
    cache: &mut Cache,
    prompt: &[u32],
    options: &GenerateOptions,
    mut show: impl FnMut(&str) -> bool,
) -> Result<Generation> {
    let start = Instant::now();
    let mut stream = TextStream::new(&loaded.tokenizer, &options.stop);
    let mut out = Generation {
        text: String::new(),
        ids: Vec::new(),
        finish: Finish::Length,
        stats: Stats { prompt_tokens: prompt.len(), ..Stats::default() },
    };
    let mut first = None;
    for token in Tokens::start(&loaded.model, cache, prompt, options)? {
        let token = token?;
        let first = *first.get_or_insert_with(Instant::now);
        out.stats.generation_tokens += 1;
        out.stats.prompt_time = first - start;
        out.stats.generation_time = first.elapsed();
        if loaded.tokenizer.is_eos(token) {
            out.finish = Finish::EndOfText;
            break;
        }
        out.ids.push(token);
        let text = stream.push(token);
        out.text.push_str(&text);
        if !text.is_empty() && !show(&text) {
            out.finish = Finish::Cancelled;
            break;
        }
        if stream.stopped() {
            out.finish = Finish::StopString;
            break;
        }
    }
    let tail = stream.finish();
    if !tail.is_empty() && out.finish != Finish::Cancelled {
        show(&tail);
    }
    out.text.push_str(&tail);
    out.stats.peak_memory = mlx::memory::peak_memory();
    Ok(out)
}
