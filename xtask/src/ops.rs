//! `cargo xtask ops`: the table of primitives and where they run.

use crate::error::Result;
use crate::generate;
use crate::process;

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Arguments of `mlx-vulkan ops`, such as --json
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// `cargo xtask ops [--json]`: the arguments go to `mlx-vulkan ops`.
pub(crate) fn main(args: &Args) -> Result<()> {
    generate::build_lm()?;
    process::hand_over(generate::lm("ops").args(&args.rest))
}
