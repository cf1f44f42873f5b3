//! File formats: npy, npz, safetensors and GGUF, read from memory-mapped files and written
//! atomically.
//!
//! A file is material from a stranger. Every length, count and offset is checked before it is used
//! (products with `checked_mul`, ends against the file's length), nothing is allocated that the
//! file's own size does not justify, nesting is bounded, and every refusal is one line that names
//! the file and the field. Tensors become lazy arrays: evaluating one maps its bytes, or copies
//! them where they do not lie aligned in the file.
//!
//! Each format has `load` (a path), `parse` (bytes that are already here: tests, fuzzing, file
//! objects), `save` (a path) and `write` (any writer).

mod atomic;
pub(crate) mod context;
pub mod gguf;
mod mmap;
pub mod npy;
pub mod npz;
pub(crate) mod reader;
pub mod safetensors;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use self::context::Context;
pub(crate) use self::{atomic::write_file, mmap::Part};
pub use self::{
    gguf::{Gguf, GgufArray, GgufValue, load_gguf, save_gguf},
    mmap::FileBytes,
    npy::save,
    npz::{savez, savez_compressed},
    safetensors::{Safetensors, load_safetensors, save_safetensors},
};
use crate::{Array, Result};

#[cfg(target_endian = "big")]
compile_error!("the file formats are little endian and are mapped as they are");

/// Arrays by name, in the order of their names.
pub type Arrays = BTreeMap<String, Array>;

/// What [`load`] found in a file.
#[derive(Debug)]
pub enum Loaded {
    /// A `.npy` file: one array.
    Npy(Array),
    /// A `.npz` file: named arrays.
    Npz(Arrays),
    /// A `.safetensors` file: named arrays and string metadata.
    Safetensors(Safetensors),
    /// A `.gguf` file: named arrays and typed metadata.
    Gguf(Gguf),
}

impl Loaded {
    /// The named arrays; `None` for a `.npy` file, which has one array without a name.
    pub fn into_arrays(self) -> Option<Arrays> {
        match self {
            Loaded::Npy(_) => None,
            Loaded::Npz(arrays) => Some(arrays),
            Loaded::Safetensors(file) => Some(file.arrays),
            Loaded::Gguf(file) => Some(file.tensors),
        }
    }

    /// The array of a `.npy` file.
    pub fn into_array(self) -> Option<Array> {
        match self {
            Loaded::Npy(array) => Some(array),
            _ => None,
        }
    }
}

/// Loads a file by its extension: `npy`, `npz`, `safetensors` or `gguf`.
///
/// # Errors
/// When the extension is none of these, or the file cannot be read or is not what it says.
pub fn load(path: impl AsRef<Path>) -> Result<Loaded> {
    let path = path.as_ref();
    match path.extension().and_then(|e| e.to_str()) {
        Some(format) => load_as(path, format),
        None => {
            let context = Context::new("load", path);
            Err(context.error("name", "Could not infer file format from extension"))
        }
    }
}

/// Loads a file as the given format, whatever its name: `npy`, `npz`, `safetensors` or `gguf`.
///
/// # Errors
/// As [`load`].
pub fn load_as(path: impl AsRef<Path>, format: &str) -> Result<Loaded> {
    let path = path.as_ref();
    match format {
        "npy" => npy::load(path).map(Loaded::Npy),
        "npz" => npz::load(path).map(Loaded::Npz),
        "safetensors" => load_safetensors(path).map(Loaded::Safetensors),
        "gguf" => load_gguf(path).map(Loaded::Gguf),
        other => {
            let message = format!("Unknown file format {other}");
            Err(Context::new("load", path).error("name", message))
        }
    }
}

/// `path`, with `.extension` added unless its name ends so already (as MLX does).
fn with_extension(path: &Path, extension: &str) -> PathBuf {
    let name = path.as_os_str();
    if name.as_encoded_bytes().ends_with(extension.as_bytes()) {
        return path.into();
    }
    let mut name = name.to_os_string();
    name.push(extension);
    name.into()
}
