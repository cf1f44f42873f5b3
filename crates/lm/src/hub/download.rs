//! From a hub into the cache.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::PathBuf,
};

use super::{
    Name,
    cache::{Cache, make_parent},
    client::{Client, Failure, Listing, Remote},
};
use crate::{Error, Result};

/// Times that a broken connection is taken up again although no byte came.
const ATTEMPTS: usize = 3;

/// Fetches what is missing of the files that a model needs; returns their folder.
pub(super) fn fetch(
    client: &Client,
    cache: &Cache,
    name: &Name,
    listing: &Listing,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<PathBuf> {
    let commit = &listing.commit;
    let snapshot = cache.snapshot(commit);
    let wanted = wanted(name, listing)?;
    let mut fetch = Fetch { client, cache, name, commit, progress, done: 0, total: 0 };
    let mut missing = Vec::new();
    for file in wanted.into_iter().filter(|file| !snapshot.join(file).exists()) {
        missing.push(client.remote(name, commit, file).map_err(|e| fetch.failed(file, e))?);
    }
    fetch.total = missing.iter().map(|remote| remote.size).sum();
    for remote in &missing {
        fetch.one(remote)?;
    }
    // Last, so that a revision without network is one whose files are all there.
    let kept = cache.set_reference(name.revision(), commit);
    kept.map_err(|e| name.error(format!("cannot write to the cache: {e}")))?;
    Ok(snapshot)
}

/// The files that a model needs, as `mlx_lm` chooses them: other formats of the same weights stay where they
/// are.
fn wanted<'a>(name: &Name, listing: &'a Listing) -> Result<Vec<&'a str>> {
    let all = || listing.files();
    let is_weights = |file: &str| file.starts_with("model") && file.ends_with(".safetensors");
    if all().any(|file| file == "config.json") && all().any(is_weights) {
        let beside = |file: &str| {
            file.ends_with(".json") || file.ends_with(".jinja") || file == "tokenizer.model"
        };
        return Ok(all().filter(|file| is_weights(file) || beside(file)).collect());
    }
    let ggufs: Vec<&str> = all().filter(|file| file.ends_with(".gguf")).collect();
    match ggufs.len() {
        1 => Ok(ggufs),
        0 => Err(name.error("holds neither safetensors nor a .gguf file: it does not run here")),
        many => {
            let first = ggufs[0];
            Err(name.error(format!(
                "holds {many} .gguf files such as {first}: fetch one of them and give its path"
            )))
        }
    }
}

/// Fetching a model.
struct Fetch<'a> {
    client: &'a Client,
    cache: &'a Cache,
    name: &'a Name,
    commit: &'a str,
    progress: &'a mut dyn FnMut(u64, u64),
    /// Bytes of the files that are whole.
    done: u64,
    /// Bytes of all files.
    total: u64,
}

/// Why a piece of a file did not come.
enum Broken {
    Network(Failure),
    Disk(io::Error),
}

