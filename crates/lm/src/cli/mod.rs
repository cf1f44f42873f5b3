//! The subcommands, one per file, and what they share.

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod devices;
pub(crate) mod env;
pub(crate) mod export_hf;
pub(crate) mod generate;
pub(crate) mod ops;

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use indicatif::{ProgressBar, ProgressStyle};
use mlx_vulkan_lm::{
    Error, Result,
    config::Quantization,
    generate::{GenerateOptions, KvQuantization, Stats},
    hub::resolve,
    load::{LoadOptions, LoadedModel, load},
    sample::SamplerConfig,
};

/// Where to run.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum DeviceArg {
    Gpu,
    Cpu,
}

/// Floating point types to compute in.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum DtypeArg {
    Float16,
    Bfloat16,
    Float32,
}

impl DtypeArg {
    pub(crate) fn dtype(self) -> mlx::Dtype {
        match self {
            DtypeArg::Float16 => mlx::Dtype::Float16,
            DtypeArg::Bfloat16 => mlx::Dtype::Bfloat16,
            DtypeArg::Float32 => mlx::Dtype::Float32,
        }
    }
}

/// Which model, and where it runs.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelArgs {
    /// A GGUF file, a folder with config.json, tokenizer.json and safetensors, or ORG/NAME[@REVISION] of
    /// the Hugging Face hub
    #[arg(long)]
    model: PathBuf,
    /// Where to run [default: the GPU where there is one]
    #[arg(long)]
    device: Option<DeviceArg>,
    /// Type to compute in [default: that of the weights]
    #[arg(long)]
    dtype: Option<DtypeArg>,
    /// Variables for the chat template, as a JSON object such as {"enable_thinking": false}
    #[arg(long)]
    chat_template_config: Option<String>,
}

impl ModelArgs {
    /// Chooses the device, says which one it is, and loads the model.
    pub(crate) fn load(&self) -> Result<(LoadedModel, String)> {
        let device = choose_device(self.device)?;
        eprintln!("Device: {device}");
        let options = LoadOptions { dtype: self.dtype.map(DtypeArg::dtype) };
        let mut loaded = load(&locate(&self.model)?, &options)?;
        for (name, value) in self.template_variables()? {
            loaded.template.iter_mut().for_each(|t| t.set_variable(&name, &value));
        }
        Ok((loaded, device))
    }

    fn template_variables(&self) -> Result<serde_json::Map<String, serde_json::Value>> {
        let text = self.chat_template_config.as_deref().unwrap_or("{}");
        serde_json::from_str(text)
            .map_err(|e| Error::argument("chat-template-config", format!("no JSON object: {e}")))
    }
}

