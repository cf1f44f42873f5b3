//! Where things lie in the checkout.

use std::env;
use std::path::{Path, PathBuf};

/// The root of the workspace.
///
/// `cargo run` sets `CARGO_MANIFEST_DIR`, so a moved checkout is found too; the value of build time serves a
/// binary that is started by hand.
pub(crate) fn root() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let manifest = manifest.filter(|dir| dir.ends_with("xtask"));
    let manifest = manifest.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    manifest.parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => env::current_dir().unwrap_or_else(|_| root()).join(dir),
        None => root().join("target"),
    }
}

/// `path` relative to the root where it lies inside, for messages.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
