//! Questions about dtypes: their limits, kinds, and what promotes to what.

use std::str::FromStr;

use super::{Category, Dtype};
use crate::{Error, Result, bf16, f16};

/// Limits of a floating dtype; those of complex64 are float32's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finfo {
    /// The dtype.
    pub dtype: Dtype,
    /// Bits of a number.
    pub bits: usize,
    /// The least finite number.
    pub min: f64,
    /// The largest finite number.
    pub max: f64,
    /// The distance of 1 and the next number.
    pub eps: f64,
    /// The smallest positive number with all its digits.
    pub smallest_normal: f64,
}

/// Limits of a floating dtype.
///
/// # Errors
/// For other dtypes.
pub fn finfo(dtype: Dtype) -> Result<Finfo> {
    let info = |dtype: Dtype, max: f64, eps: f64, smallest_normal: f64| Finfo {
        dtype,
        bits: 8 * dtype.size(),
        min: -max,
        max,
        eps,
        smallest_normal,
    };
    match dtype {
        Dtype::Float16 => {
            Ok(info(dtype, f16::MAX.to_f64(), f16::EPSILON.to_f64(), f16::MIN_POSITIVE.to_f64()))
        }
        Dtype::Bfloat16 => {
            Ok(info(dtype, bf16::MAX.to_f64(), bf16::EPSILON.to_f64(), bf16::MIN_POSITIVE.to_f64()))
        }
        Dtype::Float32 | Dtype::Complex64 => {
            Ok(info(Dtype::Float32, f32::MAX.into(), f32::EPSILON.into(), f32::MIN_POSITIVE.into()))
        }
        Dtype::Float64 => Ok(info(dtype, f64::MAX, f64::EPSILON, f64::MIN_POSITIVE)),
        _ => Err(Error::invalid("finfo", format!("dtype {dtype} is not inexact."))),
    }
}

/// Limits of an integer dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iinfo {
    /// The dtype.
    pub dtype: Dtype,
    /// The least number.
    pub min: i64,
    /// The largest number.
    pub max: u64,
}

/// Limits of an integer dtype.
///
/// # Errors
/// For other dtypes.
pub fn iinfo(dtype: Dtype) -> Result<Iinfo> {
    let bits = 8 * dtype.size() as u32;
    let (min, max) = match dtype {
        d if d.is_signed_integer() => (i64::MIN >> (64 - bits), i64::MAX as u64 >> (64 - bits)),
        d if d.is_unsigned_integer() => (0, u64::MAX >> (64 - bits)),
        _ => {
            let message = format!("Only integer types supported but {dtype} was provided");
            return Err(Error::invalid("iinfo", message));
        }
    };
    Ok(Iinfo { dtype, min, max })
}

/// Whether promoting both gives `to`.
pub fn can_cast(from: Dtype, to: Dtype) -> bool {
    from.promote(to) == to
}

/// The dtype to which all promote.
///
/// # Errors
/// When there is none.
pub fn result_type(dtypes: &[Dtype]) -> Result<Dtype> {
    let joint = dtypes.iter().copied().reduce(Dtype::promote);
    joint.ok_or_else(|| Error::invalid("result_type", "At least one array or dtype is required."))
}

/// A dtype or a category of dtypes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One dtype.
    Dtype(Dtype),
    /// A category.
    Category(Category),
}

impl From<Dtype> for Kind {
    fn from(dtype: Dtype) -> Self {
        Kind::Dtype(dtype)
    }
}

impl From<Category> for Kind {
    fn from(category: Category) -> Self {
        Kind::Category(category)
    }
}

/// Whether a dtype or category is the other one or belongs to it.
pub fn issubdtype(a: impl Into<Kind>, b: impl Into<Kind>) -> bool {
    match (a.into(), b.into()) {
        (Kind::Dtype(a), Kind::Dtype(b)) => a == b,
        (Kind::Dtype(a), Kind::Category(b)) => a.is_sub(b),
        (Kind::Category(_), Kind::Dtype(_)) => false,
        (Kind::Category(a), Kind::Category(b)) => a.is_within(b),
    }
}

