//! Metadata values: thirteen types, of which one is arrays of any of them.

use crate::{Array, Dtype, Element, Error, Result, dtype::Bool8};

const SAVE: &str = "save_gguf";

macro_rules! values {
    ($($(#[$doc:meta])* $variant:ident($type:ty) = $id:literal),* $(,)?) => {
        /// A metadata value.
        #[derive(Debug, Clone, PartialEq)]
        pub enum GgufValue {
            $($(#[$doc])* $variant($type),)*
            /// Values of one type.
            Array(GgufArray),
        }

        /// An array of metadata values of one type.
        #[derive(Debug, Clone, PartialEq)]
        pub enum GgufArray {
            $($(#[$doc])* $variant(Vec<$type>),)*
            /// Arrays, each with a type of its own.
            Array(Vec<GgufArray>),
        }

        impl GgufValue {
            /// The type's number in a file.
            pub(super) fn type_id(&self) -> u32 {
                match self {
                    $(GgufValue::$variant(_) => $id,)*
                    GgufValue::Array(_) => ARRAY_ID,
                }
            }
        }

        impl GgufArray {
            /// The number of the elements' type in a file.
            pub(super) fn type_id(&self) -> u32 {
                match self {
                    $(GgufArray::$variant(_) => $id,)*
                    GgufArray::Array(_) => ARRAY_ID,
                }
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                match self {
                    $(GgufArray::$variant(v) => v.len(),)*
                    GgufArray::Array(v) => v.len(),
                }
            }
        }

        $(
            impl From<$type> for GgufValue {
                fn from(value: $type) -> Self {
                    GgufValue::$variant(value)
                }
            }

            impl From<Vec<$type>> for GgufValue {
                fn from(values: Vec<$type>) -> Self {
                    GgufValue::Array(GgufArray::$variant(values))
                }
            }
        )*
    };
}

/// The number of the array type in a file.
pub(super) const ARRAY_ID: u32 = 9;

values! {
    /// Unsigned 8-bit integer.
    Uint8(u8) = 0,
    /// Signed 8-bit integer.
    Int8(i8) = 1,
    /// Unsigned 16-bit integer.
    Uint16(u16) = 2,
    /// Signed 16-bit integer.
    Int16(i16) = 3,
    /// Unsigned 32-bit integer.
    Uint32(u32) = 4,
    /// Signed 32-bit integer.
    Int32(i32) = 5,
    /// Single precision.
    Float32(f32) = 6,
    /// Boolean.
    Bool(bool) = 7,
    /// UTF-8 text.
    String(String) = 8,
    /// Unsigned 64-bit integer.
    Uint64(u64) = 10,
    /// Signed 64-bit integer.
    Int64(i64) = 11,
    /// Double precision.
    Float64(f64) = 12,
}

impl From<&str> for GgufValue {
    fn from(value: &str) -> Self {
        GgufValue::String(value.into())
    }
}

impl GgufValue {
    /// The value of any integer type that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            GgufValue::Uint8(v) => Some(v.into()),
            GgufValue::Uint16(v) => Some(v.into()),
            GgufValue::Uint32(v) => Some(v.into()),
            GgufValue::Uint64(v) => Some(v),
            GgufValue::Int8(v) => v.try_into().ok(),
            GgufValue::Int16(v) => v.try_into().ok(),
            GgufValue::Int32(v) => v.try_into().ok(),
            GgufValue::Int64(v) => v.try_into().ok(),
            _ => None,
        }
    }

    /// The value of any number type.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            GgufValue::Float32(v) => Some(v.into()),
            GgufValue::Float64(v) => Some(v),
            GgufValue::Int8(v) => Some(v.into()),
            GgufValue::Int16(v) => Some(v.into()),
            GgufValue::Int32(v) => Some(v.into()),
            GgufValue::Int64(v) => Some(v as f64),
            _ => self.as_u64().map(|v| v as f64),
        }
    }

    /// The value of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            GgufValue::Bool(v) => Some(v),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            GgufValue::String(v) => Some(v),
            _ => None,
        }
    }

    /// The elements of an array.
    pub fn as_array(&self) -> Option<&GgufArray> {
        match self {
            GgufValue::Array(v) => Some(v),
            _ => None,
        }
    }

    /// The elements of an array of strings.
    pub fn as_strings(&self) -> Option<&[String]> {
        match self {
            GgufValue::Array(GgufArray::String(v)) => Some(v),
            _ => None,
        }
    }

    /// A number, boolean, or array of them as an array of the same dtype, as MLX's `load` returns
    /// it; `None` for text and nested arrays. Float64 becomes float32, as in MLX.
    ///
    /// # Errors
    /// When memory is out.
    pub fn to_array(&self) -> Option<Result<Array>> {
        use GgufValue as V;
        Some(match self {
            V::Uint8(v) => Array::scalar(*v),
            V::Int8(v) => Array::scalar(*v),
            V::Uint16(v) => Array::scalar(*v),
            V::Int16(v) => Array::scalar(*v),
            V::Uint32(v) => Array::scalar(*v),
            V::Int32(v) => Array::scalar(*v),
            V::Float32(v) => Array::scalar(*v),
            V::Bool(v) => Array::scalar(Bool8::from(*v)),
            V::Uint64(v) => Array::scalar(*v),
            V::Int64(v) => Array::scalar(*v),
            V::Float64(v) => Array::scalar(*v as f32),
            V::String(_) => return None,
            V::Array(v) => return v.to_array(),
        })
    }

    /// A scalar or one-dimensional array as a value: what MLX's `save_gguf` takes as metadata.
    ///
    /// # Errors
    /// When the array is empty, has more axes or a dtype that metadata does not have, or cannot be
    /// evaluated.
    pub fn from_array(array: &Array) -> Result<Self> {
        let error = |message: String| Err(Error::invalid(SAVE, message));
        if array.ndim() > 1 {
            return error("Cannot save arrays with more than one dimension.".into());
        }
        if array.size() == 0 {
            return error("Cannot save empty arrays.".into());
        }
        match array.dtype() {
            Dtype::Bool => {
                let bytes = array.to_vec::<Bool8>()?;
                let values: Vec<bool> = bytes.into_iter().map(bool::from).collect();
                Ok(Self::of(values, array))
            }
            Dtype::Uint8 => Self::of_elements::<u8>(array),
            Dtype::Int8 => Self::of_elements::<i8>(array),
            Dtype::Uint16 => Self::of_elements::<u16>(array),
            Dtype::Int16 => Self::of_elements::<i16>(array),
            Dtype::Uint32 => Self::of_elements::<u32>(array),
            Dtype::Int32 => Self::of_elements::<i32>(array),
            Dtype::Uint64 => Self::of_elements::<u64>(array),
            Dtype::Int64 => Self::of_elements::<i64>(array),
            Dtype::Float32 => Self::of_elements::<f32>(array),
            Dtype::Float64 => Self::of_elements::<f64>(array),
            dtype @ (Dtype::Float16 | Dtype::Bfloat16 | Dtype::Complex64) => {
                error(format!("array type {dtype} not support for metadata."))
            }
        }
    }

    fn of_elements<T: Element>(array: &Array) -> Result<Self>
    where
        GgufValue: From<T> + From<Vec<T>>,
    {
        Ok(Self::of(array.to_vec::<T>()?, array))
    }

    fn of<T: Copy>(values: Vec<T>, array: &Array) -> Self
    where
        GgufValue: From<T> + From<Vec<T>>,
    {
        match values[..] {
            [value] if array.ndim() == 0 => value.into(),
            _ => values.into(),
        }
    }
}

impl GgufArray {
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn to_array(&self) -> Option<Result<Array>> {
        use GgufArray as A;
        fn of<T: Element>(values: &[T]) -> Option<Result<Array>> {
            Some(Array::from_slice(values, &[values.len()]))
        }
        match self {
            A::Uint8(v) => of(v),
            A::Int8(v) => of(v),
            A::Uint16(v) => of(v),
            A::Int16(v) => of(v),
            A::Uint32(v) => of(v),
            A::Int32(v) => of(v),
            A::Float32(v) => of(v),
            A::Bool(v) => of(&v.iter().map(|&b| Bool8::from(b)).collect::<Vec<_>>()),
            A::Uint64(v) => of(v),
            A::Int64(v) => of(v),
            A::Float64(v) => of(&v.iter().map(|&x| x as f32).collect::<Vec<_>>()),
            A::String(_) | A::Array(_) => None,
        }
    }
}
