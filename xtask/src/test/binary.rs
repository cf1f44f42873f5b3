//! One test binary: cargo runs each through `cargo xtask run-test`, which knows what is best for it.

use super::parts;
use crate::error::{Context, Error, Result};
use crate::process;
use crate::setup::{component::ALLOCATOR, probe};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Binaries that try the kernels themselves. On a software device, one leg does so.
const OF_KERNELS: [&str; 3] = ["fusion", "ops", "transforms"];

/// The one of them that has no tests of the CPU.
const ON_VULKAN_ALONE: &str = "fusion";

/// Other binaries whose time is that of the software device's compiler, as it is for those of kernels: they
/// make thousands of kernels, and run most of them on a few elements.
const COMPILING: [&str; 5] = ["batches", "decode", "experts", "graphs", "reference"];

/// What makes lavapipe compile sooner, at the price of slower kernels, unless the caller has set it: loops
/// stay loops, and LLVM optimizes nothing. GPUs are not affected.
const SOONER: [(&str, &str); 2] =
    [("MLX_VK_ENABLE_SOFTWARE_UNROLL", "0"), ("GALLIVM_PERF", "nopt")];

/// Binaries of few and long tests. They run beside the others.
const SERIAL: [&str; 5] = ["decode", "graphs", "memory", "models", "runtime"];

/// The variable that says which [`Share`] of the binaries runs; without it all do.
const SHARE: &str = "MLX_TEST_SHARE";

/// Which of the binaries one of two runs beside each other has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// Those of [`SERIAL`].
    Serial,
    /// All others, whatever they are.
    Others,
}

impl Share {
    /// What to set in the environment of a run.
    pub(super) fn variable(self) -> (&'static str, &'static str) {
        (SHARE, self.name())
    }

    fn name(self) -> &'static str {
        match self {
            Share::Serial => "serial",
            Share::Others => "others",
        }
    }

    fn of(target: &str) -> Self {
        if SERIAL.contains(&target) { Share::Serial } else { Share::Others }
    }
}

/// The variable that says that another leg tries the kernels on a software device.
const KERNELS_ELSEWHERE: &str = "MLX_TEST_KERNELS_ELSEWHERE";

/// What to set in the environment of a leg that leaves the kernels to another one.
pub(super) fn leave_kernels() -> (&'static str, &'static str) {
    (KERNELS_ELSEWHERE, "1")
}

/// The variable that names libraries which the dynamic linker takes before all others.
const PRELOADED: &str = "LD_PRELOAD";

/// An allocator with which lavapipe's compiler takes a fifth less time than with the C library's, where it is
/// installed and the caller has set none.
fn allocator() -> Option<PathBuf> {
    let wanted = probe::wants_allocator() && env::var_os(PRELOADED).is_none();
    wanted.then(|| probe::library(ALLOCATOR)).flatten()
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    program: PathBuf,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    of_program: Vec<OsString>,
}

/// `cargo xtask run-test PROGRAM [ARGUMENT…]`.
pub(crate) fn main(args: &Args) -> Result<()> {
    let target = target(&args.program);
    if env::var(SHARE).is_ok_and(|running| running != Share::of(target).name()) {
        return Ok(());
    }
    let in_software = !probe::has_hardware_vulkan();
    let of_kernels = OF_KERNELS.contains(&target);
    let elsewhere = of_kernels && in_software && env::var_os(KERNELS_ELSEWHERE).is_some();
    if elsewhere && target == ON_VULKAN_ALONE {
        println!("{target}: another leg has it");
        return Ok(());
    }
    let command = || {
        let mut command = Command::new(&args.program);
        command.args(&args.of_program);
        if of_kernels || COMPILING.contains(&target) {
            compile_soon(&mut command);
        }
        if elsewhere {
            command.env("MLX_TEST_DEVICE", "cpu");
        }
        command
    };
    // A process compiles with one thread, the one that runs its kernels.
    if of_kernels && in_software && parts::apply_to(&args.of_program) {
        return parts::run(&command);
    }
    let status = command().status().context(|| format!("cannot run {}", args.program.display()))?;
    outcome(&args.program, status)
}

/// Sets what makes lavapipe compile sooner.
pub(crate) fn compile_soon(command: &mut Command) {
    process::default_envs(command, &SOONER);
    if let Some(allocator) = allocator() {
        command.env(PRELOADED, allocator);
    }
}

/// What the end of a test process says.
pub(super) fn outcome(program: &Path, status: ExitStatus) -> Result<()> {
    match status.code() {
        Some(0) => Ok(()),
        // The binary has said what failed.
        Some(_) => Err(Error::reported()),
        None => Err(Error::new(format!("{} ended with {status}", program.display()))),
    }
}

/// Arguments of cargo that make it run test binaries so.
pub(crate) fn through_xtask() -> Result<[String; 2]> {
    let xtask = env::current_exe().context(|| "cannot find xtask itself".to_owned())?;
    // TOML's literal strings have no escapes, as paths of Windows want it.
    let runner = format!("['{}', 'run-test']", xtask.display());
    Ok(["--config".to_owned(), format!("target.'cfg(all())'.runner = {runner}")])
}

/// The test target that a binary is of: its file's name without the hash that cargo puts behind it.
fn target(program: &Path) -> &str {
    let stem = program.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem.rsplit_once('-').map_or(stem, |(target, _)| target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_binary_is_of_one_share() {
        assert_eq!(Share::of("models"), Share::Serial);
        assert_eq!(Share::of("rust_out"), Share::Others);
        assert_ne!(Share::Serial.name(), Share::Others.name());
    }

    #[test]
    fn binaries_are_known_without_their_hashes() {
        assert_eq!(target(Path::new("target/debug/deps/ops-09f4a0eee8076a3a")), "ops");
        assert_eq!(target(Path::new("mlx_vulkan-0f")), "mlx_vulkan");
        assert_eq!(target(Path::new("/tmp/rustdoctest/rust_out")), "rust_out");
    }
}