impl Category {
    /// Whether every dtype of this category is one of the other.
    pub const fn is_within(self, other: Category) -> bool {
        use Category::*;
        matches!(
            (self, other),
            (_, Generic)
                | (ComplexFloating, ComplexFloating | Inexact | Number)
                | (Floating, Floating | Inexact | Number)
                | (Inexact, Inexact | Number)
                | (SignedInteger, SignedInteger | Integer | Number)
                | (UnsignedInteger, UnsignedInteger | Integer | Number)
                | (Integer, Integer | Number)
                | (Number, Number)
        )
    }
}

/// A kind of dtypes in the words of the array API standard.
impl FromStr for Kind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "bool" => Kind::Dtype(Dtype::Bool),
            "signed integer" => Kind::Category(Category::SignedInteger),
            "unsigned integer" => Kind::Category(Category::UnsignedInteger),
            "integral" => Kind::Category(Category::Integer),
            "real floating" => Kind::Category(Category::Floating),
            "complex floating" => Kind::Category(Category::ComplexFloating),
            "numeric" => Kind::Category(Category::Number),
            _ => {
                let message = format!("Unknown data type kind: '{name}'.");
                return Err(Error::invalid("isdtype", message));
            }
        })
    }
}

/// Whether a dtype is of one of the kinds; [`Kind::from_str`] knows their names.
pub fn isdtype(dtype: Dtype, kinds: &[Kind]) -> bool {
    kinds.iter().any(|&kind| issubdtype(dtype, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_dtypes() {
        let half = finfo(Dtype::Float16).expect("float16 is inexact");
        assert_eq!((half.bits, half.max, half.eps), (16, 65504.0, 2f64.powi(-10)));
        assert_eq!(half.smallest_normal, 2f64.powi(-14));
        let brain = finfo(Dtype::Bfloat16).expect("bfloat16 is inexact");
        assert_eq!((brain.eps, brain.smallest_normal), (2f64.powi(-7), 2f64.powi(-126)));
        assert_eq!(finfo(Dtype::Complex64).map(|f| f.dtype).ok(), Some(Dtype::Float32));
        let error = finfo(Dtype::Int8).expect_err("int8 has no fractions").to_string();
        assert_eq!(error, "[finfo] dtype int8 is not inexact.");
        let limits = |d| iinfo(d).map(|i| (i.min, i.max)).ok();
        assert_eq!(limits(Dtype::Int8), Some((-128, 127)));
        assert_eq!(limits(Dtype::Uint16), Some((0, 65535)));
        assert_eq!(limits(Dtype::Int64), Some((i64::MIN, i64::MAX as u64)));
        assert_eq!((limits(Dtype::Uint64), limits(Dtype::Bool)), (Some((0, u64::MAX)), None));
    }

    #[test]
    fn kinds_form_a_tree() {
        use Category::*;
        assert!(issubdtype(Dtype::Float16, Inexact) && issubdtype(SignedInteger, Number));
        assert!(!issubdtype(Dtype::Bool, Number) && issubdtype(Dtype::Bool, Generic));
        assert!(!issubdtype(Number, Integer) && !issubdtype(Integer, Dtype::Int8));
        assert!(issubdtype(Dtype::Int8, Dtype::Int8) && !issubdtype(Dtype::Int8, Dtype::Uint8));
        for category in [ComplexFloating, Floating, Inexact, SignedInteger, UnsignedInteger] {
            for other in [Inexact, Integer, Number, Generic, Floating] {
                let all = Dtype::ALL.into_iter().filter(|d| d.is_sub(category));
                let within = all.clone().all(|d| d.is_sub(other));
                assert_eq!(category.is_within(other), within, "{category:?} {other:?}");
            }
        }
    }

    #[test]
    fn casts_promote() {
        assert!(can_cast(Dtype::Int8, Dtype::Int16) && !can_cast(Dtype::Int16, Dtype::Int8));
        let joint = result_type(&[Dtype::Int8, Dtype::Uint8, Dtype::Float16]).ok();
        assert_eq!(joint, Some(Dtype::Float16));
        assert!(result_type(&[]).is_err());
        let kind = |name: &str| Kind::from_str(name).expect("known kinds");
        assert!(isdtype(Dtype::Int8, &[kind("bool"), kind("signed integer")]));
        assert!(!isdtype(Dtype::Bool, &[kind("numeric")]) && Kind::from_str("foo").is_err());
    }
}
