//! Reading of the metadata.

use super::{ALIGNMENT, DEFAULT_ALIGNMENT, GgufArray, GgufValue, Metadata, value::ARRAY_ID};
use crate::{
    Result,
    io::{context::Context, reader::Reader},
};

/// Longest string value: tokenizers' vocabularies are arrays of short ones, templates are a few KiB.
pub(super) const MAX_STRING: usize = 16 << 20;

/// Longest key, from the specification.
pub(super) const MAX_KEY: usize = (1 << 16) - 1;

/// Deepest nesting of arrays; no known file nests at all.
const MAX_DEPTH: usize = 8;

/// Largest alignment: a page of any system is smaller.
const MAX_ALIGNMENT: u64 = 1 << 20;

/// The least bytes of a pair: an empty key, a type and one byte.
const LEAST_PAIR: usize = 8 + 4 + 1;

/// Reads `pairs` keys with their values.
pub(super) fn read(context: Context<'_>, reader: &mut Reader<'_>, pairs: u64) -> Result<Metadata> {
    let pairs =
        reader.check_count(pairs, LEAST_PAIR).map_err(|e| context.error("metadata count", e))?;
    let mut metadata = Metadata::new();
    for index in 0..pairs {
        let key = reader
            .string(MAX_KEY)
            .map_err(|e| context.error(format_args!("metadata key {index}"), e))?;
        let error = |what: String| {
            let shown: String = key.chars().take(100).collect();
            context.error(format_args!("metadata {shown:?}"), what)
        };
        let id = reader.u32().map_err(error)?;
        let value = read_value(reader, id).map_err(error)?;
        if metadata.contains_key(&key) {
            return Err(error("duplicate key".into()));
        }
        metadata.insert(key, value);
    }
    Ok(metadata)
}

/// The alignment of tensor data, in bytes: a power of two of at most 1 MiB.
pub(super) fn alignment(context: Context<'_>, metadata: &Metadata) -> Result<usize> {
    let Some(value) = metadata.get(ALIGNMENT) else { return Ok(DEFAULT_ALIGNMENT) };
    match value.as_u64() {
        Some(n) if n.is_power_of_two() && n <= MAX_ALIGNMENT => Ok(n as usize),
        _ => {
            let what = "is not a power of two of at most 1 MiB";
            Err(context.error(format_args!("metadata {ALIGNMENT:?}"), what))
        }
    }
}

fn read_value(reader: &mut Reader<'_>, id: u32) -> Result<GgufValue, String> {
    use GgufValue as V;
    Ok(match id {
        0 => V::Uint8(u8::from_le_bytes(reader.array()?)),
        1 => V::Int8(i8::from_le_bytes(reader.array()?)),
        2 => V::Uint16(u16::from_le_bytes(reader.array()?)),
        3 => V::Int16(i16::from_le_bytes(reader.array()?)),
        4 => V::Uint32(u32::from_le_bytes(reader.array()?)),
        5 => V::Int32(i32::from_le_bytes(reader.array()?)),
        6 => V::Float32(f32::from_le_bytes(reader.array()?)),
        7 => V::Bool(boolean(reader.array()?)?),
        8 => V::String(reader.string(MAX_STRING)?),
        ARRAY_ID => V::Array(read_array(reader, 1)?),
        10 => V::Uint64(u64::from_le_bytes(reader.array()?)),
        11 => V::Int64(i64::from_le_bytes(reader.array()?)),
        12 => V::Float64(f64::from_le_bytes(reader.array()?)),
        _ => return Err(format!("value type {id} is unknown")),
    })
}

fn read_array(reader: &mut Reader<'_>, depth: usize) -> Result<GgufArray, String> {
    use GgufArray as A;
    if depth > MAX_DEPTH {
        return Err(format!("arrays nest deeper than {MAX_DEPTH}"));
    }
    let id = reader.u32()?;
    Ok(match id {
        0 => A::Uint8(numbers(reader, u8::from_le_bytes)?),
        1 => A::Int8(numbers(reader, i8::from_le_bytes)?),
        2 => A::Uint16(numbers(reader, u16::from_le_bytes)?),
        3 => A::Int16(numbers(reader, i16::from_le_bytes)?),
        4 => A::Uint32(numbers(reader, u32::from_le_bytes)?),
        5 => A::Int32(numbers(reader, i32::from_le_bytes)?),
        6 => A::Float32(numbers(reader, f32::from_le_bytes)?),
        7 => A::Bool(numbers(reader, boolean)?.into_iter().collect::<Result<_, _>>()?),
        8 => A::String(many(reader, 8, |r| r.string(MAX_STRING))?),
        ARRAY_ID => A::Array(many(reader, 12, |r| read_array(r, depth + 1))?),
        10 => A::Uint64(numbers(reader, u64::from_le_bytes)?),
        11 => A::Int64(numbers(reader, i64::from_le_bytes)?),
        12 => A::Float64(numbers(reader, f64::from_le_bytes)?),
        _ => return Err(format!("array type {id} is unknown")),
    })
}

/// A count and as many numbers of `N` bytes.
fn numbers<T, const N: usize>(
    reader: &mut Reader<'_>,
    from: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>, String> {
    let count = reader.count(N)?;
    let (chunks, _) = reader.take(count * N)?.as_chunks::<N>();
    Ok(chunks.iter().map(|&bytes| from(bytes)).collect())
}

/// A count and as many elements of at least `least` bytes.
fn many<T>(
    reader: &mut Reader<'_>,
    least: usize,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let count = reader.count(least)?;
    (0..count).map(|i| read(reader).map_err(|e| format!("element {i}: {e}"))).collect()
}

/// "Anything other than 0 and 1 is invalid", says the specification.
fn boolean([byte]: [u8; 1]) -> Result<bool, String> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(format!("{byte} is not a boolean")),
    }
}
