//! Arguments that are arrays or numbers.

use crate::{Array, Dtype, Error, Result, dispatch_dtype, dtype::FromF64, iinfo};

/// An argument that is an array or a Rust number. Numbers are weak: they take the other
/// operand's dtype where it can hold their kind; integers as [`weak_int_scalar`] says.
pub trait Operand {
    /// The argument as an array beside an operand of dtype `other`.
    ///
    /// # Errors
    /// When the dtype that an integer takes has it not, or memory is out.
    fn to_array(&self, other: Option<Dtype>) -> Result<Array>;

    /// The dtype, unless the argument is a weak scalar.
    fn strong_dtype(&self) -> Option<Dtype>;

    /// The value of a weak integer.
    fn weak_int(&self) -> Option<i64> {
        None
    }
}

impl Operand for Array {
    fn to_array(&self, _: Option<Dtype>) -> Result<Array> {
        Ok(self.clone())
    }

    fn strong_dtype(&self) -> Option<Dtype> {
        Some(self.dtype())
    }
}

impl<T: Operand + ?Sized> Operand for &T {
    fn to_array(&self, other: Option<Dtype>) -> Result<Array> {
        (**self).to_array(other)
    }

    fn strong_dtype(&self) -> Option<Dtype> {
        (**self).strong_dtype()
    }

    fn weak_int(&self) -> Option<i64> {
        (**self).weak_int()
    }
}

macro_rules! weak_floats {
    ($($t:ty),*) => {$(
        impl Operand for $t {
            fn to_array(&self, other: Option<Dtype>) -> Result<Array> {
                let dtype = other.filter(|dtype| dtype.is_inexact()).unwrap_or(Dtype::Float32);
                Array::scalar_of((*self).into(), dtype)
            }

            fn strong_dtype(&self) -> Option<Dtype> {
                None
            }
        }
    )*};
}

weak_floats!(f32, f64);

macro_rules! weak_ints {
    ($($t:ty),*) => {$(
        impl Operand for $t {
            fn to_array(&self, other: Option<Dtype>) -> Result<Array> {
                weak_int_scalar((*self).into(), other)
            }

            fn strong_dtype(&self) -> Option<Dtype> {
                None
            }

            fn weak_int(&self) -> Option<i64> {
                Some((*self).into())
            }
        }
    )*};
}

weak_ints!(i32, u32);

/// An integer beside an operand of dtype `other`, whose dtype it takes; beside booleans it is an int32. To
/// that and to dtypes of 64 bits it wraps around. By itself it has the dtype of [`dtype_of_int`].
///
/// # Errors
/// When another dtype of integers has not the number: `Converting N to D would result in overflow.`
pub fn weak_int_scalar(value: i64, other: Option<Dtype>) -> Result<Array> {
    let dtype = match other {
        Some(Dtype::Bool) => return int_scalar(value, Dtype::Int32),
        Some(dtype) => dtype,
        None => dtype_of_int(value),
    };
    if dtype.is_integer() && dtype.size() < 8 {
        let info = iinfo(dtype)?;
        if value < info.min || value > info.max as i64 {
            let message = format!("Converting {value} to {dtype} would result in overflow.");
            return Err(Error::invalid("array", message));
        }
    }
    int_scalar(value, dtype)
}

/// The dtype of an integer by itself: int32, or int64 where that has it not.
pub fn dtype_of_int(value: i64) -> Dtype {
    if i32::try_from(value).is_ok() { Dtype::Int32 } else { Dtype::Int64 }
}

/// A scalar of `dtype`; integers wrap around.
///
/// # Errors
/// When memory is out.
pub fn int_scalar(value: i64, dtype: Dtype) -> Result<Array> {
    match dtype {
        Dtype::Int64 => Array::scalar(value),
        Dtype::Uint64 => Array::scalar(value as u64),
        Dtype::Int32 => Array::scalar(value as i32),
        Dtype::Uint32 => Array::scalar(value as u32),
        Dtype::Int16 => Array::scalar(value as i16),
        Dtype::Uint16 => Array::scalar(value as u16),
        Dtype::Int8 => Array::scalar(value as i8),
        Dtype::Uint8 => Array::scalar(value as u8),
        other => dispatch_dtype!(other, T => Array::scalar(<T as FromF64>::from_f64(value as f64))),
    }
}

impl Operand for bool {
    fn to_array(&self, other: Option<Dtype>) -> Result<Array> {
        Array::scalar_of(*self as u8 as f64, other.unwrap_or(Dtype::Bool))
    }

    fn strong_dtype(&self) -> Option<Dtype> {
        None
    }
}

/// Both operands as arrays of their own dtypes, scalars following the other operand.
pub(crate) fn operands(a: impl Operand, b: impl Operand) -> Result<(Array, Array)> {
    let (da, db) = (a.strong_dtype(), b.strong_dtype());
    Ok((a.to_array(db)?, b.to_array(da)?))
}
