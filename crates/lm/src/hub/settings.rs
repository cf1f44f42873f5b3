//! What the environment says, by the variables of `huggingface_hub`.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{Error, Result};

/// Which hub, which cache, and who asks.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// Address of the hub, without a slash at its end.
    pub endpoint: String,
    /// Folder of the cache: `~/.cache/huggingface/hub`, unless told otherwise.
    pub cache: PathBuf,
    /// Secret of the user, sent to the endpoint alone.
    pub token: Option<String>,
    /// Nothing is asked for over the network.
    pub offline: bool,
}

impl Settings {
    /// From `HF_ENDPOINT`, `HF_HUB_CACHE`, `HF_HOME`, `HF_TOKEN`, `HF_TOKEN_PATH` and `HF_HUB_OFFLINE`.
    ///
    /// # Errors
    /// When the environment names no folder of the user's.
    pub fn from_env() -> Result<Self> {
        Self::from(|name| env::var_os(name))
    }

    fn from(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| set(name).map(|value| value.to_string_lossy().trim().to_owned());
        let folder = |name: &str| set(name).map(PathBuf::from);
        let user = || folder("HOME").or_else(|| folder("USERPROFILE"));
        let base = || folder("XDG_CACHE_HOME").or_else(|| Some(user()?.join(".cache")));
        let home = folder("HF_HOME").or_else(|| Some(base()?.join("huggingface")));
        let home = home.ok_or_else(|| {
            Error::argument("model", "there is no folder for a cache: set HF_HOME to one")
        })?;
        let cache = folder("HF_HUB_CACHE").or_else(|| folder("HUGGINGFACE_HUB_CACHE"));
        let file = folder("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"));
        let token = text("HF_TOKEN").or_else(|| text("HUGGING_FACE_HUB_TOKEN"));
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
        Ok(Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            cache: cache.unwrap_or_else(|| home.join("hub")),
            token: token.or_else(|| read_token(&file)).filter(|token| !token.is_empty()),
            offline: text("HF_HUB_OFFLINE").is_some_and(|value| is_true(&value)),
        })
    }
}

/// What `hf auth login` stored.
fn read_token(file: &Path) -> Option<String> {
    std::fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}

/// As `huggingface_hub` reads flags.
fn is_true(value: &str) -> bool {
    ["1", "on", "yes", "true"].contains(&value.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Settings {
        let value = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into());
        Settings::from(value).unwrap()
    }

    #[test]
    fn folders_follow_from_one_another() {
        let cache = |variables: &[_]| settings(variables).cache;
        assert_eq!(cache(&[("HOME", "/u")]), Path::new("/u/.cache/huggingface/hub"));
        let all =
            [("HOME", "/u"), ("XDG_CACHE_HOME", "/x"), ("HF_HOME", "/h"), ("HF_HUB_CACHE", "/c")];
        assert_eq!(cache(&all[..2]), Path::new("/x/huggingface/hub"));
        assert_eq!(cache(&all[..3]), Path::new("/h/hub"));
        assert_eq!(cache(&all), Path::new("/c"));
        assert!(Settings::from(|_| None).is_err());
    }

    #[test]
    fn flags_endpoints_and_tokens() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().to_str().unwrap();
        std::fs::write(home.path().join("token"), "stored\n").unwrap();
        let plain = settings(&[("HF_HOME", folder)]);
        assert_eq!((plain.endpoint.as_str(), plain.offline), ("https://huggingface.co", false));
        assert_eq!(plain.token.as_deref(), Some("stored"));
        let all = settings(&[
            ("HF_HOME", folder),
            ("HF_TOKEN", " given "),
            ("HF_ENDPOINT", "http://mirror/"),
            ("HF_HUB_OFFLINE", "YES"),
        ]);
        assert_eq!((all.endpoint.as_str(), all.offline), ("http://mirror", true));
        assert_eq!(all.token.as_deref(), Some("given"));
        assert!(!settings(&[("HOME", "/u"), ("HF_HUB_OFFLINE", "0")]).offline);
    }
}
