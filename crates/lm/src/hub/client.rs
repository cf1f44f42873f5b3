//! What is asked of a hub.

use std::{io::Read, time::Duration};

use serde::Deserialize;
use ureq::{
    Agent, Body,
    http::{HeaderMap, Method, Request, Response, Uri, header},
};

use super::{
    Name,
    name::{is_commit, is_plain},
};
use crate::{Error, Result};

/// Most bytes of the list of a model's files.
const MAX_LISTING: u64 = 64 << 20;
/// Most redirects that are followed.
const MAX_REDIRECTS: usize = 8;

/// Requests to one hub.
pub(super) struct Client {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
}

/// A model's files at a commit.
#[derive(Debug, Deserialize)]
pub(super) struct Listing {
    #[serde(rename = "sha")]
    pub(super) commit: String,
    siblings: Vec<Sibling>,
}

#[derive(Debug, Deserialize)]
struct Sibling {
    rfilename: String,
}

impl Listing {
    /// Names of the files that are in no folder.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.siblings.iter().map(|s| s.rfilename.as_str()).filter(|name| is_plain(name))
    }
}

/// What is known of a file before it is fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remote {
    pub(super) file: String,
    /// Name of its content.
    pub(super) etag: String,
    /// Bytes.
    pub(super) size: u64,
}

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nobody answered, or the connection broke.
    Unreachable(String),
    /// The hub answered, and this is what it means.
    Refused(String),
}

impl From<ureq::Error> for Failure {
    fn from(error: ureq::Error) -> Self {
        Self::Unreachable(error.to_string())
    }
}