/// Where a model is, fetched with a progress bar on a terminal if it is a name of the hub.
pub(crate) fn locate(model: &Path) -> Result<PathBuf> {
    // Drawn on standard error, and not at all where that is no terminal.
    let bar = ProgressBar::new(0);
    let style = "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    bar.set_style(ProgressStyle::with_template(style).expect("a valid template"));
    let located = resolve(model, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    located
}

/// How to generate.
#[derive(Debug, clap::Args)]
pub(crate) struct SamplingArgs {
    /// Most tokens to generate
    #[arg(short = 'm', long, default_value_t = 256)]
    max_tokens: usize,
    /// Temperature; 0 always takes the most likely token
    #[arg(long, default_value_t = 0.0)]
    temp: f32,
    /// Keep the most likely tokens whose probabilities sum to this
    #[arg(long, default_value_t = 1.0)]
    top_p: f32,
    /// Keep this many of the most likely tokens; 0 keeps all
    #[arg(long, default_value_t = 0)]
    top_k: usize,
    /// Keep tokens at least this likely, relative to the most likely one
    #[arg(long, default_value_t = 0.0)]
    min_p: f32,
    /// Make recent tokens less likely; 1 leaves them
    #[arg(long, default_value_t = 1.0)]
    repetition_penalty: f32,
    /// How many recent tokens the penalty looks at
    #[arg(long, default_value_t = 20)]
    repetition_context_size: usize,
    /// Seed of the random draws
    #[arg(long)]
    seed: Option<u64>,
    /// Text that ends the generation; may be given several times
    #[arg(long)]
    stop: Vec<String>,
    /// Most tokens of the prompt that are processed at once
    #[arg(long, default_value_t = 2048)]
    prefill_step_size: usize,
    #[command(flatten)]
    kv: KvArgs,
    /// Cached tokens from which on the cache is quantized
    #[arg(long, default_value_t = 5000)]
    quantized_kv_start: usize,
}

impl SamplingArgs {
    /// The options, checked, before anything slow starts.
    pub(crate) fn options(&self) -> Result<GenerateOptions> {
        let sampler = SamplerConfig {
            temperature: self.temp,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            repetition_context: self.repetition_context_size,
            seed: self.seed,
        };
        sampler.check()?;
        let (max_tokens, stop) = (self.max_tokens, self.stop.clone());
        let (prefill_chunk, kv) = (self.prefill_step_size, self.kv()?);
        Ok(GenerateOptions { max_tokens, sampler, stop, prefill_chunk, kv })
    }

    fn kv(&self) -> Result<Option<KvQuantization>> {
        let start = self.quantized_kv_start;
        Ok(self.kv.format()?.map(|format| KvQuantization { format, start }))
    }
}

/// How keys and values are cached.
#[derive(Debug, clap::Args)]
pub(crate) struct KvArgs {
    /// Bits per cached feature; 0 leaves the cache dense
    #[arg(long, default_value_t = 0)]
    kv_bits: usize,
    /// Cached features that share a scale and a bias
    #[arg(long, default_value_t = 64)]
    kv_group_size: usize,
}

impl KvArgs {
    /// The format of a quantized cache, checked.
    pub(crate) fn format(&self) -> Result<Option<Quantization>> {
        quantization("kv-bits", self.kv_bits, self.kv_group_size)
    }
}

/// The format that `--NAME BITS` and a group size ask for; none with 0 bits.
pub(crate) fn quantization(
    name: &'static str,
    bits: usize,
    group_size: usize,
) -> Result<Option<Quantization>> {
    let format = Quantization { group_size, bits };
    if bits != 0 && !format.is_supported() {
        let text = format!(
            "{bits} bits in groups of {group_size} are not supported; supported: 0, 2, 3, 4, 5, 6, 8 in \
             groups of 32, 64, 128"
        );
        return Err(Error::argument(name, text));
    }
    Ok((bits != 0).then_some(format))
}

/// Makes the device the default and returns its description.
pub(crate) fn choose_device(wanted: Option<DeviceArg>) -> Result<String> {
    let device = match wanted {
        Some(DeviceArg::Gpu) => mlx::Device::GPU,
        Some(DeviceArg::Cpu) => mlx::Device::CPU,
        None => mlx::default_device(),
    };
    mlx::set_default_device(device)?;
    devices::describe(device)
}

/// What was read from standard input as text.
pub(crate) fn input_text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        input_error(&format_args!("not valid UTF-8 at byte {at}"))
    })
}

/// Standard input that cannot be used.
pub(crate) fn input_error(message: &dyn std::fmt::Display) -> Error {
    Error::Prompt(format!("standard input: {message}"))
}

/// Writes to standard output at once; false when nobody reads it any more.
pub(crate) fn show(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// A line to standard output.
///
/// # Errors
/// When it cannot be written, unless nobody reads it any more.
pub(crate) fn print_line(text: &str) -> Result<()> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::Io(format!("standard output: {e}")))
        }
        _ => Ok(()),
    }
}

/// The figures as mlx_lm prints them.
pub(crate) fn print_stats(stats: &Stats) -> Result<()> {
    let (prompt, generation) = (stats.prompt_tps(), stats.generation_tps());
    print_line(&format!("Prompt: {} tokens, {prompt:.3} tokens-per-sec", stats.prompt_tokens))?;
    print_line(&format!(
        "Generation: {} tokens, {generation:.3} tokens-per-sec",
        stats.generation_tokens
    ))?;
    print_line(&format!("Peak memory: {:.3} GB", stats.peak_memory as f64 / 1e9))
}
