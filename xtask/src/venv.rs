//! Pythons of our own, kept in the cache: each with the packages that a task asks for.

use crate::error::{Context, Error, Result};
use crate::process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release of upstream whose behaviour is the contract.
pub(crate) const UPSTREAM: &str = "mlx[cpu]==0.32.4";

/// Holds the packages once they are installed; written last, so that a broken folder is made anew.
const MARK: &str = "installed";

/// An environment: a folder in the cache, and what is installed there.
pub(crate) struct Venv {
    /// The folder's name.
    pub(crate) name: &'static str,
    /// What pip is given.
    pub(crate) packages: &'static [&'static str],
    /// What must be there to be imported.
    pub(crate) imports: &'static str,
}

impl Venv {
    /// The interpreter, after everything was installed for it if it was not before.
    ///
    /// # Errors
    /// When there is no Python with `venv`, or pip cannot install the packages.
    pub(crate) fn python(&self) -> Result<PathBuf> {
        let folder = mlx_fetch::cache()?.join(self.name);
        let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
        let mark = folder.join(MARK);
        let wanted = self.packages.join("\n");
        if fs::read_to_string(&mark).is_ok_and(|found| found == wanted) && self.works(&python) {
            return Ok(python);
        }
        process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        process::run(pip(&python).arg("install").args(self.packages))?;
        fs::write(&mark, wanted).context(|| format!("cannot write {}", mark.display()))?;
        Ok(python)
    }

    /// Whether the interpreter starts and finds its packages: the system's Python may have gone.
    fn works(&self, python: &Path) -> bool {
        process::succeeds(Command::new(python).args(["-c", &format!("import {}", self.imports)]))
    }
}

/// pip of an environment.
pub(crate) fn pip(python: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "--disable-pip-version-check", "--quiet"]);
    pip
}

/// Where an environment's packages lie.
pub(crate) fn site_packages(python: &Path) -> Result<PathBuf> {
    let ask = "import sysconfig; print(sysconfig.get_path('platlib'))";
    let said = process::capture(Command::new(python).args(["-c", ask]))?;
    let said = String::from_utf8(said).map_err(|_| Error::new("a path that is no text"))?;
    Ok(PathBuf::from(said.trim()))
}
