//! `mlx-vulkan generate`.

use std::io::Read;

use mlx_vulkan_lm::{
    Error, Result,
    chat::prompt_ids,
    generate::{Generation, check_prompt, generate},
    load::LoadedModel,
    template::Message,
};

use super::{ModelArgs, SamplingArgs, input_error, input_text, print_line, print_stats, show};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// The prompt; `-` reads standard input
    #[arg(short, long)]
    prompt: String,
    /// System message for the chat template
    #[arg(long, conflicts_with = "raw")]
    system_prompt: Option<String>,
    /// Continue the prompt as it is, without a chat template
    #[arg(long, visible_alias = "ignore-chat-template")]
    raw: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sampling: SamplingArgs,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let options = args.sampling.options()?;
    let prompt = read_prompt(&args.prompt)?;
    let (loaded, device) = args.model.load()?;
    let ids = encode(&loaded, &args, &prompt)?;
    let mut cache = loaded.model.new_cache();
    if args.json {
        let out = generate(&loaded, &mut cache, &ids, &options, |_| true)?;
        return print_line(&json(&out, &ids, &device).to_string());
    }
    // Nothing is printed for a prompt that is refused.
    check_prompt(&loaded.model, cache.len(), &ids)?;
    print_line("==========")?;
    let out = generate(&loaded, &mut cache, &ids, &options, show)?;
    print_line("\n==========")?;
    print_stats(&out.stats)
}

/// The ids of the prompt: through the chat template, unless asked not to or there is none.
fn encode(loaded: &LoadedModel, args: &Args, prompt: &str) -> Result<Vec<u32>> {
    if prompt.is_empty() {
        return Err(Error::Prompt("is empty: there is nothing to continue".into()));
    }
    if args.raw || loaded.template.is_none() {
        return loaded.tokenizer.encode_prompt(prompt);
    }
    let system = args.system_prompt.iter().map(|text| Message::new("system", text));
    let messages: Vec<Message> = system.chain([Message::user(prompt)]).collect();
    prompt_ids(loaded, &messages)
}

fn read_prompt(argument: &str) -> Result<String> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(|e| input_error(&e))?;
    input_text(bytes)
}

fn json(out: &Generation, prompt: &[u32], device: &str) -> serde_json::Value {
    serde_json::json!({
        "text": out.text,
        "prompt_ids": prompt,
        "ids": out.ids,
        "prompt_tps": out.stats.prompt_tps(),
        "generation_tps": out.stats.generation_tps(),
        "peak_memory": out.stats.peak_memory,
        "device": device,
    })
}
