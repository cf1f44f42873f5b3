//! The header: read, checked, and turned into byte ranges of the file.

use std::{collections::BTreeMap, ops::Range};

use safetensors::tensor::{Dtype as FileDtype, TensorInfo};
use serde_json::{Map, Value};

use super::{MAX_HEADER, METADATA, keys};
use crate::{
    Dtype, Result, Shape,
    io::context::{Context, tensor},
};

/// A checked header.
pub(super) struct Header {
    pub(super) tensors: Vec<Entry>,
    pub(super) metadata: BTreeMap<String, String>,
}

/// A tensor; its range lies in the file and is as long as shape and dtype say.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Shape,
    pub(super) range: Range<usize>,
}

/// Reads the header of the file with these bytes.
pub(super) fn read(context: Context<'_>, bytes: &[u8]) -> Result<Header> {
    let (text, data) = split(context, bytes)?;
    // Copied out of the mapping: what is checked is what is used.
    let text = String::from_utf8(text.to_vec()).map_err(|e| context.error("header", e))?;
    keys::check(&text).map_err(|e| context.error("header", e))?;
    let map: Map<String, Value> = serde_json::from_str(&text)
        .map_err(|e| context.error("header", format_args!("invalid JSON: {e}")))?;

    let mut header = Header { tensors: Vec::new(), metadata: BTreeMap::new() };
    for (name, value) in map {
        if name == METADATA {
            header.metadata = read_metadata(context, value)?;
        } else {
            header.tensors.push(read_entry(context, name, value, data.clone())?);
        }
    }
    check_cover(context, &header.tensors, data)?;
    Ok(header)
}

/// The header's bytes and the range of the data behind it.
fn split<'a>(context: Context<'_>, bytes: &'a [u8]) -> Result<(&'a [u8], Range<usize>)> {
    let error = |what: String| context.error("header length", what);
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(error(format!("file has {} bytes, fewer than 8", bytes.len())));
    };
    let length = u64::from_le_bytes(*length);
    match usize::try_from(length) {
        Ok(n) if n > MAX_HEADER => Err(error(format!("{n} is over the cap of {MAX_HEADER}"))),
        Ok(n) if n <= rest.len() => Ok((&rest[..n], 8 + n..bytes.len())),
        _ => Err(error(format!("{length} is past the end of a file of {} bytes", bytes.len()))),
    }
}

fn read_metadata(context: Context<'_>, value: Value) -> Result<BTreeMap<String, String>> {
    // MLX writes null when there is none.
    if value.is_null() {
        return Ok(BTreeMap::new());
    }
    serde_json::from_value(value).map_err(|e| context.error(METADATA, e))
}

fn read_entry(
    context: Context<'_>,
    name: String,
    value: Value,
    data: Range<usize>,
) -> Result<Entry> {
    let field = tensor(&name);
    let info: TensorInfo = serde_json::from_value(value).map_err(|e| context.error(&field, e))?;
    let dtype = dtype_of(info.dtype).ok_or_else(|| {
        context.error(&field, format_args!("dtype {} is not supported", info.dtype))
    })?;
    let dims: Vec<u64> = info.shape.iter().map(|&d| d as u64).collect();
    let (shape, nbytes) = context.shape(&field, &dims, dtype.size())?;

    let (start, end) = info.data_offsets;
    let what = format!("data_offsets [{start}, {end}]");
    if start > end || end > data.len() {
        let what = format!("{what} are past the end of {} bytes of data", data.len());
        return Err(context.error(&field, what));
    }
    if end - start != nbytes {
        let what = format!("{what} hold {} bytes, shape and dtype need {nbytes}", end - start);
        return Err(context.error(&field, what));
    }
    Ok(Entry { name, dtype, shape, range: data.start + start..data.start + end })
}

/// Checks that the tensors cover the data without overlap or hole.
fn check_cover(context: Context<'_>, tensors: &[Entry], data: Range<usize>) -> Result<()> {
    let mut order: Vec<&Entry> = tensors.iter().collect();
    order.sort_by_key(|e| (e.range.start, e.range.end));
    let mut covered = data.start;
    for entry in order {
        if entry.range.start != covered {
            let fault = if entry.range.start < covered { "overlap" } else { "leave a hole after" };
            let what = format!("data_offsets {fault} the tensor before");
            return Err(context.error(tensor(&entry.name), what));
        }
        covered = entry.range.end;
    }
    if covered != data.end {
        let what = format!("{} bytes belong to no tensor", data.end - covered);
        return Err(context.error("data", what));
    }
    Ok(())
}

/// The dtype that holds a file's elements; 8-bit floats are bytes, as in MLX (`from_fp8`).
fn dtype_of(dtype: FileDtype) -> Option<Dtype> {
    Some(match dtype {
        FileDtype::BOOL => Dtype::Bool,
        FileDtype::U8 | FileDtype::F8_E4M3 | FileDtype::F8_E8M0 => Dtype::Uint8,
        FileDtype::U16 => Dtype::Uint16,
        FileDtype::U32 => Dtype::Uint32,
        FileDtype::U64 => Dtype::Uint64,
        FileDtype::I8 => Dtype::Int8,
        FileDtype::I16 => Dtype::Int16,
        FileDtype::I32 => Dtype::Int32,
        FileDtype::I64 => Dtype::Int64,
        FileDtype::F16 => Dtype::Float16,
        FileDtype::BF16 => Dtype::Bfloat16,
        FileDtype::F32 => Dtype::Float32,
        FileDtype::F64 => Dtype::Float64,
        FileDtype::C64 => Dtype::Complex64,
        _ => return None,
    })
}
