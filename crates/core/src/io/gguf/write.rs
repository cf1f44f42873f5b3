//! Writing: version 3, dtypes that GGUF has, metadata of every type.

use std::{io::Write, path::Path};

use super::{
    Context, GgufArray, GgufValue, Metadata,
    directory::{Kind, MAX_AXES, MAX_NAME},
    metadata::{MAX_KEY, MAX_STRING, alignment},
};
use crate::{
    Array, Result,
    io::{Arrays, atomic, context::tensor, with_extension},
};

const SAVE: &str = "save_gguf";

/// Saves arrays with metadata as GGUF version 3, atomically; adds `.gguf` to the name if it lacks
/// it. Data is aligned as the metadata's `general.alignment` says, to 32 bytes without it.
///
/// # Errors
/// When an array has a dtype or a number of axes that GGUF does not have or cannot be evaluated, or
/// the file cannot be written; nothing is left behind then.
pub fn save_gguf(path: impl AsRef<Path>, arrays: &Arrays, metadata: &Metadata) -> Result<()> {
    let path = with_extension(path.as_ref(), ".gguf");
    atomic::write_file(SAVE, &path, |out, context| write_to(out, context, arrays, metadata))
}

/// [`save_gguf`] to any writer that errors call `name`.
///
/// # Errors
/// As [`save_gguf`].
pub fn write(out: &mut dyn Write, name: &Path, arrays: &Arrays, metadata: &Metadata) -> Result<()> {
    write_to(out, Context::new(SAVE, name), arrays, metadata)
}

fn write_to(
    out: &mut dyn Write,
    context: Context<'_>,
    arrays: &Arrays,
    metadata: &Metadata,
) -> Result<()> {
    let alignment = alignment(context, metadata)?;
    crate::eval(&arrays.values().collect::<Vec<_>>())?;

    let mut head = Vec::new();
    head.extend(b"GGUF");
    head.extend(3u32.to_le_bytes());
    head.extend((arrays.len() as u64).to_le_bytes());
    head.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        check_lengths(context, key, value)?;
        put_string(&mut head, key);
        head.extend(value.type_id().to_le_bytes());
        put_value(&mut head, value);
    }
    let mut offset = 0usize;
    for (name, array) in arrays {
        put_entry(&mut head, context, name, array, offset)?;
        offset = offset
            .checked_add(array.nbytes())
            .and_then(|end| end.checked_next_multiple_of(alignment))
            .ok_or_else(|| context.error(tensor(name), "more data than a file can hold"))?;
    }
    pad(&mut head, alignment);
    out.write_all(&head).map_err(context.on_write("header"))?;
    for (name, array) in arrays {
        let mut data = array.to_bytes()?;
        pad(&mut data, alignment);
        out.write_all(&data).map_err(context.on_write(tensor(name)))?;
    }
    Ok(())
}

/// Refuses text that the loader would refuse.
fn check_lengths(context: Context<'_>, key: &str, value: &GgufValue) -> Result<()> {
    let longest = match value {
        GgufValue::String(text) => text.len(),
        GgufValue::Array(GgufArray::String(texts)) => {
            texts.iter().map(String::len).max().unwrap_or(0)
        }
        _ => 0,
    };
    if key.len() > MAX_KEY {
        return Err(context.error("metadata key", format_args!("has more than {MAX_KEY} bytes")));
    }
    if longest > MAX_STRING {
        let what = format!("a string of {longest} bytes is over the cap of {MAX_STRING}");
        return Err(context.error(format_args!("metadata {key:?}"), what));
    }
    Ok(())
}

/// A tensor's line in the directory.
fn put_entry(
    head: &mut Vec<u8>,
    context: Context<'_>,
    name: &str,
    array: &Array,
    offset: usize,
) -> Result<()> {
    let error = |what: String| context.error(tensor(name), what);
    if name.len() > MAX_NAME {
        return Err(error(format!("the name has more than {MAX_NAME} bytes")));
    }
    if array.ndim() > MAX_AXES {
        return Err(error(format!("{} axes are more than {MAX_AXES}", array.ndim())));
    }
    let id = Kind::id_of(array.dtype())
        .ok_or_else(|| error(format!("dtype {} is not supported", array.dtype())))?;
    put_string(head, name);
    head.extend((array.ndim() as u32).to_le_bytes());
    for &dim in array.shape().iter().rev() {
        head.extend((dim as u64).to_le_bytes());
    }
    head.extend(id.to_le_bytes());
    head.extend((offset as u64).to_le_bytes());
    Ok(())
}

fn pad(bytes: &mut Vec<u8>, alignment: usize) {
    bytes.resize(bytes.len().next_multiple_of(alignment), 0);
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &GgufValue) {
    use GgufValue as V;
    match value {
        V::Uint8(v) => out.extend(v.to_le_bytes()),
        V::Int8(v) => out.extend(v.to_le_bytes()),
        V::Uint16(v) => out.extend(v.to_le_bytes()),
        V::Int16(v) => out.extend(v.to_le_bytes()),
        V::Uint32(v) => out.extend(v.to_le_bytes()),
        V::Int32(v) => out.extend(v.to_le_bytes()),
        V::Float32(v) => out.extend(v.to_le_bytes()),
        V::Bool(v) => out.push(*v as u8),
        V::String(v) => put_string(out, v),
        V::Array(v) => put_array(out, v),
        V::Uint64(v) => out.extend(v.to_le_bytes()),
        V::Int64(v) => out.extend(v.to_le_bytes()),
        V::Float64(v) => out.extend(v.to_le_bytes()),
    }
}

fn put_array(out: &mut Vec<u8>, array: &GgufArray) {
    use GgufArray as A;
    out.extend(array.type_id().to_le_bytes());
    out.extend((array.len() as u64).to_le_bytes());
    match array {
        A::Uint8(v) => out.extend(v),
        A::Int8(v) => out.extend(bytemuck::cast_slice(v)),
        A::Uint16(v) => out.extend(bytemuck::cast_slice(v)),
        A::Int16(v) => out.extend(bytemuck::cast_slice(v)),
        A::Uint32(v) => out.extend(bytemuck::cast_slice(v)),
        A::Int32(v) => out.extend(bytemuck::cast_slice(v)),
        A::Float32(v) => out.extend(bytemuck::cast_slice(v)),
        A::Bool(v) => out.extend(v.iter().map(|&b| b as u8)),
        A::String(v) => v.iter().for_each(|s| put_string(out, s)),
        A::Array(v) => v.iter().for_each(|a| put_array(out, a)),
        A::Uint64(v) => out.extend(bytemuck::cast_slice(v)),
        A::Int64(v) => out.extend(bytemuck::cast_slice(v)),
        A::Float64(v) => out.extend(bytemuck::cast_slice(v)),
    }
}
