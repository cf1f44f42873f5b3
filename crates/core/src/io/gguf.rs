//! GGUF: llama.cpp's model files, versions 2 and 3.
//!
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>. A file has typed metadata, a
//! directory of tensors and their aligned data. Shapes are stored with the fastest axis first and
//! come out reversed, as MLX has them. Quantized tensors come out in MLX's affine form or as small
//! floats, with groups of 32 and without loss: see [`parse`].

mod directory;
mod metadata;
mod repack;
mod value;
mod write;

use std::{collections::BTreeMap, path::Path};

use self::{
    directory::{Entry, Kind},
    repack::Repacked,
};
pub use self::{
    value::{GgufArray, GgufValue},
    write::{save_gguf, write},
};
use super::{
    Arrays, FileBytes,
    context::{Context, tensor},
    reader::Reader,
};
use crate::{Array, Result};

const LOAD: &str = "load_gguf";

/// Metadata by key, in the order of the keys.
pub type Metadata = BTreeMap<String, GgufValue>;

/// Alignment of tensor data unless the metadata says otherwise.
const DEFAULT_ALIGNMENT: usize = 32;

/// Key of the alignment.
const ALIGNMENT: &str = "general.alignment";

/// The contents of a GGUF file.
#[derive(Debug, Clone, Default)]
pub struct Gguf {
    /// The metadata by key.
    pub metadata: Metadata,
    /// The tensors by name; a quantized one is two or three arrays.
    pub tensors: Arrays,
}

/// Loads a GGUF file; see [`parse`]. Tensors that are not quantized map the file when they are evaluated; see
/// [`FileBytes::open`].
///
/// # Errors
/// When the file cannot be read or breaks a rule of the format, or a tensor's type is not supported.
pub fn load_gguf(path: impl AsRef<Path>) -> Result<Gguf> {
    parse(&FileBytes::open(LOAD, path.as_ref())?)
}

/// [`load_gguf`] of bytes that are already here.
///
/// A tensor `x.weight` of type Q4_0, Q4_1 or Q8_0 becomes MLX's affine form: `x.weight` (uint32, the
/// codes packed from the low bits up along the last axis), `x.scales` and `x.biases` (float16,
/// one for each group of 32), with the scales as stored and
///
/// | type | code        | value           | bias   |
/// |------|-------------|-----------------|--------|
/// | Q4_0 | q, 4 bits   | d · (q − 8)     | −8 d   |
/// | Q4_1 | q, 4 bits   | d · q + m       | m      |
/// | Q8_0 | q + 128     | d · q           | −128 d |
///
/// −8 d and −128 d are exact in float16 unless they overflow, which is refused: no real weight is so
/// large.
///
/// One of type MXFP4 becomes MLX's mode of this name: `x.weight` (uint32, the floats packed in the same way)
/// and `x.scales` (uint8, the exponents as stored), without biases.
///
/// # Errors
/// When the bytes break a rule of the format, or a tensor's type is not supported.
pub fn parse(file: &FileBytes) -> Result<Gguf> {
    let context = Context::new(LOAD, file.name());
    let mut reader = Reader::new(file.as_slice());
    let (metadata, entries) = read_head(context, &mut reader)?;

    let mut gguf = Gguf { metadata, tensors: Arrays::new() };
    let (packed, plain): (Vec<_>, Vec<_>) = entries.into_iter().partition(|e| e.is_quantized());
    for entry in plain {
        let Kind::Plain(dtype) = entry.kind else { continue };
        let field = tensor(&entry.name);
        let array = file.array(context, &field, entry.range, entry.shape, dtype)?;
        insert(context, &mut gguf.tensors, entry.name, array)?;
    }
    let repacked = repack::repack(context, file.as_slice(), &packed)?;
    for (entry, arrays) in packed.into_iter().zip(repacked) {
        insert_repacked(context, &mut gguf.tensors, entry, arrays)?;
    }
    Ok(gguf)
}

/// Only the metadata of a file: what an inspection of a large model needs.
///
/// # Errors
/// As [`load_gguf`], for what precedes the data.
pub fn load_metadata(path: impl AsRef<Path>) -> Result<Metadata> {
    let file = FileBytes::open(LOAD, path.as_ref())?;
    let context = Context::new(LOAD, file.name());
    Ok(read_head(context, &mut Reader::new(file.as_slice()))?.0)
}

/// Reads what precedes the data. The entries' ranges lie in the file and do not overlap.
fn read_head(context: Context<'_>, reader: &mut Reader<'_>) -> Result<(Metadata, Vec<Entry>)> {
    let magic: [u8; 4] = reader.array().map_err(|e| context.error("magic", e))?;
    if &magic != b"GGUF" {
        return Err(context.error("magic", "this is not a GGUF file"));
    }
    let version = reader.u32().map_err(|e| context.error("version", e))?;
    match version {
        2 | 3 => {}
        v if matches!(v.swap_bytes(), 1..=3) => {
            return Err(context.error("version", "big-endian files are not supported"));
        }
        v => {
            return Err(
                context.error("version", format_args!("{v} is not supported (2 and 3 are)"))
            );
        }
    }
    let tensors = reader.u64().map_err(|e| context.error("tensor count", e))?;
    let pairs = reader.u64().map_err(|e| context.error("metadata count", e))?;
    let metadata = metadata::read(context, reader, pairs)?;
    let alignment = metadata::alignment(context, &metadata)?;
    let entries = directory::read(context, reader, tensors, alignment)?;
    Ok((metadata, entries))
}

/// Adds the arrays of a quantized tensor.
fn insert_repacked(
    context: Context<'_>,
    tensors: &mut Arrays,
    entry: Entry,
    arrays: Repacked,
) -> Result<()> {
    let stem = entry.name.strip_suffix(".weight").unwrap_or(&entry.name).to_owned();
    insert(context, tensors, entry.name, arrays.weights)?;
    insert(context, tensors, format!("{stem}.scales"), arrays.scales)?;
    match arrays.biases {
        Some(biases) => insert(context, tensors, format!("{stem}.biases"), biases),
        None => Ok(()),
    }
}

fn insert(context: Context<'_>, tensors: &mut Arrays, name: String, array: Array) -> Result<()> {
    if tensors.contains_key(&name) {
        let what = "duplicate name (scales and biases of quantized tensors have names too)";
        return Err(context.error(tensor(&name), what));
    }
    tensors.insert(name, array);
    Ok(())
}
