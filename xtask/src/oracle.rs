//! `cargo xtask oracle`: random calls, compared with upstream MLX itself.
//!
//! Upstream's CPU wheel makes the calls that `tests/oracle/generate.py` draws; the example `oracle` of
//! `mlx-tests` makes them again on both devices and compares. What it read of upstream's functions in
//! files it writes again, which `tests/oracle/reimport.py` calls upstream.

use crate::error::{Context, Result};
use crate::generate;
use crate::paths;
use crate::process;
use crate::setup::{self, component::Purpose};
use crate::test::{self, binary::compile_soon};
use crate::venv::{self, Venv};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Upstream alone.
const VENV: Venv =
    Venv { name: "oracle", packages: &[venv::UPSTREAM, "numpy>=2"], imports: "mlx.core, numpy" };

/// What CI draws: few seeds, and Vulkan for a part of their calls, because lavapipe compiles each kernel
/// anew.
const CI: Args = Args { family: None, seeds: 6, first: 1, vulkan_every: 4 };

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One family of functions instead of all
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// How many seeds are drawn for each family
    #[arg(long, value_name = "N", default_value_t = 20)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    first: u64,
    /// Vulkan makes every N-th call
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    vulkan_every: u64,
}

/// `cargo xtask oracle`.
pub(crate) fn main(args: &Args) -> Result<()> {
    run(args)
}

/// What CI runs.
pub(crate) fn ci() -> Result<()> {
    run(&CI)
}

fn run(options: &Args) -> Result<()> {
    setup::ensure(&[Purpose::Run, Purpose::Oracle])?;
    let python = VENV.python()?;
    let folder = paths::target().join("oracle");
    clear(&folder)?;
    build()?;
    process::run(&mut generator(&python, options, &folder))?;
    let here = process::hand_over(&mut runner(options, &folder));
    process::hand_over(&mut reimporter(&python, &folder)).and(here)
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

fn generator(python: &Path, options: &Args, folder: &Path) -> Command {
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

/// Calls upstream what the runner wrote into files.
fn reimporter(python: &Path, folder: &Path) -> Command {
    let mut command = Command::new(python);
    command.arg("-B").arg(paths::root().join("tests/oracle/reimport.py")).arg(folder);
    command
}

/// Builds the runner. The whole workspace is named, as the tests do, so that its dependencies have the
/// features they have there and are built once.
fn build() -> Result<()> {
    process::run(&mut process::cargo(["build", "--workspace", "--example", "oracle"]))
}

fn runner(options: &Args, folder: &Path) -> Command {
    let file = format!("oracle{}", env::consts::EXE_SUFFIX);
    let mut command = Command::new(paths::target().join("debug/examples").join(file));
    command.arg(folder).args(["--vulkan-every", &options.vulkan_every.to_string()]);
    generate::allow_software(&mut command);
    process::default_envs(&mut command, &test::DEFAULTS);
    compile_soon(&mut command);
    command
}
