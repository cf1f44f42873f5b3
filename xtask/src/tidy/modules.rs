//! Every source is a module of something: a file that nobody declares is not compiled, and its tests do not
//! run.

use super::lines;
use crate::error::{Context, Error, Result};
use crate::paths;
use std::fs;
use std::path::{Path, PathBuf};

/// Refuses sources that no file declares.
///
/// # Errors
/// Names every one.
pub(super) fn check(root: &Path) -> Result<()> {
    let mut forgotten = Vec::new();
    for path in lines::files(root, &["rs"])? {
        if is_forgotten(&path)? {
            forgotten.push(paths::shown(&path).to_string());
        }
    }
    match forgotten.is_empty() {
        true => Ok(()),
        false => Err(Error::new(format!("declared by no module: {}", forgotten.join(", ")))),
    }
}

/// Whether a source lies in the folder of a module or of a target that does not name it.
fn is_forgotten(path: &Path) -> Result<bool> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_stem()) else { return Ok(false) };
    let (folder, name) = match name.to_str() {
        Some("main" | "lib" | "build") => return Ok(false),
        Some("mod") => (folder.parent().unwrap_or(folder), folder.file_name().unwrap_or(name)),
        _ => (folder, name),
    };
    let name = name.to_string_lossy();
    let roots = roots(folder);
    let (module, file) = (format!("mod {name};"), format!("\"{name}.rs\""));
    if roots.is_empty() || mentioned(&roots, |line| line.ends_with(&module))? {
        return Ok(false);
    }
    // `include!` and `#[path]` look in the folder of who says so.
    let neighbours = lines::files(folder, &["rs"])?;
    Ok(!mentioned(&neighbours, |line| line.contains(&file))?)
}

/// Whether a line of one of these files is as it is looked for.
fn mentioned(files: &[PathBuf], line: impl Fn(&str) -> bool) -> Result<bool> {
    for file in files {
        let text =
            fs::read_to_string(file).context(|| format!("cannot read {}", file.display()))?;
        if text.lines().any(&line) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The files that can declare the modules of a folder.
fn roots(folder: &Path) -> Vec<PathBuf> {
    let mut roots = ["mod.rs", "main.rs", "lib.rs"].map(|name| folder.join(name)).to_vec();
    roots.push(folder.with_extension("rs"));
    roots.retain(|root| root.is_file());
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_declared_beside_or_above() {
        let root = tempfile::tempdir().unwrap();
        let files = [
            ("ops/main.rs", "mod a;\npub(crate) mod folder;\n"),
            ("ops/a.rs", "mod inner;\n"),
            ("ops/a/inner.rs", "include!(\"table.rs\");\n"),
            ("ops/a/table.rs", ""),
            ("ops/folder/mod.rs", ""),
            ("examples/alone.rs", ""),
        ];
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        check(root.path()).unwrap();
        for file in ["ops/b.rs", "ops/a/other.rs", "ops/more/mod.rs"] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            assert!(check(root.path()).unwrap_err().to_string().contains(file), "{file}");
            fs::remove_file(path).unwrap();
        }
    }
}