impl Fetch<'_> {
    fn failed(&self, file: &str, failure: Failure) -> Error {
        self.name.error(match failure {
            Failure::Unreachable(cause) => format!(
                "{file}: the connection broke ({cause}): run it again, which goes on from there"
            ),
            Failure::Refused(message) => format!("{file}: {message}"),
        })
    }

    fn unwritten(&self, file: &str, error: &io::Error) -> Error {
        self.name.error(format!("{file}: cannot write to the cache: {error}"))
    }

    fn one(&mut self, remote: &Remote) -> Result<()> {
        let fail = |this: &Self, e| this.unwritten(&remote.file, &e);
        let blob = self.cache.blob(&remote.etag);
        make_parent(&blob).map_err(|e| fail(self, e))?;
        let _lock = self.cache.lock(&remote.etag).map_err(|e| fail(self, e))?;
        if !blob.exists() {
            self.content(remote)?;
            let part = self.cache.incomplete(&remote.etag);
            fs::rename(part, &blob).map_err(|e| fail(self, e))?;
        }
        self.done += remote.size;
        (self.progress)(self.done, self.total);
        let linked = self.cache.link(self.commit, &remote.file, &remote.etag);
        linked.map_err(|e| fail(self, e))
    }

    /// The whole content in its incomplete file, which may hold a beginning of it.
    fn content(&mut self, remote: &Remote) -> Result<()> {
        let path = self.cache.incomplete(&remote.etag);
        let open = || File::options().create(true).append(true).open(&path);
        let mut file = open().map_err(|e| self.unwritten(&remote.file, &e))?;
        let mut have = file.metadata().map_err(|e| self.unwritten(&remote.file, &e))?.len();
        let mut idle = 0;
        // At most the announced bytes are written; more can only be there from another content.
        if have > remote.size {
            file.set_len(0).map_err(|e| self.unwritten(&remote.file, &e))?;
            have = 0;
        }
        while have < remote.size {
            let before = have;
            let broken = self.piece(remote, &mut file, &mut have);
            idle = if have > before { 0 } else { idle + 1 };
            match broken {
                Err(Broken::Disk(e)) => return Err(self.unwritten(&remote.file, &e)),
                Err(Broken::Network(Failure::Unreachable(_))) if idle < ATTEMPTS => {}
                Err(Broken::Network(failure)) => return Err(self.failed(&remote.file, failure)),
                Ok(()) => {}
            }
        }
        // Renaming a file whose bytes are not on the disk yet could leave an empty one after a power cut.
        file.sync_all().map_err(|e| self.unwritten(&remote.file, &e))
    }

    /// What one connection brings, after the `have` bytes that are there.
    fn piece(&mut self, remote: &Remote, file: &mut File, have: &mut u64) -> Result<(), Broken> {
        let content = self.client.content(self.name, self.commit, &remote.file, *have);
        let (continues, mut body) = content.map_err(Broken::Network)?;
        if !continues {
            file.set_len(0).map_err(Broken::Disk)?;
            *have = 0;
        }
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) if *have < remote.size => Err("it ended early".to_owned()),
                Ok(count) if *have + count as u64 > remote.size => {
                    file.set_len(0).map_err(Broken::Disk)?;
                    let message = "the server sends more than it announced".to_owned();
                    return Err(Broken::Network(Failure::Refused(message)));
                }
                Ok(count) => Ok(count),
                Err(e) => Err(e.to_string()),
            };
            let count = count.map_err(|e| Broken::Network(Failure::Unreachable(e)))?;
            file.write_all(&buffer[..count]).map_err(Broken::Disk)?;
            *have += count as u64;
            (self.progress)(self.done + *have, self.total);
            if count == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(files: &[&str]) -> Result<Vec<String>, String> {
        let siblings: Vec<_> =
            files.iter().map(|file| serde_json::json!({"rfilename": file})).collect();
        let listing = serde_json::json!({"sha": "", "siblings": siblings});
        let listing: Listing = serde_json::from_value(listing).unwrap();
        let name = Name::parse("a/b").unwrap();
        let chosen = wanted(&name, &listing).map_err(|e| e.to_string())?;
        Ok(chosen.into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn a_model_needs_one_format_of_its_weights() {
        let needed = [
            "chat_template.jinja",
            "config.json",
            "model-00001-of-00001.safetensors",
            "model.safetensors.index.json",
            "tokenizer.json",
            "tokenizer.model",
        ];
        let others = [
            ".gitattributes",
            "README.md",
            "consolidated.safetensors",
            "pytorch_model.bin",
            "model.gguf",
            "onnx/model.safetensors",
            "../model.safetensors",
            "/etc/model.safetensors",
        ];
        assert_eq!(choose(&[&needed[..], &others].concat()).unwrap(), needed);
        assert_eq!(choose(&["README.md", "a.Q4_0.gguf"]).unwrap(), ["a.Q4_0.gguf"]);
        let many = choose(&["a.gguf", "b.gguf"]).unwrap_err();
        assert_eq!(
            many,
            "a/b: holds 2 .gguf files such as a.gguf: fetch one of them and give its path"
        );
        assert!(choose(&["pytorch_model.bin", "config.json"]).unwrap_err().contains("neither"));
    }
}
