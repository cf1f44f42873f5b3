//! safetensors: a JSON header with every tensor's dtype, shape and byte range, then the bytes.
//!
//! Format: <https://github.com/huggingface/safetensors#format>. All of its rules are enforced: the
//! header's cap, no key twice, bytes = shape × dtype, ranges that cover the data without overlap or
//! hole.

mod header;
mod keys;

use std::{collections::BTreeMap, io::Write, path::Path};

use serde_json::{Map, Value, json};

use super::{
    Arrays, FileBytes, atomic,
    context::{Context, tensor},
    with_extension,
};
use crate::{Array, Dtype, Result};

const LOAD: &str = "load_safetensors";
const SAVE: &str = "save_safetensors";

/// Key of the header's string metadata.
const METADATA: &str = "__metadata__";

/// Cap of the header in bytes, as in the reference implementation.
const MAX_HEADER: usize = 100_000_000;

/// The contents of a safetensors file.
#[derive(Debug, Clone, Default)]
pub struct Safetensors {
    /// The tensors by name.
    pub arrays: Arrays,
    /// The strings under `__metadata__`.
    pub metadata: BTreeMap<String, String>,
}

/// Loads a safetensors file. An array maps its part of the file when it is evaluated; see
/// [`FileBytes::open`].
///
/// # Errors
/// When the file cannot be read or breaks a rule of the format.
pub fn load_safetensors(path: impl AsRef<Path>) -> Result<Safetensors> {
    parse(&FileBytes::open(LOAD, path.as_ref())?)
}

/// [`load_safetensors`] of bytes that are already here.
///
/// # Errors
/// When the bytes break a rule of the format.
pub fn parse(file: &FileBytes) -> Result<Safetensors> {
    let context = Context::new(LOAD, file.name());
    let header = header::read(context, file.as_slice())?;
    let mut arrays = Arrays::new();
    for entry in header.tensors {
        let field = tensor(&entry.name);
        let array = file.array(context, &field, entry.range, entry.shape, entry.dtype)?;
        arrays.insert(entry.name, array);
    }
    Ok(Safetensors { arrays, metadata: header.metadata })
}

/// Saves arrays with string metadata, atomically; adds `.safetensors` to the name if it lacks it.
///
/// # Errors
/// When an array cannot be evaluated or the file cannot be written; nothing is left behind then.
pub fn save_safetensors(
    path: impl AsRef<Path>,
    arrays: &Arrays,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let path = with_extension(path.as_ref(), ".safetensors");
    atomic::write_file(SAVE, &path, |out, context| write_to(out, context, arrays, metadata))
}

/// [`save_safetensors`] to any writer that errors call `name`.
///
/// # Errors
/// When an array cannot be evaluated or the writer fails.
pub fn write(
    out: &mut dyn Write,
    name: &Path,
    arrays: &Arrays,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    write_to(out, Context::new(SAVE, name), arrays, metadata)
}

fn write_to(
    out: &mut dyn Write,
    context: Context<'_>,
    arrays: &Arrays,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    crate::eval(&arrays.values().collect::<Vec<_>>())?;
    // Larger elements first, so that each tensor is aligned for its dtype.
    let mut order: Vec<(&String, &Array)> = arrays.iter().collect();
    order.sort_by_key(|(_, a)| std::cmp::Reverse(a.dtype().size()));

    let header = header_text(context, &order, metadata)?;
    let on_write = || context.on_write("header");
    out.write_all(&(header.len() as u64).to_le_bytes()).map_err(on_write())?;
    out.write_all(header.as_bytes()).map_err(on_write())?;
    for (name, array) in order {
        out.write_all(&array.to_bytes()?).map_err(context.on_write(tensor(name)))?;
    }
    Ok(())
}

/// The header of a file with the tensors in this order, padded so that the data is aligned.
fn header_text(
    context: Context<'_>,
    order: &[(&String, &Array)],
    metadata: &BTreeMap<String, String>,
) -> Result<String> {
    let mut header = Map::new();
    if !metadata.is_empty() {
        header.insert(METADATA.into(), json!(metadata));
    }
    let mut offset = 0usize;
    for (name, array) in order {
        let end = offset
            .checked_add(array.nbytes())
            .ok_or_else(|| context.error(tensor(name), "more data than a file can hold"))?;
        let entry = json!({
            "dtype": dtype_name(array.dtype()),
            "shape": array.shape(),
            "data_offsets": [offset, end],
        });
        if name.as_str() == METADATA {
            return Err(context.error(tensor(name), "the name is reserved"));
        }
        header.insert((*name).clone(), entry);
        offset = end;
    }
    let mut text = Value::Object(header).to_string();
    text.extend(std::iter::repeat_n(' ', text.len().next_multiple_of(8) - text.len()));
    if text.len() > MAX_HEADER {
        return Err(context.error("header", format_args!("{} bytes are too many", text.len())));
    }
    Ok(text)
}

/// The format's name of a dtype.
fn dtype_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "BOOL",
        Dtype::Uint8 => "U8",
        Dtype::Uint16 => "U16",
        Dtype::Uint32 => "U32",
        Dtype::Uint64 => "U64",
        Dtype::Int8 => "I8",
        Dtype::Int16 => "I16",
        Dtype::Int32 => "I32",
        Dtype::Int64 => "I64",
        Dtype::Float16 => "F16",
        Dtype::Bfloat16 => "BF16",
        Dtype::Float32 => "F32",
        Dtype::Float64 => "F64",
        Dtype::Complex64 => "C64",
    }
}
