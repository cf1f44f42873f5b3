//! `mlx-vulkan export-hf`.

use std::path::PathBuf;

use mlx_vulkan_lm::{Result, export::export_hf};

use super::{DtypeArg, locate, print_line};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A GGUF file, or ORG/NAME[@REVISION] of the Hugging Face hub
    #[arg(long)]
    model: PathBuf,
    /// The folder to make; it must not exist
    #[arg(long)]
    out: PathBuf,
    /// Type of the weights [default: float16; bfloat16 for Qwen]
    #[arg(long)]
    dtype: Option<DtypeArg>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let dtype = args.dtype.map(DtypeArg::dtype);
    // The weights are read, converted and written once: that is no work for a GPU.
    let model = locate(&args.model)?;
    let dtype = mlx::with_device(mlx::Device::CPU, || export_hf(&model, &args.out, dtype))??;
    print_line(&format!("{}: weights in {dtype}", args.out.display()))
}
