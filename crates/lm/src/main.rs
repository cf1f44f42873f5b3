//! `mlx-vulkan`: language models from the command line. Everything is in the library; this is the thin
//! layer of arguments and printing.

mod cli;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A decode step makes and frees thousands of small objects: the nodes of its graph.
#[global_allocator]
static ALLOCATOR: mlx_vulkan_alloc::Magazines = mlx_vulkan_alloc::Magazines;

/// Language models on any GPU.
#[derive(Debug, Parser)]
#[command(name = "mlx-vulkan", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Continue a prompt, or answer it where the model has a chat template
    Generate(cli::generate::Args),
    /// Talk with a model
    Chat(cli::chat::Args),
    /// Make a Hugging Face folder of a GGUF file, for mlx_lm and transformers
    ExportHf(cli::export_hf::Args),
    /// Measure prompt processing and generation with random weights
    Bench(cli::bench::Args),
    /// List the devices
    Devices(cli::devices::Args),
    /// Print the environment variables that change how Vulkan runs
    Env(cli::env::Args),
    /// Print which primitive runs where
    Ops(cli::ops::Args),
}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("MLX_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .without_time()
        .with_target(false)
        .init();
    let args = Args::parse();
    let result = run(args.command);
    mlx::vulkan::shutdown();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", error.to_string().replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> mlx_vulkan_lm::Result<()> {
    mlx::init();
    match command {
        Command::Generate(args) => cli::generate::run(args),
        Command::Chat(args) => cli::chat::run(args),
        Command::ExportHf(args) => cli::export_hf::run(args),
        Command::Bench(args) => cli::bench::run(args),
        Command::Devices(args) => cli::devices::run(args),
        Command::Env(args) => cli::env::run(args),
        Command::Ops(args) => cli::ops::run(args),
    }
}
