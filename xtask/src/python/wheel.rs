//! The wheel that users install.

use crate::error::{Context, Error, Result};
use crate::paths;
use crate::process;
use crate::venv;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest C library that the wheel runs with, on Linux. zig links for it, whatever this machine has.
const PLATFORM: &str = "manylinux_2_28";

/// Builds the wheel and installs it.
pub(super) fn install(python: &Path) -> Result<()> {
    let wheel = build(python)?;
    let mut pip = venv::pip(python);
    process::run(pip.args(["install", "--force-reinstall", "--no-deps"]).arg(&wheel))?;
    println!("{}", paths::shown(&wheel));
    Ok(())
}

/// Builds the wheel and returns where it lies.
fn build(python: &Path) -> Result<PathBuf> {
    let folder = paths::target().join("wheels");
    let mut maturin = Command::new(python);
    // maturin asks the first Python on the path for zig.
    maturin.env("PATH", path_before(python.parent().unwrap_or(Path::new(".")))?);
    maturin.args(["-m", "maturin", "build", "--release", "--manifest-path"]);
    maturin.arg(paths::root().join("crates/python/Cargo.toml")).arg("--out").arg(&folder);
    if env::consts::OS == "linux" {
        process::run(venv::pip(python).args(["install", "ziglang"]))?;
        maturin.args(["--zig", "--compatibility", PLATFORM]);
    }
    process::run(&mut maturin)?;
    newest(&folder)
}

/// The path of programs, with a folder before all others.
fn path_before(folder: &Path) -> Result<OsString> {
    let others = env::var_os("PATH").unwrap_or_default();
    let folders = iter::once(folder.to_owned()).chain(env::split_paths(&others));
    env::join_paths(folders).context(|| format!("{} cannot be on the path", folder.display()))
}

fn newest(folder: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).context(|| format!("cannot read {}", folder.display()))?;
    let wheels = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let written = path.metadata().ok()?.modified().ok()?;
        path.extension().is_some_and(|e| e == "whl").then_some((written, path))
    });
    let newest = wheels.max().map(|(_, path)| path);
    newest.ok_or_else(|| Error::new(format!("maturin left no wheel in {}", folder.display())))
}
