//! Which files a GLSL source includes, directly and through others.

use crate::error::{Context, Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The source and every file it includes, each once, in the order they are met.
///
/// `#include "x"` means a file beside the one that names it, else one of the include folder; `#include <x>` a
/// file of the include folder. glslc and `shader!` find them in this same order.
///
/// # Errors
/// When a file cannot be read or found.
pub(crate) fn closure(source: &Path, include_folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = vec![source.to_path_buf()];
    let mut next = 0;
    while let Some(file) = files.get(next).cloned() {
        next += 1;
        let text =
            fs::read_to_string(&file).context(|| format!("cannot read {}", file.display()))?;
        for directive in text.lines().filter_map(Include::of_line) {
            let path = directive.resolve(&file, include_folder)?;
            if !files.contains(&path) {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// An `#include` directive.
#[derive(Debug, PartialEq, Eq)]
enum Include<'a> {
    /// `"name"`.
    Beside(&'a str),
    /// `<name>`.
    FromFolder(&'a str),
}

impl<'a> Include<'a> {
    fn of_line(line: &'a str) -> Option<Self> {
        let rest =
            line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
        let beside = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        let folder = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
        beside
            .map(|(name, _)| Self::Beside(name))
            .or(folder.map(|(name, _)| Self::FromFolder(name)))
    }

    fn resolve(&self, from: &Path, include_folder: &Path) -> Result<PathBuf> {
        let (name, candidates) = match self {
            Self::Beside(name) => {
                (name, vec![from.with_file_name(name), include_folder.join(name)])
            }
            Self::FromFolder(name) => (name, vec![include_folder.join(name)]),
        };
        let found = candidates.into_iter().find(|path| path.is_file());
        found.ok_or_else(|| Error::new(format!("{}: no file {name} to include", from.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_told_from_other_lines() {
        assert_eq!(
            Include::of_line("#include <types.glsl>"),
            Some(Include::FromFolder("types.glsl"))
        );
        assert_eq!(
            Include::of_line("  # include \"tile.glsl\" // why"),
            Some(Include::Beside("tile.glsl"))
        );
        assert_eq!(Include::of_line("// #include <types.glsl>"), None);
        assert_eq!(Include::of_line("#define include <a>"), None);
    }

    #[test]
    fn includes_of_includes_are_followed_once() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        let source = write("unary/a.comp", "#include <x.glsl>\n#include \"b.glsl\"\n");
        let beside = write("unary/b.glsl", "#include \"x.glsl\"\n");
        let shared = write("include/x.glsl", "#include \"y.glsl\"\n");
        let nested = write("include/y.glsl", "#include <x.glsl>\n");
        let found = closure(&source, &root.path().join("include")).unwrap();
        assert_eq!(found, [source.clone(), shared, beside, nested]);
        fs::write(&source, "#include <b.glsl>\n").unwrap();
        let error = closure(&source, &root.path().join("include")).unwrap_err().to_string();
        assert!(error.ends_with("a.comp: no file b.glsl to include"), "{error}");
    }
}
