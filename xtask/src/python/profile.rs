//! What the compiler is told of how the extension runs, before it builds the wheel.
//!
//! Building a model's graph is hundreds of short calls, whose time lies in branches and calls rather than in
//! loops: the compiler arranges these by a profile of programs.

use crate::error::{Context, Error, Result};
use crate::generate;
use crate::paths;
use crate::process;
use crate::test;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a discrete GPU has as well: decode steps in runs, and memory of its own. Most who install the wheel
/// have one, most who build it do not.
const DISCRETE: [(&str, &str); 2] =
    [("MLX_VK_ENABLE_INTERPRETER", "1"), ("MLX_VK_FORCE_DISCRETE", "1")];

/// Counts of what a build of the extension did, and what they are merged to.
pub(super) struct Counts {
    /// The toolchain's program that merges them.
    merge: PathBuf,
    folder: PathBuf,
}

impl Counts {
    /// None yet.
    ///
    /// # Errors
    /// When the toolchain has no program to merge them.
    pub(super) fn new() -> Result<Counts> {
        let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        let libraries = process::capture(rustc.args(["--print", "target-libdir"]))?;
        let libraries = String::from_utf8_lossy(&libraries);
        let programs = Path::new(libraries.trim()).with_file_name("bin");
        let merge = programs.join(format!("llvm-profdata{}", env::consts::EXE_SUFFIX));
        if !merge.is_file() {
            let message = "is missing: run `rustup component add llvm-tools`";
            return Err(Error::new(format!("{} {message}", paths::shown(&merge))));
        }
        Ok(Counts { merge, folder: paths::target().join("profile") })
    }

    fn merged(&self) -> PathBuf {
        self.folder.with_extension("profdata")
    }

    /// Has a command's compiler build what counts. Everything else is as for the wheel, because names of
    /// functions follow from it; but zig's linker does not take what counting asks of it.
    pub(super) fn count(&self, command: &mut Command) {
        add_flag(command, &format!("-Cprofile-generate={}", self.folder.display()));
        if env::consts::OS == "linux" {
            add_flag(command, "-Clinker=cc");
        }
    }

    /// Has a command's compiler build by what was counted.
    pub(super) fn tell(&self, command: &mut Command) {
        add_flag(command, &format!("-Cprofile-use={}", self.merged().display()));
    }

    /// Runs programs on the extension that counts and is installed, and merges what it has counted.
    ///
    /// # Errors
    /// When the programs fail.
    pub(super) fn take(&self, python: &Path) -> Result<()> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => fs::create_dir_all(&self.folder),
        }
        .context(|| format!("cannot empty {}", self.folder.display()))?;
        self.run(python, &[])?;
        self.run(python, &DISCRETE)?;
        let mut merge = Command::new(&self.merge);
        process::run(merge.arg("merge").arg("--output").arg(self.merged()).arg(&self.folder))
    }

    /// Runs the programs, whose counts go to a file of their own.
    fn run(&self, python: &Path, environment: &[(&str, &str)]) -> Result<()> {
        let mut programs = Command::new(python);
        programs.args(["-B", "tests/python/workload.py"]).current_dir(paths::root());
        programs.env_remove("MLX_VULKAN_UPSTREAM");
        generate::allow_software(&mut programs);
        process::default_envs(&mut programs, &test::DEFAULTS);
        programs.envs(environment.iter().copied());
        programs.env("LLVM_PROFILE_FILE", self.folder.join("%m_%p.profraw"));
        process::run(&mut programs)
    }
}

/// Has a command's compiler take one more flag.
fn add_flag(command: &mut Command, flag: &str) {
    let set = command.get_envs().find(|(name, _)| *name == "RUSTFLAGS");
    let others = match set {
        Some((_, value)) => value.map(Into::into),
        None => env::var_os("RUSTFLAGS"),
    };
    let mut flags = others.unwrap_or_default();
    flags.push(" ");
    flags.push(flag);
    command.env("RUSTFLAGS", flags);
    // It would be taken instead.
    command.env_remove("CARGO_ENCODED_RUSTFLAGS");
}
