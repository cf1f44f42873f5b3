//! Names of models.

use crate::Error;

/// The name of a model on the hub, with the revision that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    id: String,
    revision: String,
}

impl Name {
    /// From `ORG/NAME` or `ORG/NAME@REVISION`; none if it is neither. Names of model files are none.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, revision) = text.split_once('@').unwrap_or((text, "main"));
        let (organization, model) = id.split_once('/')?;
        let is_name = |part: &str| is_plain(part) && !part.contains("--");
        let is_file = [".gguf", ".safetensors"].iter().any(|end| model.ends_with(end));
        let fits = is_name(organization) && is_name(model) && !is_file;
        let named = fits && revision.split('/').all(is_plain);
        named.then(|| Self { id: id.to_owned(), revision: revision.to_owned() })
    }

    /// `ORG/NAME`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Branch, tag or commit.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Whether the revision is a commit, whose files never change.
    pub(super) fn is_commit(&self) -> bool {
        is_commit(&self.revision)
    }

    /// An error about this model.
    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        Error::Hub { name: self.id.clone(), message: message.into() }
    }
}

/// Whether this is the hash of a commit.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Whether this can be a part of a path that stays where it is: what a server sends becomes names of files.
pub(super) fn is_plain(part: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.+= ".contains(&b);
    let first = part.bytes().next();
    first.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        && part.bytes().all(allowed)
        && !part.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_two_parts_and_perhaps_a_revision() {
        let parts = |text| Name::parse(text).map(|name| (name.id, name.revision));
        let some = |id: &str, revision: &str| Some((id.to_owned(), revision.to_owned()));
        assert_eq!(parts("a/b"), some("a/b", "main"));
        assert_eq!(
            parts("mlx-community/Qwen3-0.6B_x@refs/pr/1"),
            some("mlx-community/Qwen3-0.6B_x", "refs/pr/1")
        );
        let paths = [
            "a", "/a/b", "a/b/c", "../a", "./a", "a/..", "a/b/", "~/a", "a--b/c", "a/b@",
            "a/b@../c",
        ];
        for path in paths.into_iter().chain(["models/a.gguf", "a/model.safetensors", ""]) {
            assert_eq!(parts(path), None, "{path}");
        }
    }

    #[test]
    fn commits_are_forty_hexadecimal_digits() {
        assert!(is_commit("0123456789abcdef0123456789abcdef01234567"));
        assert!(!is_commit("main") && !is_commit(&"g".repeat(40)));
    }
}
