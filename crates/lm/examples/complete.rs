//! Continues a prompt with a model from a file:
//! `cargo run --release -p mlx-vulkan-lm --example complete -- MODEL "Once upon a time"`.

use std::{io::Write, path::Path};

use mlx_vulkan_lm::{
    generate::{GenerateOptions, generate},
    load::{LoadOptions, load},
    sample::SamplerConfig,
};

fn main() -> mlx_vulkan_lm::Result<()> {
    mlx::init();
    let mut arguments = std::env::args().skip(1);
    let Some(model) = arguments.next() else {
        eprintln!("usage: complete MODEL [PROMPT]");
        return Ok(());
    };
    let prompt = arguments.next().unwrap_or_else(|| "Once upon a time".to_owned());

    let loaded = load(Path::new(&model), &LoadOptions::default())?;
    let ids = loaded.tokenizer.encode_prompt(&prompt)?;
    let sampler =
        SamplerConfig { temperature: 0.7, top_p: 0.9, seed: Some(1), ..Default::default() };
    let options = GenerateOptions { max_tokens: 64, sampler, ..Default::default() };
    print!("{prompt}");
    let mut cache = loaded.model.new_cache();
    let out = generate(&loaded, &mut cache, &ids, &options, |text| {
        print!("{text}");
        std::io::stdout().flush().is_ok()
    })?;
    println!("\n{:.1} tokens per second", out.stats.generation_tps());
    mlx::vulkan::shutdown();
    Ok(())
}
