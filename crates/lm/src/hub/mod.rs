//! Models by name: fetched from the Hugging Face hub into the cache that Python's `huggingface_hub` uses, so
//! that both have what one of them fetched.
//!
//! The hub's own crate, `hf-hub`, is not used: its blocking version 0.5 sends the token to the servers that
//! the hub redirects to and checks no file's size, and version 1.0 does not resume and brings an asynchronous
//! runtime with 300 crates.

mod cache;
mod client;
mod download;
mod name;
mod settings;

use std::path::{Path, PathBuf};

use self::{cache::Cache, client::Client};
pub use self::{name::Name, settings::Settings};
use crate::{Error, Result, load::is_whole};

/// A hub, and the cache of what came from it.
pub struct Hub {
    settings: Settings,
    client: Client,
}

/// Where the model is that `model` means: a path that exists is itself. Another one of the form `ORG/NAME` or
/// `ORG/NAME@REVISION` is a model of the hub that the environment names, fetched if the cache does not hold
/// it. Any other is given back, for whoever loads it to refuse. `progress` is told how many bytes are there,
/// and how many there will be.
///
/// # Errors
/// When the model is not in the cache and cannot be fetched.
pub fn resolve(model: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<PathBuf> {
    let name = model.to_str().filter(|_| !model.exists()).and_then(Name::parse);
    match name {
        Some(name) => Hub::new(Settings::from_env()?)?.folder(&name, progress),
        None => Ok(model.to_owned()),
    }
}

impl Hub {
    /// The hub that `settings` name.
    ///
    /// # Errors
    /// When the endpoint is no address.
    pub fn new(settings: Settings) -> Result<Self> {
        let client = Client::new(&settings.endpoint, settings.token.clone())?;
        Ok(Self { settings, client })
    }

    /// The folder of a model's files, which are fetched if the cache does not hold them.
    ///
    /// # Errors
    /// When the model is not in the cache and cannot be fetched. What was fetched of it stays, and the next
    /// call goes on from there.
    pub fn folder(&self, name: &Name, progress: &mut dyn FnMut(u64, u64)) -> Result<PathBuf> {
        let cache = Cache::new(&self.settings.cache, name);
        let cached = cache.snapshot_of(name.revision()).filter(|folder| is_whole(folder));
        if let Some(folder) = cached.as_ref().filter(|_| name.is_commit() || self.settings.offline)
        {
            return Ok(folder.clone());
        }
        if self.settings.offline {
            let place = self.settings.cache.display();
            let message =
                format!("HF_HUB_OFFLINE is set and {place} does not hold all of it: unset it once");
            return Err(name.error(message));
        }
        let listing = match self.client.listing(name) {
            Ok(listing) => listing,
            Err(client::Failure::Unreachable(cause)) => {
                let Some(folder) = cached else { return Err(self.unreachable(name, &cause)) };
                tracing::warn!("{}: {cause}: taken from the cache", self.settings.endpoint);
                return Ok(folder);
            }
            Err(client::Failure::Refused(message)) => return Err(name.error(message)),
        };
        download::fetch(&self.client, &cache, name, &listing, progress)
    }

    fn unreachable(&self, name: &Name, cause: &str) -> Error {
        let endpoint = &self.settings.endpoint;
        name.error(format!(
            "there is no such path, and {endpoint} cannot be reached ({cause}): go online once, or give a \
             path"
        ))
    }
}
