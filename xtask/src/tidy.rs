//! `cargo xtask tidy`: formatting, widths, modules, figures, dependencies, packages, lints and documentation,
//! no warning left.

mod dependencies;
mod lines;
mod modules;
mod packages;

use crate::error::Result;
use crate::figures;
use crate::paths;
use crate::process;
use std::process::Command;

/// `cargo xtask tidy`.
pub(crate) fn main() -> Result<()> {
    // What answers at once comes first.
    process::run(&mut process::cargo(["fmt", "--all", "--check"]))?;
    lines::check(&paths::root())?;
    modules::check(&paths::root())?;
    figures::check()?;
    dependencies::check(&paths::root())?;
    packages::check()?;
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
