//! The wheel that users install.

use crate::error::{Context, Error, Result};
use crate::paths;
use crate::process;
use crate::python::profile::Counts;
use crate::venv;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest C library that the wheel runs with, on Linux. zig links for it, whatever this machine has.
const PLATFORM: &str = "manylinux_2_28";

/// Builds the wheel, by a profile if it shall be `profiled`, and installs it.
pub(super) fn install(python: &Path, profiled: bool) -> Result<()> {
    let folder = paths::target().join("wheels");
    let wheel = match profiled {
        true => {
            let counts = Counts::new()?;
            let apart = paths::target().join("counting");
            let counting = |maturin: &mut Command| counts.count(maturin);
            put(python, &build(python, &apart, Linked::Here, counting)?)?;
            let counted = counts.take(python);
            // Nobody else shall count.
            process::run(venv::pip(python).args(["uninstall", "--yes", "mlx-vulkan"]))?;
            counted?;
            build(python, &folder, Linked::Anywhere, |maturin| counts.tell(maturin))?
        }
        false => build(python, &folder, Linked::Anywhere, |_| ())?,
    };
    put(python, &wheel)?;
    println!("{}", paths::shown(&wheel));
    Ok(())
}

/// Installs a wheel in the place of the one before.
fn put(python: &Path, wheel: &Path) -> Result<()> {
    let mut pip = venv::pip(python);
    process::run(pip.args(["install", "--force-reinstall", "--no-deps"]).arg(wheel))
}

/// Where an extension is to run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Linked {
    /// With the C library of this machine.
    Here,
    /// With that of [`PLATFORM`], too.
    Anywhere,
}

/// Builds a wheel and returns where it lies. `flag` has the last word on the command.
fn build(
    python: &Path,
    folder: &Path,
    linked: Linked,
    flag: impl FnOnce(&mut Command),
) -> Result<PathBuf> {
    let mut maturin = Command::new(python);
    // maturin asks the first Python on the path for zig.
    maturin.env("PATH", path_before(python.parent().unwrap_or(Path::new(".")))?);
    maturin.args(["-m", "maturin", "build", "--release", "--manifest-path"]);
    maturin.arg(paths::root().join("crates/python/Cargo.toml")).arg("--out").arg(folder);
    if env::consts::OS == "linux" {
        process::run(venv::pip(python).args(["install", "ziglang"]))?;
        maturin.args(["--zig", "--compatibility", PLATFORM]);
        if linked == Linked::Here {
            maturin.args(["--auditwheel", "skip"]);
        }
    }
    flag(&mut maturin);
    process::run(&mut maturin)?;
    newest(folder)
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
