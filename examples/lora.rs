//! Teaches SmolLM2 a text with low-rank adaptation, keeps the adapter in a file, and lets the model continue
//! the text's beginning: without the adapter, and with what the file holds.
//!
//! `cargo run --release --example lora -- --device gpu`
//!
//! The program fails when the loss has not fallen to less than a fifth.

mod report;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::Parser;
use mlx::Dtype;
use mlx_examples::lora::Tuning;
use mlx_vulkan_lm::{
    generate::{GenerateOptions, generate},
    load::{LoadOptions, LoadedModel, load},
    lora::Adapter,
};
use report::DeviceName;

/// What the model learns unless told otherwise.
const TEXT: &str = "The lighthouse keeper of Port Vesper owns eleven clocks. Ten of them are wrong on \
                    purpose, so that visitors stay for tea; the eleventh runs backwards.";

/// Tokens of the text's beginning that the model is asked to continue.
const PROMPT: usize = 8;

/// What is left of the loss when the model has learned the text.
const WANTED: f32 = 0.2;

/// Fine-tunes SmolLM2 on a small text
#[derive(Parser)]
struct Args {
    /// What computes; the GPU where there is one
    #[arg(long)]
    device: Option<DeviceName>,
    /// A model file or folder instead of SmolLM2, which is fetched
    #[arg(long)]
    model: Option<PathBuf>,
    /// A file with another text
    #[arg(long)]
    text: Option<PathBuf>,
    /// How often the text is shown
    #[arg(long, default_value_t = 20)]
    steps: usize,
    /// Decides about the adapter's first weights
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    report::end(run(&Args::parse()))
}

fn run(args: &Args) -> Result<bool> {
    report::start(args.device)?;
    let path = args.model.clone().map_or_else(|| mlx_fetch::SMOLLM2.path(), Ok)?;
    // Gradients of float16 would vanish.
    let loaded = load(&path, &LoadOptions { dtype: Some(Dtype::Float32) })?;
    let text = match &args.text {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?,
        None => TEXT.to_owned(),
    };
    let ids = loaded.tokenizer.encode(&text, false)?;
    say("before", &loaded, &ids)?;
    let (adapter, losses) = tune(&loaded, &ids, args)?;

    let path = report::folder()?.join("lora.safetensors");
    adapter.save(&path)?;
    let adapter = Adapter::load(&path, loaded.model.config())?;
    println!("adapter: {}", path.display());
    let model = loaded.model.adapted(&adapter)?;
    say("after", &LoadedModel { model, ..loaded }, &ids)?;

    let fell = losses.last() < losses.first().map(|first| first * WANTED).as_ref();
    report::draw("lora", "step", &[("SmolLM2", losses)])?;
    Ok(fell)
}

/// The adapter after all steps, and the loss before each.
fn tune(loaded: &LoadedModel, ids: &[u32], args: &Args) -> Result<(Adapter, Vec<f32>)> {
    let bar = report::bar("LoRA", args.steps)?;
    let mut tuning = Tuning::new(loaded.model.clone(), args.seed)?;
    let mut losses = Vec::new();
    for step in 1..=args.steps {
        let loss = tuning.step(ids)?;
        losses.push(loss);
        bar.set_message(format!("loss {loss:.4}"));
        bar.inc(1);
        if step == 1 || step % 5 == 0 {
            bar.suspend(|| println!("LoRA: loss {loss:.5} in step {step}"));
        }
    }
    bar.finish_and_clear();
    Ok((tuning.adapter().clone(), losses))
}

/// Prints how the model continues the text's beginning.
fn say(when: &str, loaded: &LoadedModel, ids: &[u32]) -> Result<()> {
    let prompt = &ids[..ids.len().min(PROMPT)];
    let options = GenerateOptions { max_tokens: ids.len() - prompt.len(), ..Default::default() };
    let mut cache = loaded.model.new_cache();
    let out = generate(loaded, &mut cache, prompt, &options, |_| true)?;
    println!("{when}: {}|{}", loaded.tokenizer.decode(prompt), out.text);
    Ok(())
}
