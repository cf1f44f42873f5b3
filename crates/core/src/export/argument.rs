//! What a primitive of upstream is made with.

use std::fmt;

use super::bytes::{Bytes, Misfit};
use crate::{
    Dtype,
    primitives::{Exact, Scalar},
};

/// An argument that upstream makes a primitive with. Integers that files hold in 32 bits have 64 here; one
/// that does not fit is refused when it is written.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the variants are types of C++")]
pub enum Argument {
    Bool(bool),
    Int(i64),
    Size(u64),
    Float(f32),
    Double(f64),
    Dtype(Dtype),
    /// Sizes of axes, or starts and ends along them.
    Shape(Vec<i64>),
    Strides(Vec<i64>),
    Ints(Vec<i64>),
    Sizes(Vec<u64>),
    Text(String),
    /// Three truth values for each of several things.
    Flags(Vec<[bool; 3]>),
    /// Numbers of different types.
    Scalars(Vec<Scalar>),
    MaybeFloat(Option<f32>),
}

/// Which argument comes next in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    Size,
    Float,
    Double,
    Dtype,
    Shape,
    Strides,
    Ints,
    Sizes,
    Text,
    Flags,
    Scalars,
    MaybeFloat,
}

/// Upstream's numbers of dtypes are places in this list.
const DTYPES: [Dtype; 14] = [
    Dtype::Bool,
    Dtype::Uint8,
    Dtype::Uint16,
    Dtype::Uint32,
    Dtype::Uint64,
    Dtype::Int8,
    Dtype::Int16,
    Dtype::Int32,
    Dtype::Int64,
    Dtype::Float16,
    Dtype::Float32,
    Dtype::Float64,
    Dtype::Bfloat16,
    Dtype::Complex64,
];

impl Argument {
    /// A list of sizes or axes.
    pub(super) fn ints(values: &[usize]) -> Self {
        Self::Ints(signed(values))
    }

    /// A shape.
    pub(super) fn shape(values: &[usize]) -> Self {
        Self::Shape(signed(values))
    }

    /// A number that counts something, or an axis.
    pub(super) fn int(value: usize) -> Self {
        Self::Int(value as i64)
    }

    /// Appends the bytes that a file has of it.
    ///
    /// # Errors
    /// The integer that has more than 32 bits.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), i64> {
        match self {
            Self::Bool(value) => out.push(u8::from(*value)),
            Self::Int(value) => write_int(out, *value)?,
            Self::Size(value) => write_size(out, *value),
            Self::Float(value) => out.extend(value.to_le_bytes()),
            Self::Double(value) => out.extend(value.to_le_bytes()),
            Self::Dtype(dtype) => write_dtype(out, *dtype),
            Self::Shape(values) | Self::Ints(values) => {
                write_size(out, values.len() as u64);
                values.iter().try_for_each(|&value| write_int(out, value))?;
            }
            Self::Strides(values) => {
                write_size(out, values.len() as u64);
                values.iter().for_each(|value| out.extend(value.to_le_bytes()));
            }
            Self::Sizes(values) => {
                write_size(out, values.len() as u64);
                values.iter().for_each(|&value| write_size(out, value));
            }
            Self::Text(text) => write_text(out, text),
            Self::Flags(all) => {
                write_size(out, all.len() as u64);
                out.extend(all.as_flattened().iter().copied().map(u8::from));
            }
            Self::Scalars(all) => {
                write_size(out, all.len() as u64);
                all.iter().for_each(|scalar| write_scalar(out, *scalar));
            }
            Self::MaybeFloat(value) => {
                out.push(u8::from(value.is_some()));
                out.extend(value.iter().flat_map(|value| value.to_le_bytes()));
            }
        }
        Ok(())
    }
}

