//! Files that appear whole or not at all.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
};

use super::context::Context;
use crate::Result;

/// Writes a file next to `path` and renames it there once `fill` has succeeded and its bytes are on
/// the disk. When anything fails, a full disk included, the new file is removed and what was at
/// `path` stays as it was. A file that is mapped keeps its old contents for those who mapped it.
///
/// # Errors
/// What `fill` returned, or why the file cannot be created, flushed or renamed.
pub(crate) fn write_file(
    op: &'static str,
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<&File>, Context<'_>) -> Result<()>,
) -> Result<()> {
    let context = Context::new(op, path);
    // A link stays a link: the file that it names is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    if fs::metadata(&target).is_ok_and(|m| !m.is_file()) {
        return Err(context.error("file", "is not a regular file"));
    }
    let folder = match target.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".mlx-").suffix(".part");
    #[cfg(unix)]
    {
        // Temporary files are private by default; this one will be a file like any other.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let on_create = |e| context.error("file", format_args!("cannot be created: {e}"));
    let temporary = builder.tempfile_in(folder).map_err(on_create)?;
    let mut out = BufWriter::with_capacity(1 << 20, temporary.as_file());
    let filled =
        fill(&mut out, context).and_then(|()| out.flush().map_err(context.on_write("file")));
    if let Err(error) = filled {
        // Without this, dropping the writer would try to write the rest.
        drop(out.into_parts());
        return Err(error);
    }
    drop(out);
    // Some file systems find out only here that the disk is full.
    temporary.as_file().sync_data().map_err(context.on_write("file"))?;
    temporary.persist(&target).map_err(|e| context.on_write("file")(e.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_failed_write_leaves_nothing_and_keeps_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.bin");
        for before in [None, Some(b"old")] {
            if let Some(bytes) = before {
                fs::write(&path, bytes).unwrap();
            }
            // More than the buffer, so that half of it is on the disk when the disk is full.
            let error = write_file("save", &path, |out, context| {
                out.write_all(&vec![7; 3 << 20]).map_err(context.on_write("tensor \"w\""))?;
                let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
                Err(full).map_err(context.on_write("tensor \"w\""))
            });
            let message = error.unwrap_err().to_string();
            assert!(message.contains("a.bin") && message.contains("tensor \"w\""), "{message}");
            assert_eq!(names(folder.path()).len(), before.iter().len());
            assert_eq!(fs::read(&path).ok().as_deref(), before.map(|b| b.as_slice()));
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_written_file_is_readable_as_others_and_links_survive() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a.bin"), folder.path().join("link.bin"));
        let write = |path: &Path, text: &str| {
            write_file("save", path, |out, c| {
                out.write_all(text.as_bytes()).map_err(c.on_write("x"))
            })
        };
        write(&path, "one").unwrap();
        let usual = File::create(folder.path().join("usual")).unwrap().metadata().unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode, usual.permissions().mode());
        symlink(&path, &link).unwrap();
        write(&link, "two").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert!(write(Path::new("/dev/null"), "x").is_err());
    }
}
