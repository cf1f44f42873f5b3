//! The cache's folders, as `huggingface_hub` lays them out: `blobs` by content, `snapshots` with a link for
//! each file of a commit, `refs` from branches to commits, and locks beside them.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use super::{Name, name::is_commit};

/// The part of the cache that is one model's.
pub(super) struct Cache {
    folder: PathBuf,
    locks: PathBuf,
}

impl Cache {
    pub(super) fn new(cache: &Path, name: &Name) -> Self {
        let folder = format!("models--{}", name.id().replace('/', "--"));
        Self { locks: cache.join(".locks").join(&folder), folder: cache.join(folder) }
    }

    /// Where a file's content lies once it is whole.
    pub(super) fn blob(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(etag)
    }

    /// Where a file's content lies before.
    pub(super) fn incomplete(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(format!("{etag}.incomplete"))
    }

    /// The folder of a commit's files.
    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// The folder of a revision's files, if it was fetched before.
    pub(super) fn snapshot_of(&self, revision: &str) -> Option<PathBuf> {
        if is_commit(revision) {
            return Some(self.snapshot(revision));
        }
        let commit = fs::read_to_string(self.reference(revision)).ok()?;
        is_commit(commit.trim()).then(|| self.snapshot(commit.trim()))
    }

    fn reference(&self, revision: &str) -> PathBuf {
        self.folder.join("refs").join(revision)
    }

    /// Keeps what commit a branch or tag was at.
    pub(super) fn set_reference(&self, revision: &str, commit: &str) -> io::Result<()> {
        let path = self.reference(revision);
        match is_commit(revision) {
            true => Ok(()),
            false => make_parent(&path).and_then(|()| fs::write(path, commit)),
        }
    }

    /// Keeps other processes from fetching the same content until the lock is dropped; waits for them.
    pub(super) fn lock(&self, etag: &str) -> io::Result<File> {
        let path = self.locks.join(format!("{etag}.lock"));
        make_parent(&path)?;
        let file = File::options().create(true).append(true).open(path)?;
        file.lock()?;
        Ok(file)
    }

    /// Puts a whole blob into a commit's folder under its name.
    pub(super) fn link(&self, commit: &str, file: &str, etag: &str) -> io::Result<()> {
        let path = self.snapshot(commit).join(file);
        make_parent(&path)?;
        // What another process linked meanwhile is the same.
        if path.exists() {
            return Ok(());
        }
        // A link to a blob that somebody deleted.
        if path.is_symlink() {
            fs::remove_file(&path)?;
        }
        place(&self.blob(etag), etag, &path)
    }
}

#[cfg(unix)]
fn place(_blob: &Path, etag: &str, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(Path::new("../../blobs").join(etag), path)
}

/// Links need rights that few users have, so the file itself goes there, as `huggingface_hub` does it.
#[cfg(not(unix))]
fn place(blob: &Path, _etag: &str, path: &Path) -> io::Result<()> {
    fs::rename(blob, path)
}

/// Makes the folder of a file.
pub(super) fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}
