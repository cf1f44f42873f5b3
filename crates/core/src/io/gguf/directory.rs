//! Reading of the directory of tensors.

use std::ops::Range;

use crate::{
    Dtype, Result, Shape,
    io::{
        context::{Context, tensor},
        reader::Reader,
    },
};

/// The most axes: ggml has 4, the library that MLX writes GGUF with 8.
pub(super) const MAX_AXES: usize = 8;

/// Longest name: ggml has 64 bytes, MLX any number.
pub(super) const MAX_NAME: usize = 4096;

/// The least bytes of an entry: an empty name, no axes, type and offset.
const LEAST_ENTRY: usize = 8 + 4 + 4 + 8;

/// Elements of a block of every quantized type here: MLX's group size.
pub(super) const BLOCK: usize = 32;

/// How a tensor is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Elements of a dtype.
    Plain(Dtype),
    /// Blocks of a float16 scale and 32 codes of 4 bits.
    Q4_0,
    /// Blocks of a float16 scale, a float16 minimum and 32 codes of 4 bits.
    Q4_1,
    /// Blocks of a float16 scale and 32 codes of 8 bits.
    Q8_0,
    /// Blocks of an exponent and 32 floats of 4 bits.
    Mxfp4,
}

impl Kind {
    fn from_id(id: u32) -> Option<Self> {
        Some(match id {
            0 => Kind::Plain(Dtype::Float32),
            1 => Kind::Plain(Dtype::Float16),
            2 => Kind::Q4_0,
            3 => Kind::Q4_1,
            8 => Kind::Q8_0,
            24 => Kind::Plain(Dtype::Int8),
            25 => Kind::Plain(Dtype::Int16),
            26 => Kind::Plain(Dtype::Int32),
            27 => Kind::Plain(Dtype::Int64),
            28 => Kind::Plain(Dtype::Float64),
            30 => Kind::Plain(Dtype::Bfloat16),
            39 => Kind::Mxfp4,
            _ => return None,
        })
    }

    /// The type's number of a dtype that GGUF has.
    pub(super) fn id_of(dtype: Dtype) -> Option<u32> {
        (0..=30).find(|&id| Self::from_id(id) == Some(Kind::Plain(dtype)))
    }

    /// Bytes of one block of a quantized type.
    pub(super) fn block_bytes(self) -> usize {
        match self {
            Kind::Plain(dtype) => dtype.size() * BLOCK,
            Kind::Q4_0 => 2 + 16,
            Kind::Q4_1 => 4 + 16,
            Kind::Q8_0 => 2 + 32,
            Kind::Mxfp4 => 1 + 16,
        }
    }

    /// Dtype of the scale of a block of a quantized type; the block begins with it.
    pub(super) fn scale(self) -> Dtype {
        if self == Kind::Mxfp4 { Dtype::Uint8 } else { Dtype::Float16 }
    }

    /// Bits of a code of a quantized type in MLX's form.
    pub(super) fn bits(self) -> usize {
        if self == Kind::Q8_0 { 8 } else { 4 }
    }
}

/// Name of a ggml type that is not supported, for messages.
fn type_name(id: u32) -> &'static str {
    match id {
        6 => "Q5_0",
        7 => "Q5_1",
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        12 => "Q4_K",
        13 => "Q5_K",
        14 => "Q6_K",
        15 => "Q8_K",
        16..=23 | 29 => "IQ",
        34 | 35 => "TQ",
        _ => "unknown",
    }
}

/// A tensor of the directory.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Slowest axis first.
    pub(super) shape: Shape,
    /// Where the bytes are in the file: inside of it, and as long as shape and type say.
    pub(super) range: Range<usize>,
}

impl Entry {
    pub(super) fn is_quantized(&self) -> bool {
        !matches!(self.kind, Kind::Plain(_))
    }
}

