//! What the libraries tell a program's user: the one module that writes to standard error.
//!
//! A program that installs no logger must still say that it runs on the CPU, that a variable's name is wrong,
//! or the statistics that `MLX_VK_STATS=1` asks for. What only a developer wants to know goes to `tracing`.

use std::io::Write;

/// Writes `text` to standard error as it is, at once, so that threads do not mix their lines.
pub fn write(text: &str) {
    // Nobody is left to be told when standard error is closed.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Writes a line `mlx: warning: …`.
pub fn warn(text: impl std::fmt::Display) {
    write(&format!("mlx: warning: {text}\n"));
}
