//! No line of the repository is wider than what two files side by side leave.

use crate::error::{Context, Error, Result};
use crate::paths;
use std::fs;
use std::path::{Path, PathBuf};

/// The most columns of a line; rustfmt keeps code at 100.
const WIDTH: usize = 110;

/// What is written by hand, by the ends of the files' names.
const EXTENSIONS: [&str; 7] = ["rs", "comp", "glsl", "md", "toml", "py", "sh"];

/// Folders of what is made.
const MADE: [&str; 2] = ["target", "corpus"];

/// Refuses lines that are too wide.
///
/// # Errors
/// Names every such line.
pub(super) fn check(root: &Path) -> Result<()> {
    let mut wide = Vec::new();
    for path in files(root, &EXTENSIONS)? {
        let text =
            fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
        let numbers: Vec<_> = too_wide(&text).map(|number| number.to_string()).collect();
        if !numbers.is_empty() {
            wide.push(format!("{}:{}", paths::shown(&path), numbers.join(",")));
        }
    }
    match wide.is_empty() {
        true => Ok(()),
        false => Err(Error::new(format!("wider than {WIDTH} columns: {}", wide.join(", ")))),
    }
}

/// The numbers of the lines that are too wide, counted from one.
fn too_wide(text: &str) -> impl Iterator<Item = usize> {
    let lines = text.lines().enumerate();
    lines.filter(|(_, line)| line.chars().count() > WIDTH).map(|(index, _)| index + 1)
}

/// The files below `folder` whose names end in one of `extensions`, in order; links are not followed.
pub(super) fn files(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read the folder {}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).context(cannot)? {
        let entry = entry.context(cannot)?;
        let kind = entry.file_type().context(cannot)?;
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        if kind.is_dir() && !name.starts_with('.') && !MADE.contains(&&*name) {
            found.extend(files(&path, extensions)?);
        } else if kind.is_file()
            && path.extension().is_some_and(|found| extensions.iter().any(|known| found == *known))
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_counted_not_bytes() {
        let text = format!("{}\n{}\nshort\n", "µ".repeat(WIDTH), "x".repeat(WIDTH + 1));
        assert_eq!(too_wide(&text).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn hidden_and_made_folders_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        for file in ["a/b.rs", "a/target/c.rs", ".venv/d.py", "e.spv"] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "x".repeat(WIDTH + 1)).unwrap();
        }
        assert_eq!(files(root.path(), &EXTENSIONS).unwrap(), [root.path().join("a/b.rs")]);
        assert!(check(root.path()).unwrap_err().to_string().ends_with("b.rs:1"));
    }
}
