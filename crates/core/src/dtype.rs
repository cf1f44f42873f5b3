//! Element types and MLX's promotion rules.

mod from_f64;
mod info;

pub use from_f64::FromF64;
pub use info::*;

use std::str::FromStr;

pub use half::{bf16, f16};
use num_complex::Complex32;

/// Element type of an array, in MLX's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Dtype {
    /// Boolean, one byte, 0 or 1.
    Bool,
    /// Unsigned 8-bit integer.
    Uint8,
    /// Unsigned 16-bit integer.
    Uint16,
    /// Unsigned 32-bit integer.
    Uint32,
    /// Unsigned 64-bit integer.
    Uint64,
    /// Signed 8-bit integer.
    Int8,
    /// Signed 16-bit integer.
    Int16,
    /// Signed 32-bit integer.
    Int32,
    /// Signed 64-bit integer.
    Int64,
    /// IEEE half precision.
    Float16,
    /// Brain float: the upper half of a float32.
    Bfloat16,
    /// IEEE single precision.
    Float32,
    /// IEEE double precision; runs on CPU streams only.
    Float64,
    /// Pair of float32, real part first.
    Complex64,
}

use Dtype::*;

/// Categories of MLX's type hierarchy (`issubdtype`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// Complex numbers.
    ComplexFloating,
    /// Real floating point numbers.
    Floating,
    /// Floating and complex.
    Inexact,
    /// Signed integers.
    SignedInteger,
    /// Unsigned integers.
    UnsignedInteger,
    /// All integers, without bool.
    Integer,
    /// Everything but bool.
    Number,
    /// Everything.
    Generic,
}

impl Dtype {
    /// Every dtype, in declaration order.
    pub const ALL: [Dtype; 14] = [
        Bool, Uint8, Uint16, Uint32, Uint64, Int8, Int16, Int32, Int64, Float16, Bfloat16, Float32,
        Float64, Complex64,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Bool | Uint8 | Int8 => 1,
            Uint16 | Int16 | Float16 | Bfloat16 => 2,
            Uint32 | Int32 | Float32 => 4,
            Uint64 | Int64 | Float64 | Complex64 => 8,
        }
    }

    /// MLX's name, as in `mlx.core.float32`.
    pub const fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            Uint8 => "uint8",
            Uint16 => "uint16",
            Uint32 => "uint32",
            Uint64 => "uint64",
            Int8 => "int8",
            Int16 => "int16",
            Int32 => "int32",
            Int64 => "int64",
            Float16 => "float16",
            Bfloat16 => "bfloat16",
            Float32 => "float32",
            Float64 => "float64",
            Complex64 => "complex64",
        }
    }

    /// Whether the dtype is a real floating point type.
    pub const fn is_floating(self) -> bool {
        matches!(self, Float16 | Bfloat16 | Float32 | Float64)
    }

    /// Whether the dtype is floating or complex.
    pub const fn is_inexact(self) -> bool {
        self.is_floating() || matches!(self, Complex64)
    }

    /// Whether the dtype is a signed integer.
    pub const fn is_signed_integer(self) -> bool {
        matches!(self, Int8 | Int16 | Int32 | Int64)
    }

    /// Whether the dtype is an unsigned integer (bool is not).
    pub const fn is_unsigned_integer(self) -> bool {
        matches!(self, Uint8 | Uint16 | Uint32 | Uint64)
    }

    /// Whether the dtype is an integer (bool is not).
    pub const fn is_integer(self) -> bool {
        self.is_signed_integer() || self.is_unsigned_integer()
    }

    /// MLX's `issubdtype(self, category)`.
    pub const fn is_sub(self, category: Category) -> bool {
        match category {
            Category::ComplexFloating => matches!(self, Complex64),
            Category::Floating => self.is_floating(),
            Category::Inexact => self.is_inexact(),
            Category::SignedInteger => self.is_signed_integer(),
            Category::UnsignedInteger => self.is_unsigned_integer(),
            Category::Integer => self.is_integer(),
            Category::Number => !matches!(self, Bool),
            Category::Generic => true,
        }
    }

    /// The dtype of floating-point functions of this dtype: itself if inexact, else float32
    /// (MLX's `at_least_float`).
    pub const fn at_least_float(self) -> Dtype {
        if self.is_inexact() { self } else { Float32 }
    }

    /// MLX's promotion of two dtypes (`promote_types`).
    ///
    /// Integers widen until both fit, except that uint64 with a signed integer becomes float32;
    /// float16 with bfloat16 becomes float32; complex64 wins over everything, float64 over the
    /// other floats, any float over any integer, any integer over bool.
    pub const fn promote(self, other: Dtype) -> Dtype {
        let (a, b) = if (self as u8) <= (other as u8) { (self, other) } else { (other, self) };
        match (a, b) {
            (_, Complex64 | Float64 | Float32) | (Bool, _) => b,
            (Float16, Bfloat16) => Float32,
            (_, Float16 | Bfloat16) => b,
            _ if a as u8 == b as u8 => a,
            _ if b.is_unsigned_integer() => b,
            _ if a.is_signed_integer() => b,
            // Unsigned with signed: the signed type one size up holds both.
            _ => match (a.size(), b.size()) {
                (8, _) => Float32,
                (u, s) if s > u => b,
                (1, _) => Int16,
                (2, _) => Int32,
                _ => Int64,
            },
        }
    }
}

