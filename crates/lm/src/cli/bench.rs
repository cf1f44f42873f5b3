//! `mlx-vulkan bench`.

use mlx::ops::FpMode;
use mlx_vulkan_lm::{
    Error, Result,
    bench::{BenchOptions, BenchResult, bench},
    config::{Family, Format, PRESETS, Quantization, preset},
    load::random_model,
    models::Transformer,
};
use serde_json::json;

use super::{DeviceArg, DtypeArg, KvArgs, choose_device, print_line, quantization};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shape of the model: qwen3-0.6b, qwen3-1.7b, qwen3-4b, qwen3-8b, qwen3-30b-a3b or gpt-oss-20b
    #[arg(long, default_value = "qwen3-0.6b")]
    preset: String,
    /// Bits per weight; 0 leaves the weights dense. gpt-oss's experts are mxfp4 in any case
    #[arg(long, default_value_t = 4)]
    bits: usize,
    /// Weights that share a scale and a bias
    #[arg(long, default_value_t = 64)]
    group_size: usize,
    /// Quantize to small floats instead, in bits and groups of their own: mxfp4, nvfp4 or mxfp8
    #[arg(long, conflicts_with_all = ["bits", "group_size"])]
    mode: Option<FpMode>,
    /// Type to compute in
    #[arg(long, default_value = "bfloat16")]
    dtype: DtypeArg,
    /// Tokens of the prompt test; 0 leaves it out
    #[arg(short = 'p', long, default_value_t = 512)]
    n_prompt: usize,
    /// Tokens of the generation test; 0 leaves it out
    #[arg(short = 'n', long, default_value_t = 128)]
    n_gen: usize,
    /// Sequences that are processed together; the tests run for each number, and count the tokens of all
    #[arg(long, value_delimiter = ',', default_value = "1")]
    batch: Vec<usize>,
    /// Tokens of every sequence that are cached before a test begins
    #[arg(short = 'd', long, default_value_t = 0)]
    depth: usize,
    #[command(flatten)]
    kv: KvArgs,
    /// Measured runs of each test
    #[arg(short = 'r', long, default_value_t = 3)]
    repetitions: usize,
    /// Where to run [default: the GPU where there is one]
    #[arg(long)]
    device: Option<DeviceArg>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let config = preset(&args.preset).ok_or_else(|| {
        let known = PRESETS.join(", ");
        Error::argument("preset", format!("unknown preset {:?}; known: {known}", args.preset))
    })?;
    let format = match args.mode {
        Some(mode) => Some(Format::Floats(mode)),
        None => quantization("bits", args.bits, args.group_size)?.map(Format::Affine),
    };
    let kv = args.kv.format()?;
    let most = args.depth + args.n_prompt.max(args.n_gen);
    if most > config.max_context {
        let text = format!("{most} tokens do not fit into the context of {}", config.max_context);
        return Err(Error::argument("depth", text));
    }
    if args.batch.contains(&0) {
        return Err(Error::argument("batch", "a test needs a sequence".to_owned()));
    }
    let device = choose_device(args.device)?;
    eprintln!("Device: {device}");
    let model = random_model(config, format, args.dtype.dtype(), 0)?;
    mlx::memory::reset_peak_memory();
    let options = BenchOptions {
        prompt: args.n_prompt,
        generate: args.n_gen,
        batches: args.batch.clone(),
        depth: args.depth,
        repetitions: args.repetitions.max(1),
        kv,
    };
    let results = bench(&model, &options)?;
    let report = Report { args: &args, model: &model, device, format, kv, results };
    match args.json {
        true => print_line(&report.json().to_string()),
        false => print_line(&report.table()),
    }
}

/// What was typed, without `--json` and the folder of the binary.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let arguments = arguments.skip(1).filter(|argument| argument != "--json");
    std::iter::once("mlx-vulkan".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

struct Report<'a> {
    args: &'a Args,
    model: &'a Transformer,
    device: String,
    format: Option<Format>,
    kv: Option<Quantization>,
    results: Vec<BenchResult>,
}

impl Report<'_> {
    /// What weights, rows and caches are made of.
    fn types(&self) -> String {
        let dtype = self.args.dtype.dtype();
        let of = |q: Quantization| format!("{}-bit g{}", q.bits, q.group_size);
        let weights = match self.format {
            Some(Format::Affine(affine)) => of(affine) + " ",
            Some(Format::Floats(mode)) => format!("{} ", mode.name()),
            None => String::new(),
        };
        let cache = self.kv.map_or(String::new(), |kv| format!(", {} cache", of(kv)));
        let experts = match self.model.config().family {
            Family::GptOss => ", mxfp4 experts",
            _ => "",
        };
        format!("{weights}{dtype}{experts}{cache}")
    }

    fn json(&self) -> serde_json::Value {
        let result = |r: &BenchResult| {
            json!({
                "test": r.test,
                "batch": r.batch,
                "tps": r.mean(),
                "stddev": r.deviation(),
                "runs": r.runs,
                "host_us": r.host_micros(),
            })
        };
        json!({
            "command": command(std::env::args()),
            "preset": self.args.preset,
            "format": self.types(),
            "bits": self.format.map_or(0, Format::bits),
            "group_size": self.format.map_or(self.args.group_size, Format::group_size),
            "kv_bits": self.kv.map_or(0, |kv| kv.bits),
            "kv_group_size": self.kv.map(|kv| kv.group_size),
            "depth": self.args.depth,
            "dtype": self.args.dtype.dtype().name(),
            "parameters": self.model.config().num_parameters(),
            "bytes": self.model.nbytes(),
            "device": self.device,
            "peak_memory": mlx::memory::peak_memory(),
            "results": self.results.iter().map(result).collect::<Vec<_>>(),
        })
    }

    /// A table like llama-bench's.
    fn table(&self) -> String {
        let gib = self.model.nbytes() as f64 / (1u64 << 30) as f64;
        let billions = self.model.config().num_parameters() as f64 / 1e9;
        let mut lines = vec![
            "| model | format | size | params | test | t/s |".to_owned(),
            "| --- | --- | ---: | ---: | ---: | ---: |".to_owned(),
        ];
        lines.extend(self.results.iter().map(|r| {
            let (preset, format) = (&self.args.preset, self.types());
            let (mean, deviation) = (r.mean(), r.deviation());
            let model = format!("{preset} | {format} | {gib:.2} GiB | {billions:.2} B");
            format!("| {model} | {} | {mean:.2} ± {deviation:.2} |", r.test)
        }));
        for (r, [graphs, evaluation, waiting]) in
            self.results.iter().filter_map(|r| Some((r, r.host_micros()?)))
        {
            lines.push(format!(
                "{}, the host's time a step: {graphs:.0} µs for graphs, {evaluation:.0} µs to evaluate \
                 them, {waiting:.0} µs waiting",
                r.test
            ));
        }
        let peak = mlx::memory::peak_memory() as f64 / 1e9;
        lines.push(format!("Peak memory: {peak:.3} GB"));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_what_was_typed() {
        let typed = ["/a/mlx-vulkan", "bench", "-p", "512", "--json"].map(str::to_owned);
        assert_eq!(command(typed.into_iter()), "mlx-vulkan bench -p 512");
    }
}
