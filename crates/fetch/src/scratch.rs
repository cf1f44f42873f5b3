//! A folder for files that are not finished.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder that is gone when the work in it is over, however it ended.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    const PREFIX: &'static str = ".fetch-";

    /// Makes the folder inside `folder`, which is made too.
    pub(crate) fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Self::sweep(folder);
        let path = folder.join(format!("{}{}", Self::PREFIX, std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Removes what a killed process left: a folder whose process is not alive any more.
    fn sweep(folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.strip_prefix(Self::PREFIX).is_some_and(|process| !is_alive(process)) {
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

    #[test]
    fn leftovers_of_dead_processes_are_swept() {
        let folder = tempfile::tempdir().unwrap();
        let dead = folder.path().join(".fetch-4294967295");
        fs::create_dir(&dead).unwrap();
        drop(Scratch::create(folder.path()).unwrap());
        assert!(!Path::new("/proc/self").exists() || !dead.exists());
    }
}