impl std::fmt::Display for Dtype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dtype {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Dtype::ALL
            .into_iter()
            .find(|d| d.name() == name)
            .ok_or_else(|| format!("unknown dtype {name:?}"))
    }
}

/// Complex number of two float32.
pub type Complex = Complex32;

/// A Rust type that is an element type. bool is stored as [`Dtype::Bool`]'s `u8`, see [`Bool8`].
pub trait Element: bytemuck::Pod + Send + Sync + PartialEq + std::fmt::Debug + 'static {
    /// The dtype of arrays of this type.
    const DTYPE: Dtype;
}

/// Storage of a boolean element: one byte, 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Bool8(pub u8);

impl From<bool> for Bool8 {
    fn from(value: bool) -> Self {
        Bool8(value as u8)
    }
}

impl From<Bool8> for bool {
    fn from(value: Bool8) -> Self {
        value.0 != 0
    }
}

macro_rules! elements {
    ($($t:ty => $d:ident),* $(,)?) => {$(
        impl Element for $t {
            const DTYPE: Dtype = $d;
        }
    )*};
}

elements! {
    Bool8 => Bool, u8 => Uint8, u16 => Uint16, u32 => Uint32, u64 => Uint64,
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    f16 => Float16, bf16 => Bfloat16, f32 => Float32, f64 => Float64, Complex => Complex64,
}

/// Runs `$body` with `$t` bound to the Rust element type of `$dtype`.
///
/// ```
/// use mlx_vulkan_core::{Dtype, dispatch_dtype, dtype::Element};
/// let size = dispatch_dtype!(Dtype::Float16, T => std::mem::size_of::<T>());
/// assert_eq!(size, 2);
/// ```
#[macro_export]
macro_rules! dispatch_dtype {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            $crate::Dtype::Bool => {
                type $t = $crate::dtype::Bool8;
                $body
            }
            $crate::Dtype::Uint8 => {
                type $t = u8;
                $body
            }
            $crate::Dtype::Uint16 => {
                type $t = u16;
                $body
            }
            $crate::Dtype::Uint32 => {
                type $t = u32;
                $body
            }
            $crate::Dtype::Uint64 => {
                type $t = u64;
                $body
            }
            $crate::Dtype::Int8 => {
                type $t = i8;
                $body
            }
            $crate::Dtype::Int16 => {
                type $t = i16;
                $body
            }
            $crate::Dtype::Int32 => {
                type $t = i32;
                $body
            }
            $crate::Dtype::Int64 => {
                type $t = i64;
                $body
            }
            $crate::Dtype::Float16 => {
                type $t = $crate::dtype::f16;
                $body
            }
            $crate::Dtype::Bfloat16 => {
                type $t = $crate::dtype::bf16;
                $body
            }
            $crate::Dtype::Float32 => {
                type $t = f32;
                $body
            }
            $crate::Dtype::Float64 => {
                type $t = f64;
                $body
            }
            $crate::Dtype::Complex64 => {
                type $t = $crate::dtype::Complex;
                $body
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_follows_mlx() {
        let cases = [
            (Bool, Bool, Bool),
            (Bool, Int8, Int8),
            (Uint8, Int8, Int16),
            (Uint8, Int64, Int64),
            (Uint16, Int8, Int32),
            (Uint32, Int32, Int64),
            (Uint64, Int64, Float32),
            (Uint64, Int8, Float32),
            (Uint16, Uint32, Uint32),
            (Int64, Float16, Float16),
            (Float16, Bfloat16, Float32),
            (Float16, Float32, Float32),
            (Float64, Float32, Float64),
            (Float64, Complex64, Complex64),
        ];
        for (a, b, want) in cases {
            assert_eq!(a.promote(b), want, "{a} {b}");
            assert_eq!(b.promote(a), want, "{b} {a}");
        }
    }
}