impl Kind {
    /// Reads an argument of this kind.
    pub(super) fn read(self, bytes: &mut Bytes<'_>) -> Result<Argument, Misfit> {
        Ok(match self {
            Self::Bool => Argument::Bool(bytes.flag()?),
            Self::Int => Argument::Int(bytes.int()?.into()),
            Self::Size => Argument::Size(bytes.size()?),
            Self::Float => Argument::Float(f32::from_le_bytes(bytes.array()?)),
            Self::Double => Argument::Double(f64::from_le_bytes(bytes.array()?)),
            Self::Dtype => Argument::Dtype(dtype(bytes)?),
            Self::Shape => Argument::Shape(bytes.list(4, |b| b.int().map(i64::from))?),
            Self::Ints => Argument::Ints(bytes.list(4, |b| b.int().map(i64::from))?),
            Self::Strides => {
                Argument::Strides(bytes.list(8, |b| b.array().map(i64::from_le_bytes))?)
            }
            Self::Sizes => Argument::Sizes(bytes.list(8, Bytes::size)?),
            Self::Text => Argument::Text(bytes.text()?),
            Self::Flags => Argument::Flags(bytes.list(3, flags)?),
            Self::Scalars => Argument::Scalars(bytes.list(5, scalar)?),
            Self::MaybeFloat => {
                let value = bytes.flag()?.then(|| bytes.array()).transpose()?;
                Argument::MaybeFloat(value.map(f32::from_le_bytes))
            }
        })
    }
}

impl fmt::Display for Argument {
    /// As Python shows it to a callback.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Int(value) => value.fmt(f),
            Self::Size(value) => value.fmt(f),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Double(value) => write!(f, "{value:?}"),
            Self::Dtype(dtype) => dtype.fmt(f),
            Self::Shape(values) | Self::Strides(values) => tuple(values).fmt(f),
            Self::Ints(values) => write!(f, "{values:?}"),
            Self::Sizes(values) => write!(f, "{values:?}"),
            Self::Text(text) => write!(f, "'{text}'"),
            Self::Flags(all) => write!(f, "{all:?}"),
            Self::Scalars(all) => write!(f, "{all:?}"),
            Self::MaybeFloat(value) => write!(f, "{value:?}"),
        }
    }
}

/// Numbers between parentheses, as upstream prints shapes.
pub(super) fn tuple(values: &[impl ToString]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    format!("({})", values.join(","))
}

fn signed(values: &[usize]) -> Vec<i64> {
    values.iter().map(|&value| value as i64).collect()
}

fn write_int(out: &mut Vec<u8>, value: i64) -> Result<(), i64> {
    let value = i32::try_from(value).map_err(|_| value)?;
    out.extend(value.to_le_bytes());
    Ok(())
}

/// Appends which type a number has, and the number.
fn write_scalar(out: &mut Vec<u8>, scalar: Scalar) {
    let (kind, number): (i32, &[u8]) = match scalar {
        Scalar::Int(value) => (0, &value.to_le_bytes()),
        Scalar::Float(value) => (1, &value.0.to_le_bytes()),
        Scalar::Bool(value) => (2, &[u8::from(value)]),
    };
    out.extend(kind.to_le_bytes());
    out.extend(number);
}

/// Reads what [`write_scalar`] wrote.
fn scalar(bytes: &mut Bytes<'_>) -> Result<Scalar, Misfit> {
    Ok(match bytes.int()? {
        0 => Scalar::Int(bytes.int()?),
        1 => Scalar::Float(Exact(f32::from_le_bytes(bytes.array()?))),
        2 => Scalar::Bool(bytes.flag()?),
        other => return Err(format!("{other} is no type of a number")),
    })
}

fn flags(bytes: &mut Bytes<'_>) -> Result<[bool; 3], Misfit> {
    Ok([bytes.flag()?, bytes.flag()?, bytes.flag()?])
}

/// Appends 64 bits.
pub(super) fn write_size(out: &mut Vec<u8>, value: u64) {
    out.extend(value.to_le_bytes());
}

/// Appends a text behind its length.
pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    write_size(out, text.len() as u64);
    out.extend(text.as_bytes());
}

/// Appends the number and the size of a dtype.
pub(super) fn write_dtype(out: &mut Vec<u8>, dtype: Dtype) {
    let number = DTYPES.iter().position(|&known| known == dtype).expect("every dtype is listed");
    out.extend((number as i32).to_le_bytes());
    out.push(dtype.size() as u8);
}

/// Reads what [`write_dtype`] wrote.
pub(super) fn dtype(bytes: &mut Bytes<'_>) -> Result<Dtype, Misfit> {
    let (number, [size]) = (bytes.int()?, bytes.array()?);
    let known = usize::try_from(number).ok().and_then(|number| DTYPES.get(number).copied());
    match known.filter(|dtype| dtype.size() == usize::from(size)) {
        Some(dtype) => Ok(dtype),
        None => Err(format!("{number} of {size} bytes is no dtype")),
    }
}
