//! `mlx-vulkan chat`.

use std::io::BufRead;

use mlx_vulkan_lm::{Result, chat::Chat};

use super::{ModelArgs, SamplingArgs, input_error, input_text, print_line, show};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// System message
    #[arg(long)]
    system_prompt: Option<String>,
    #[command(flatten)]
    sampling: SamplingArgs,
}

const HELP: &str = "q ends, r forgets the conversation, h shows this help.";

pub(crate) fn run(args: Args) -> Result<()> {
    let options = args.sampling.options()?;
    let (loaded, _) = args.model.load()?;
    let mut chat = Chat::new(&loaded, args.system_prompt);
    print_line(HELP)?;
    while let Some(line) = read_line()? {
        match line.trim() {
            "" => {}
            "q" => break,
            "r" => chat.reset(),
            "h" => print_line(HELP)?,
            // A refused message, such as one too long, does not end the conversation.
            text => match chat.send(text, &options, show) {
                Ok(_) => print_line("")?,
                Err(error) => eprintln!("error: {error}"),
            },
        }
    }
    Ok(())
}

/// A line of standard input; nothing at its end.
fn read_line() -> Result<Option<String>> {
    show(">> ");
    let mut bytes = Vec::new();
    let count = std::io::stdin().lock().read_until(b'\n', &mut bytes);
    match count.map_err(|e| input_error(&e))? {
        0 => Ok(None),
        _ => input_text(bytes).map(Some),
    }
}