/// Reads `count` entries, behind which the data starts at a multiple of `alignment`.
pub(super) fn read(
    context: Context<'_>,
    reader: &mut Reader<'_>,
    count: u64,
    alignment: usize,
) -> Result<Vec<Entry>> {
    let count =
        reader.check_count(count, LEAST_ENTRY).map_err(|e| context.error("tensor count", e))?;
    let mut entries = Vec::with_capacity(count);
    for index in 0..count {
        let name = reader
            .string(MAX_NAME)
            .map_err(|e| context.error(format_args!("tensor name {index}"), e))?;
        entries.push(read_entry(context, reader, name, alignment)?);
    }
    let start = reader.position().next_multiple_of(alignment);
    for entry in &mut entries {
        locate(context, entry, start, reader.len())?;
    }
    check_overlap(context, &entries)?;
    Ok(entries)
}

/// Reads an entry after its name; its range is still relative to the data.
fn read_entry(
    context: Context<'_>,
    reader: &mut Reader<'_>,
    name: String,
    alignment: usize,
) -> Result<Entry> {
    let field = tensor(&name);
    let error = |what: String| context.error(&field, what);
    let axes = reader.u32().map_err(error)? as usize;
    if axes > MAX_AXES {
        return Err(error(format!("n_dims {axes} is over {MAX_AXES}")));
    }
    let mut dims = Vec::with_capacity(axes);
    for _ in 0..axes {
        dims.push(reader.u64().map_err(error)?);
    }
    // The fastest axis comes first in the file and last here.
    dims.reverse();
    let id = reader.u32().map_err(error)?;
    let offset = reader.u64().map_err(error)?;

    let kind = Kind::from_id(id)
        .ok_or_else(|| error(format!("type {} ({id}) is not supported", type_name(id))))?;
    let (shape, nbytes) = size(context, &field, kind, &dims)?;
    let offset = usize::try_from(offset).map_err(|e| error(format!("offset {offset}: {e}")))?;
    if !offset.is_multiple_of(alignment) {
        return Err(error(format!("offset {offset} is not a multiple of {alignment}")));
    }
    let end = offset
        .checked_add(nbytes)
        .ok_or_else(|| error(format!("offset {offset} + {nbytes} bytes overflows")))?;
    Ok(Entry { name, kind, shape, range: offset..end })
}

/// The shape and the bytes of a tensor.
fn size(context: Context<'_>, field: &str, kind: Kind, dims: &[u64]) -> Result<(Shape, usize)> {
    if let Kind::Plain(dtype) = kind {
        return context.shape(field, dims, dtype.size());
    }
    // No form of a code here takes more than two bytes, its share of the scales included.
    let (shape, twice) = context.shape(field, dims, 2)?;
    if !shape.last().is_some_and(|d| d.is_multiple_of(BLOCK)) {
        let what = format!("shape {dims:?} of a quantized tensor is not a multiple of {BLOCK}");
        return Err(context.error(field, what));
    }
    Ok((shape, twice / 2 / BLOCK * kind.block_bytes()))
}

/// Makes an entry's range one of the file, in which the data starts at `start`.
fn locate(context: Context<'_>, entry: &mut Entry, start: usize, len: usize) -> Result<()> {
    let ends = (start.checked_add(entry.range.start), start.checked_add(entry.range.end));
    match ends {
        (Some(begin), Some(end)) if end <= len => {
            entry.range = begin..end;
            Ok(())
        }
        // Without elements there is nothing to read past the end.
        _ if entry.range.is_empty() => {
            entry.range = 0..0;
            Ok(())
        }
        _ => {
            let what = format!("data {:?} is past the end of the file ({len} bytes)", entry.range);
            Err(context.error(tensor(&entry.name), what))
        }
    }
}

fn check_overlap(context: Context<'_>, entries: &[Entry]) -> Result<()> {
    let mut order: Vec<&Entry> = entries.iter().filter(|e| !e.range.is_empty()).collect();
    order.sort_by_key(|e| e.range.start);
    for pair in order.windows(2) {
        if pair[1].range.start < pair[0].range.end {
            let what = format!("data overlaps {}", tensor(&pair[0].name));
            return Err(context.error(tensor(&pair[1].name), what));
        }
    }
    Ok(())
}
