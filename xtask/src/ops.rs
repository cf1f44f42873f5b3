//! `cargo xtask ops`: the table of primitives and where they run.

use crate::error::Result;
use crate::generate;
use crate::process;

/// `cargo xtask ops [--json]`: the arguments go to `mlx-vulkan ops`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    generate::build_lm()?;
    process::hand_over(generate::lm("ops").args(args))
}
