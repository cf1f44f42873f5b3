//! The Python that upstream is installed for, kept in the cache.

use crate::error::{Context, Result};
use crate::process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is installed: the release whose behaviour is the contract.
const PACKAGES: [&str; 2] = ["mlx[cpu]==0.32.4", "numpy>=2"];

/// Holds [`PACKAGES`] once they are installed; written last, so that a broken folder is made anew.
const MARK: &str = "installed";

/// The interpreter, after everything was installed for it if it was not before.
///
/// # Errors
/// When there is no Python with `venv`, or pip cannot install the packages.
pub(super) fn python() -> Result<PathBuf> {
    let folder = mlx_fetch::cache()?.join("oracle");
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let mark = folder.join(MARK);
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(&mark).is_ok_and(|found| found == wanted) && works(&python) {
        return Ok(python);
    }
    process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--quiet"]).args(PACKAGES);
    process::run(&mut pip)?;
    fs::write(&mark, wanted).context(|| format!("cannot write {}", mark.display()))?;
    Ok(python)
}

/// Whether the interpreter starts and finds upstream: the system's Python may have gone.
fn works(python: &Path) -> bool {
    process::succeeds(Command::new(python).args(["-c", "import mlx.core, numpy"]))
}