impl Client {
    pub(super) fn new(endpoint: &str, token: Option<String>) -> Result<Self> {
        let uri = endpoint.parse::<Uri>().ok();
        let usable =
            |uri: &Uri| uri.host().is_some() && matches!(uri.scheme_str(), Some("http" | "https"));
        if !uri.as_ref().is_some_and(usable) {
            return Err(Error::argument(
                "HF_ENDPOINT",
                format!("{endpoint:?} is no address of a hub"),
            ));
        }
        let agent = Agent::config_builder()
            .user_agent(concat!("mlx-vulkan/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            // Followed here, because the token must not go to another server.
            .max_redirects(0)
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .build();
        Ok(Self { agent: agent.into(), endpoint: endpoint.to_owned(), token })
    }

    /// The commit that a revision is at, with its files.
    pub(super) fn listing(&self, name: &Name) -> Result<Listing, Failure> {
        let (id, revision) = (name.id(), escaped(name.revision()));
        let url = format!("{}/api/models/{id}/revision/{revision}", self.endpoint);
        let response = self.follow(Method::GET, url, None, true)?;
        let response = self.accept(name, response)?;
        let bytes = response.into_body().into_with_config().limit(MAX_LISTING).read_to_vec()?;
        let listing: Option<Listing> = serde_json::from_slice(&bytes).ok();
        listing.filter(|l| is_commit(&l.commit)).ok_or_else(|| {
            Failure::Refused(format!(
                "{} sent no list of a model's files: is it a hub?",
                self.endpoint
            ))
        })
    }

    /// What a file is at a commit.
    pub(super) fn remote(&self, name: &Name, commit: &str, file: &str) -> Result<Remote, Failure> {
        // The hub itself knows the content's name and size; where it is stored is another server's matter.
        let response = self.follow(Method::HEAD, self.url(name, commit, file), None, false)?;
        let response = self.accept(name, response)?;
        let headers = response.headers();
        let etag = text(headers, "x-linked-etag").or_else(|| text(headers, "etag"));
        let etag = etag.map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_owned());
        let length =
            || text(headers, "content-length").filter(|_| !response.status().is_redirection());
        let size =
            text(headers, "x-linked-size").or_else(length).and_then(|size| size.parse().ok());
        match (etag.filter(|etag| is_plain(etag)), size) {
            (Some(etag), Some(size)) => Ok(Remote { file: file.to_owned(), etag, size }),
            _ => Err(Failure::Refused(format!("{} does not say what {file} is", self.endpoint))),
        }
    }

    /// A file's content from a byte on. Also returns whether it begins there: a server may send all of it.
    pub(super) fn content(
        &self,
        name: &Name,
        commit: &str,
        file: &str,
        from: u64,
    ) -> Result<(bool, impl Read + use<>), Failure> {
        let range = (from > 0).then(|| format!("bytes={from}-"));
        let response = self.follow(Method::GET, self.url(name, commit, file), range, true)?;
        let response = self.accept(name, response)?;
        let begins = text(response.headers(), "content-range")
            .is_some_and(|range| range.starts_with(&format!("bytes {from}-")));
        let partial = response.status().as_u16() == 206 && begins;
        Ok((partial, response.into_body().into_reader()))
    }

    fn url(&self, name: &Name, commit: &str, file: &str) -> String {
        format!("{}/{}/resolve/{commit}/{}", self.endpoint, name.id(), escaped(file))
    }

    /// The answer to a request, redirects followed: to other servers only if `away`.
    fn follow(
        &self,
        method: Method,
        mut url: String,
        range: Option<String>,
        away: bool,
    ) -> Result<Response<Body>, Failure> {
        for _ in 0..MAX_REDIRECTS {
            let mut request = Request::builder().method(method.clone()).uri(&url);
            if let Some(token) =
                self.token.as_ref().filter(|_| origin(&url) == origin(&self.endpoint))
            {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            if let Some(range) = &range {
                request = request.header(header::RANGE, range);
            }
            let request = request.body(()).map_err(ureq::Error::from)?;
            let response = self.agent.run(request)?;
            let target = text(response.headers(), "location")
                .filter(|_| response.status().is_redirection())
                .map(|location| absolute(&url, location));
            match target {
                Some(target) if away || origin(&target) == origin(&url) => url = target,
                _ => return Ok(response),
            }
        }
        Err(Failure::Refused(format!("{} sends requests round in circles", self.endpoint)))
    }

    /// The answer, unless it is that of a refusal.
    fn accept(&self, name: &Name, response: Response<Body>) -> Result<Response<Body>, Failure> {
        let status = response.status();
        if status.is_success() || status.is_redirection() {
            return Ok(response);
        }
        let (hub, id) = (&self.endpoint, name.id());
        let code = text(response.headers(), "x-error-code").unwrap_or_default();
        Err(Failure::Refused(match (status.as_u16(), code) {
            (_, "GatedRepo") | (403, _) => {
                format!(
                    "access is restricted: ask for it at {hub}/{id}, and set HF_TOKEN to your token"
                )
            }
            (_, "RevisionNotFound") => {
                format!(
                    "{hub} knows no revision {:?} of it: check what follows the @",
                    name.revision()
                )
            }
            (401, _) if self.token.is_some() => {
                format!(
                    "there is no such path, and {hub} knows no such model or not this token: check both"
                )
            }
            (401 | 404, _) => format!(
                "there is no such path, and {hub} knows no such model: check the name, and set HF_TOKEN if \
                 it is private"
            ),
            (status, _) => format!("{hub} answers with status {status}: try again later"),
        }))
    }
}

/// A header that is text.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Scheme, host and port.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    &url[..end]
}

/// Where a redirect from `url` leads.
fn absolute(url: &str, location: &str) -> String {
    let scheme = url.split("//").next().unwrap_or_default();
    if location.starts_with("//") {
        format!("{scheme}{location}")
    } else if location.starts_with('/') {
        format!("{}{location}", origin(url))
    } else {
        location.to_owned()
    }
}

/// A part of an address.
fn escaped(part: &str) -> String {
    let byte = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(b).to_string(),
        other => format!("%{other:02X}"),
    };
    part.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(origin("http://a:1/b/c?d"), "http://a:1");
        assert_eq!(origin("https://a"), "https://a");
        assert_eq!(absolute("http://a:1/b", "/c"), "http://a:1/c");
        assert_eq!(absolute("https://a/b", "//c/d"), "https://c/d");
        assert_eq!(absolute("http://a/b", "https://c/d"), "https://c/d");
        assert_eq!(escaped("refs/pr/1 ä.json"), "refs%2Fpr%2F1%20%C3%A4.json");
        for endpoint in ["", "huggingface.co", "ftp://a", "http://"] {
            assert!(Client::new(endpoint, None).is_err(), "{endpoint}");
        }
    }
}
