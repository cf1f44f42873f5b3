//! Reading and writing JSON files with errors that name file and field.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// Largest JSON or template file that is read: a hostile file must not fill the memory.
const MAX_BYTES: u64 = 256 << 20;

/// The text of a file.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let fail = |e: std::io::Error| Error::file(path, "file", e);
    let len = std::fs::metadata(path).map_err(fail)?.len();
    if len > MAX_BYTES {
        return Err(Error::file(
            path,
            "file",
            format_args!("{len} bytes are too many for a text file"),
        ));
    }
    std::fs::read_to_string(path).map_err(fail)
}

/// Parses the text of `path`.
pub(crate) fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|e| Error::file(path, "file", format_args!("not valid JSON: {e}")))
}

/// Reads and parses a file.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    parse(path, &read_text(path)?)
}

/// Writes a file that people may read.
pub(crate) fn write(path: &Path, value: &serde_json::Value) -> Result<()> {
    std::fs::write(path, format!("{value:#}\n")).map_err(|e| Error::file(path, "file", e))
}

/// An object of a JSON file, with getters whose errors name file and field.
pub(crate) struct Fields<'a> {
    path: &'a Path,
    /// Where the object is in the file, such as `rope_scaling.`; empty for the whole file.
    prefix: String,
    value: &'a serde_json::Value,
}

impl<'a> Fields<'a> {
    /// The whole file.
    pub(crate) fn new(path: &'a Path, value: &'a serde_json::Value) -> Result<Self> {
        match value.is_object() {
            true => Ok(Self { path, prefix: String::new(), value }),
            false => Err(Error::file(path, "file", "expected a JSON object")),
        }
    }

    /// An error about `field`.
    pub(crate) fn error(&self, field: &str, message: impl std::fmt::Display) -> Error {
        Error::file(self.path, format!("{}{field}", self.prefix), message)
    }

    /// A field; JSON's null counts as absent.
    pub(crate) fn get(&self, field: &str) -> Option<&'a serde_json::Value> {
        self.value.get(field).filter(|v| !v.is_null())
    }

    /// An object inside, if present.
    pub(crate) fn object(&self, field: &str) -> Result<Option<Fields<'a>>> {
        let prefix = format!("{}{field}.", self.prefix);
        self.typed(field, "an object", |v| {
            v.is_object().then_some(Fields { path: self.path, prefix, value: v })
        })
    }

    /// Names and values of all fields.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a String, &'a serde_json::Value)> {
        self.value.as_object().into_iter().flatten()
    }

    /// A size or count, if present.
    pub(crate) fn size(&self, field: &str) -> Result<Option<usize>> {
        self.typed(field, "a non-negative integer", |v| v.as_u64().and_then(|n| n.try_into().ok()))
    }

    /// A size or count that must be present.
    pub(crate) fn need_size(&self, field: &str) -> Result<usize> {
        self.size(field)?.ok_or_else(|| self.error(field, "missing"))
    }

    /// A number, if present.
    pub(crate) fn float(&self, field: &str) -> Result<Option<f64>> {
        self.typed(field, "a number", serde_json::Value::as_f64)
    }

    /// A flag, if present.
    pub(crate) fn bool(&self, field: &str) -> Result<Option<bool>> {
        self.typed(field, "true or false", serde_json::Value::as_bool)
    }

    /// Text, if present.
    pub(crate) fn text(&self, field: &str) -> Result<Option<&'a str>> {
        self.typed(field, "a string", serde_json::Value::as_str)
    }

    /// A list of texts, if present.
    pub(crate) fn texts(&self, field: &str) -> Result<Option<Vec<&'a str>>> {
        self.typed(field, "a list of strings", |v| {
            v.as_array()?.iter().map(serde_json::Value::as_str).collect()
        })
    }

    /// A list of sizes or counts; empty if absent.
    pub(crate) fn sizes(&self, field: &str) -> Result<Vec<usize>> {
        let size = |v: &serde_json::Value| v.as_u64().and_then(|n| n.try_into().ok());
        let sizes = self.typed(field, "a list of non-negative integers", |v| {
            v.as_array()?.iter().map(size).collect()
        })?;
        Ok(sizes.unwrap_or_default())
    }

    /// A token id or a list of them; empty if absent.
    pub(crate) fn tokens(&self, field: &str) -> Result<Vec<u32>> {
        let id = |v: &serde_json::Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
        let ids = self.typed(field, "a token id or a list of them", |v| match v.as_array() {
            Some(all) => all.iter().map(id).collect(),
            None => id(v).map(|id| vec![id]),
        })?;
        Ok(ids.unwrap_or_default())
    }

    fn typed<T>(
        &self,
        field: &str,
        wanted: &str,
        read: impl FnOnce(&'a serde_json::Value) -> Option<T>,
    ) -> Result<Option<T>> {
        match self.get(field) {
            None => Ok(None),
            Some(v) => read(v)
                .map(Some)
                .ok_or_else(|| self.error(field, format_args!("expected {wanted}"))),
        }
    }
}
