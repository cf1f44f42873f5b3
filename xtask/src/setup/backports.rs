//! Debian's backports as a package source, derived from the machine's own source list.
//!
//! Whoever set the machine up chose where its packages come from (a mirror, a proxy, a snapshot); the
//! backports suite is asked of that same place, so no host is ever named here.

use std::fs;
use std::path::{Path, PathBuf};

/// A place that serves a suite: what a backports entry is derived from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    uri: String,
    suites: Vec<String>,
    signed_by: Option<String>,
}

impl Source {
    /// The text of a deb822 file that adds `suite` from the same place, trusted by the same key.
    pub(crate) fn stanza(&self, suite: &str) -> String {
        let key = self.signed_by.as_ref().map(|key| format!("Signed-By: {key}\n"));
        let key = key.unwrap_or_default();
        format!("Types: deb\nURIs: {}\nSuites: {suite}\nComponents: main\n{key}", self.uri)
    }

    fn serves(&self, suite: &str) -> bool {
        self.suites.iter().any(|served| served == suite)
    }
}

/// What the machine's lists say about `codename` and its backports.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Backports {
    /// The lists name the suite already.
    Listed,
    /// The suite can be asked of this source.
    Derived(Source),
    /// No source serves the release itself, so there is nothing to derive from.
    Unknown,
}

/// Reads the machine's lists.
pub(crate) fn of_machine(codename: &str) -> Backports {
    let sources = list_files().iter().flat_map(|path| read_list(path)).collect();
    find(sources, codename)
}

fn find(sources: Vec<Source>, codename: &str) -> Backports {
    let suite = suite(codename);
    if sources.iter().any(|source| source.serves(&suite)) {
        return Backports::Listed;
    }
    let base = sources.into_iter().find(|source| source.serves(codename));
    base.map_or(Backports::Unknown, Backports::Derived)
}

/// The name of the backports suite of a release.
pub(crate) fn suite(codename: &str) -> String {
    format!("{codename}-backports")
}

fn list_files() -> Vec<PathBuf> {
    let parts = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let mut files: Vec<_> = parts.map(|entry| entry.path()).collect();
    files.push(PathBuf::from("/etc/apt/sources.list"));
    files.sort();
    files
}

fn read_list(path: &Path) -> Vec<Source> {
    let text = fs::read_to_string(path).unwrap_or_default();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("sources") => parse_deb822(&text),
        Some("list") => parse_one_line(&text),
        _ => Vec::new(),
    }
}

/// Parses the format of `*.sources`: stanzas of `Field: values`, apart by empty lines.
fn parse_deb822(text: &str) -> Vec<Source> {
    let without_comments = text.lines().filter(|line| !line.starts_with('#'));
    let text = without_comments.collect::<Vec<_>>().join("\n");
    text.split("\n\n").filter_map(parse_stanza).collect()
}

fn parse_stanza(stanza: &str) -> Option<Source> {
    let field = |name: &str| {
        let line = stanza.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim).filter(|value| !value.is_empty())
    };
    let binary = field("Types")?.split_whitespace().any(|kind| kind == "deb");
    if !binary || field("Enabled") == Some("no") {
        return None;
    }
    Some(Source {
        uri: field("URIs")?.split_whitespace().next()?.to_owned(),
        suites: field("Suites")?.split_whitespace().map(str::to_owned).collect(),
        signed_by: field("Signed-By").map(str::to_owned),
    })
}

/// Parses the format of `sources.list`: `deb [options] uri suite component…`, one source a line.
fn parse_one_line(text: &str) -> Vec<Source> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Source> {
    let rest = line.trim().strip_prefix("deb")?;
    let rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace().map(str::to_owned);
    let key = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
    Some(Source {
        uri: words.next()?,
        suites: vec![words.next()?],
        signed_by: key.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822: &str = "Types: deb\n# a comment\nURIs: mirror://here/debian mirror://there/debian\n\
                          Suites: bookworm bookworm-updates\nComponents: main\n\
                          Signed-By: /keys/debian.gpg\n\nTypes: deb\nURIs: mirror://here/security\n\
                          Suites: bookworm-security\nComponents: main\n";

    fn derived(sources: Vec<Source>) -> Source {
        match find(sources, "bookworm") {
            Backports::Derived(source) => source,
            other => panic!("expected a derived source, got {other:?}"),
        }
    }

    #[test]
    fn deb822_gives_the_place_and_the_key() {
        let stanza = derived(parse_deb822(DEB822)).stanza("bookworm-backports");
        let expected = "Types: deb\nURIs: mirror://here/debian\nSuites: bookworm-backports\n\
                        Components: main\nSigned-By: /keys/debian.gpg\n";
        assert_eq!(stanza, expected);
    }

    #[test]
    fn one_line_lists_give_the_place_with_and_without_options() {
        let text = "# deb mirror://no/debian bookworm main\ndeb-src mirror://src/debian bookworm main\n\
                    deb [arch=amd64 signed-by=/keys/d.gpg] mirror://here/debian bookworm main contrib\n";
        let source = derived(parse_one_line(text));
        assert_eq!(source.uri, "mirror://here/debian");
        assert_eq!(source.signed_by.as_deref(), Some("/keys/d.gpg"));
        let plain = derived(parse_one_line("deb mirror://plain/debian bookworm main"));
        assert_eq!(
            plain.stanza("s"),
            "Types: deb\nURIs: mirror://plain/debian\nSuites: s\nComponents: main\n"
        );
    }

    #[test]
    fn a_listed_suite_is_not_added_again() {
        let sources = parse_one_line(
            "deb mirror://a/debian bookworm main\ndeb mirror://a/debian bookworm-backports main",
        );
        assert_eq!(find(sources, "bookworm"), Backports::Listed);
    }

    #[test]
    fn disabled_sources_and_other_releases_give_nothing() {
        let off = parse_deb822(
            "Types: deb\nEnabled: no\nURIs: mirror://a\nSuites: bookworm\nComponents: main\n",
        );
        assert_eq!(find(off, "bookworm"), Backports::Unknown);
        assert_eq!(find(parse_deb822(DEB822), "trixie"), Backports::Unknown);
    }
}
