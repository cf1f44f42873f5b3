//! `cargo xtask tidy`: formatting, lints and documentation, all without a warning.

use crate::error::{Error, Result};
use crate::process;
use std::process::Command;

/// `cargo xtask tidy`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        return Err(Error::new(format!("tidy: unexpected argument {arg:?}")));
    }
    // Formatting first: it answers at once.
    process::run(&mut process::cargo(["fmt", "--all", "--check"]))?;
    process::run(&mut clippy())?;
    process::run(&mut documentation())
}

fn clippy() -> Command {
    process::cargo(["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])
}

fn documentation() -> Command {
    let mut command = process::cargo(["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "--deny warnings");
    command
}
