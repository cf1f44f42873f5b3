//! Every crate that is published can be packed, with all that it embeds.

use crate::error::{Error, Result};
use crate::process;

/// Packs the published crates without building them, which takes seconds, and looks for the shaders: they lie
/// outside of their crate and reach its package through a link.
///
/// # Errors
/// When a crate cannot be packed, or its package lacks the shaders.
pub(super) fn check() -> Result<()> {
    let mut pack =
        process::cargo(["package", "--quiet", "--no-verify", "--allow-dirty", "--workspace"]);
    let unpublished = ["mlx-tests", "mlx-fetch", "mlx-examples", "xtask"];
    process::run(pack.args(unpublished.iter().flat_map(|name| ["--exclude", name])))?;
    let mut list = process::cargo(["package", "--quiet", "--list", "--allow-dirty"]);
    let files = process::capture(list.args(["--package", "mlx-vulkan-vk"]))?;
    let files = String::from_utf8_lossy(&files);
    let has =
        |end: &str| files.lines().any(|file| file.starts_with("shaders/") && file.ends_with(end));
    match has(".spv") && has(".comp") {
        true => Ok(()),
        false => Err(Error::new(
            "the package of mlx-vulkan-vk has no shaders: crates/vk-backend/shaders must be a link \
             to ../../shaders",
        )),
    }
}
