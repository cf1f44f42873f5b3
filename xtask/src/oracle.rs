//! `cargo xtask oracle`: random calls, compared with upstream MLX itself.
//!
//! Upstream's CPU wheel makes the calls that `tests/oracle/generate.py` draws; the example `oracle` of
//! `mlx-tests` makes them again on both devices and compares.

mod venv;

use crate::error::{Context, Error, Result};
use crate::generate;
use crate::paths;
use crate::process;
use crate::setup::{self, component::Purpose};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What CI draws: few seeds, and Vulkan for a part of their calls, because lavapipe compiles each kernel
/// anew.
const CI: Options = Options { family: None, seeds: 6, first: 1, vulkan_every: 4 };

/// The command line, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    family: Option<String>,
    seeds: u64,
    first: u64,
    vulkan_every: u64,
}

/// `cargo xtask oracle [--family F] [--seeds N] [--first S] [--vulkan-every N]`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    run(&Options::parse(args)?)
}

/// What CI runs.
pub(crate) fn ci() -> Result<()> {
    run(&CI)
}

impl Options {
    fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self { family: None, seeds: 20, first: 0, vulkan_every: 1 };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let value = args.next().ok_or_else(|| Error::new(format!("oracle: {arg} what?")))?;
            match arg.as_str() {
                "--family" => options.family = Some(value.clone()),
                "--seeds" => options.seeds = number(arg, value)?,
                "--first" => options.first = number(arg, value)?,
                "--vulkan-every" => options.vulkan_every = number(arg, value)?.max(1),
                _ => return Err(Error::new(format!("oracle: unexpected argument {arg:?}"))),
            }
        }
        Ok(options)
    }
}

fn number(name: &str, value: &str) -> Result<u64> {
    value.parse().context(|| format!("oracle: {name} {value:?}"))
}

fn run(options: &Options) -> Result<()> {
    setup::ensure(&[Purpose::Run, Purpose::Oracle])?;
    let python = venv::python()?;
    let folder = paths::target().join("oracle");
    clear(&folder)?;
    build()?;
    process::run(&mut generator(&python, options, &folder))?;
    process::hand_over(&mut runner(options, &folder))
}

/// What an earlier run left would be compared again.
fn clear(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn generator(python: &Path, options: &Options, folder: &Path) -> Command {
    let mut command = Command::new(python);
    // Byte code beside the sources would be a change of the checkout.
    command.arg("-B").arg(paths::root().join("tests/oracle/generate.py"));
    command.arg("--out").arg(folder);
    command.args(["--seeds", &options.seeds.to_string(), "--first", &options.first.to_string()]);
    if let Some(family) = &options.family {
        command.args(["--family", family]);
    }
    command
}

/// Builds the runner. The whole workspace is named, as the tests do, so that its dependencies have the
/// features they have there and are built once.
fn build() -> Result<()> {
    process::run(&mut process::cargo(["build", "--workspace", "--example", "oracle"]))
}

fn runner(options: &Options, folder: &Path) -> Command {
    let file = format!("oracle{}", env::consts::EXE_SUFFIX);
    let mut command = Command::new(paths::target().join("debug/examples").join(file));
    command.arg(folder).args(["--vulkan-every", &options.vulkan_every.to_string()]);
    generate::allow_software(&mut command);
    command.env("MLX_VK_FALLBACK", "error");
    if env::var_os("LP_NUM_THREADS").is_none() {
        command.env("LP_NUM_THREADS", "0");
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options> {
        Options::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read() {
        let options = parse(&["--family", "reduce", "--seeds", "3", "--first", "7"]).unwrap();
        let expected =
            Options { family: Some("reduce".to_owned()), seeds: 3, first: 7, vulkan_every: 1 };
        assert_eq!(options, expected);
    }

    #[test]
    fn wrong_options_are_refused() {
        assert!(parse(&["--seeds", "many"]).unwrap_err().to_string().contains("many"));
        assert!(parse(&["--seed", "1"]).unwrap_err().to_string().contains("--seed"));
        assert!(parse(&["--first"]).is_err());
    }
}
