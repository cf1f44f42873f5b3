//! Every dependency is used.
//!
//! A name that no source of its package mentions is unused; cargo-machete decides the same way,
//! but CI would have to compile it. The compiler's own lint looks at one target at a time, so it
//! cannot tell what only a test uses.

use super::lines;
use crate::error::{Context, Error, Result};
use crate::paths;
use std::fs;
use std::path::Path;

/// Refuses dependencies that their package does not mention.
///
/// # Errors
/// Names package folder and dependency of every one.
pub(super) fn check(root: &Path) -> Result<()> {
    let mut unused = Vec::new();
    for manifest in lines::files(root, &["toml"])? {
        let (Some(folder), true) = (manifest.parent(), manifest.ends_with("Cargo.toml")) else {
            continue;
        };
        let text = read(&manifest)?;
        // The workspace's own list is checked by the packages that take from it.
        if !text.contains("[package]") {
            continue;
        }
        let sources = lines::files(folder, &["rs"])?
            .iter()
            .map(|path| read(path))
            .collect::<Result<String>>()?;
        let names = dependencies(&text).filter(|name| !mentions(&sources, &name.replace('-', "_")));
        unused.extend(names.map(|name| format!("{name} of {}", paths::shown(folder))));
    }
    match unused.is_empty() {
        true => Ok(()),
        false => Err(Error::new(format!("unused dependencies: {}", unused.join(", ")))),
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).context(|| format!("cannot read {}", path.display()))
}

/// The names in the sections of dependencies of a manifest, as its package knows them.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    manifest.lines().filter_map(move |line| {
        if line.starts_with('[') {
            inside = line.ends_with("dependencies]") && !line.starts_with("[workspace");
            return None;
        }
        let name = line.split(['=', '.', ' ']).next().filter(|name| !name.is_empty())?;
        (inside && !name.starts_with('#')).then_some(name)
    })
}

/// Whether a path in `sources` begins with `name`, or `name` is imported.
fn mentions(sources: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    sources.match_indices(name).any(|(at, _)| {
        let (before, after) = (&sources[..at], &sources[at + name.len()..]);
        let imported = before.ends_with("use ") && after.starts_with([';', ' ']);
        !before.ends_with(is_part) && (after.starts_with("::") || imported)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"x\"\n\n[dependencies]\nused.workspace = true\n# why\n\
                            un-used = { version = \"1\" }\n\n[features]\nf = []\n\n\
                            [dev-dependencies]\nonly-tests = \"1\"\n";

    #[test]
    fn dependencies_are_read_from_their_sections() {
        assert_eq!(dependencies(MANIFEST).collect::<Vec<_>>(), ["used", "un-used", "only-tests"]);
    }

    #[test]
    fn names_are_found_whole() {
        assert!(mentions("use half::f16;", "half") && mentions("x: Vec<half::f16>", "half"));
        assert!(mentions("use clap as _;", "clap"));
        assert!(
            !mentions("let half = behalf::of();", "half") && !mentions("other_half::x", "half")
        );
    }

    #[test]
    fn unused_ones_are_named() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("p/src")).unwrap();
        fs::write(root.path().join("p/Cargo.toml"), MANIFEST).unwrap();
        fs::write(root.path().join("p/src/lib.rs"), "use used::x;\n").unwrap();
        let error = check(root.path()).unwrap_err().to_string();
        assert!(error.contains("un-used of") && error.contains("only-tests of"), "{error}");
        assert!(!error.contains(" used of"), "{error}");
    }
}
