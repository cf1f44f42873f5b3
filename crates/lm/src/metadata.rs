//! Key-value metadata of a GGUF file, with errors that name file and key.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{Error, Result};

/// One metadata value. Numbers of all widths are widened.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Any integer type.
    Int(i64),
    /// Any floating point type.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// Text.
    Text(String),
    /// Array of integers or booleans.
    Ints(Vec<i64>),
    /// Array of floating point numbers.
    Floats(Vec<f64>),
    /// Array of texts.
    Texts(Vec<String>),
}

/// All metadata of one file.
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    /// The file, for messages.
    pub path: PathBuf,
    /// Values by key, such as `llama.block_count`.
    pub values: BTreeMap<String, Value>,
}

impl Metadata {
    /// Metadata of `path`.
    pub fn new(path: &Path, values: BTreeMap<String, Value>) -> Self {
        Self { path: path.to_owned(), values }
    }

    /// An error about `key` of this file.
    pub fn error(&self, key: &str, message: impl std::fmt::Display) -> Error {
        Error::file(&self.path, key, message)
    }

    fn wrong(&self, key: &str, wanted: &str) -> Error {
        self.error(key, format_args!("expected {wanted}"))
    }

    fn required<T>(&self, key: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.error(key, "missing"))
    }

    /// Text, if present.
    pub fn text(&self, key: &str) -> Result<Option<&str>> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::Text(t)) => Ok(Some(t)),
            Some(_) => Err(self.wrong(key, "a string")),
        }
    }

    /// A size or count, if present. An array of equal numbers (per-layer values) counts as one.
    pub fn size(&self, key: &str) -> Result<Option<usize>> {
        let number = match self.values.get(key) {
            None => return Ok(None),
            Some(Value::Int(i)) => *i,
            Some(Value::Ints(all)) if !all.is_empty() && all.iter().all(|i| *i == all[0]) => all[0],
            Some(Value::Ints(_)) => {
                return Err(self.error(key, "differs from layer to layer, which is not supported"));
            }
            Some(_) => return Err(self.wrong(key, "an integer")),
        };
        usize::try_from(number)
            .map(Some)
            .map_err(|_| self.wrong(key, "a number that is not negative"))
    }

    /// A size or count that must be present.
    pub fn need_size(&self, key: &str) -> Result<usize> {
        let size = self.size(key)?;
        self.required(key, size)
    }

    /// A number, if present.
    pub fn float(&self, key: &str) -> Result<Option<f64>> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::Float(f)) => Ok(Some(*f)),
            Some(Value::Int(i)) => Ok(Some(*i as f64)),
            Some(_) => Err(self.wrong(key, "a number")),
        }
    }

    /// A number that must be present.
    pub fn need_float(&self, key: &str) -> Result<f64> {
        let float = self.float(key)?;
        self.required(key, float)
    }

    /// A flag, if present.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(*b)),
            // Files read through MLX's metadata type carry flags as numbers.
            Some(Value::Int(i)) => Ok(Some(*i != 0)),
            Some(_) => Err(self.wrong(key, "a boolean")),
        }
    }

    /// A token id, if present.
    pub fn token(&self, key: &str) -> Result<Option<u32>> {
        match self.size(key)? {
            None => Ok(None),
            Some(id) => u32::try_from(id).map(Some).map_err(|_| self.wrong(key, "a token id")),
        }
    }

    /// An array of texts, if present.
    pub fn texts(&self, key: &str) -> Result<Option<&[String]>> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::Texts(t)) => Ok(Some(t)),
            Some(Value::Ints(i)) if i.is_empty() => Ok(Some(&[])),
            Some(_) => Err(self.wrong(key, "an array of strings")),
        }
    }

    /// An array of texts that must be present.
    pub fn need_texts(&self, key: &str) -> Result<&[String]> {
        let texts = self.texts(key)?;
        self.required(key, texts)
    }

    /// An array of integers, if present.
    pub fn ints(&self, key: &str) -> Result<Option<&[i64]>> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::Ints(i)) => Ok(Some(i)),
            Some(_) => Err(self.wrong(key, "an array of integers")),
        }
    }

    /// An array of numbers, if present.
    pub fn floats(&self, key: &str) -> Result<Option<Vec<f64>>> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::Floats(f)) => Ok(Some(f.clone())),
            Some(Value::Ints(i)) => Ok(Some(i.iter().map(|i| *i as f64).collect())),
            Some(_) => Err(self.wrong(key, "an array of numbers")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Metadata {
        let values = [
            ("n", Value::Int(3)),
            ("negative", Value::Int(-1)),
            ("same", Value::Ints(vec![4, 4])),
            ("mixed", Value::Ints(vec![4, 5])),
            ("name", Value::Text("x".into())),
        ];
        Metadata::new(Path::new("a.gguf"), values.map(|(k, v)| (k.to_owned(), v)).into())
    }

    #[test]
    fn numbers_are_checked() {
        let m = sample();
        assert_eq!(m.size("n").unwrap(), Some(3));
        assert_eq!(m.size("same").unwrap(), Some(4));
        assert_eq!(m.size("absent").unwrap(), None);
        assert!(m.size("negative").is_err());
        assert!(m.size("mixed").is_err());
    }

    #[test]
    fn errors_name_file_and_key() {
        let m = sample();
        assert_eq!(m.need_size("k").unwrap_err().to_string(), "a.gguf: k: missing");
        assert_eq!(m.size("name").unwrap_err().to_string(), "a.gguf: name: expected an integer");
    }
}
