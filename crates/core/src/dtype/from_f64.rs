//! Constants as elements.

use super::{Bool8, Complex, bf16, f16};

/// Conversion of a constant to an element type, as a C cast does it; halves by way of float32, as
/// in MLX (`f16::from_f64` does not look at all bits).
pub trait FromF64 {
    /// The value as this type.
    fn from_f64(value: f64) -> Self;
}

macro_rules! from_f64 {
    ($($t:ty: $v:ident => $e:expr),* $(,)?) => {$(
        impl FromF64 for $t {
            fn from_f64($v: f64) -> Self { $e }
        }
    )*};
}

from_f64! {
    Bool8: v => (v != 0.0).into(),
    u8: v => v as i64 as u8,
    u16: v => v as i64 as u16,
    u32: v => v as i64 as u32,
    u64: v => if v < 0.0 { v as i64 as u64 } else { v as u64 },
    i8: v => v as i64 as i8,
    i16: v => v as i64 as i16,
    i32: v => v as i64 as i32,
    i64: v => v as i64,
    f16: v => f16::from_f32(v as f32),
    bf16: v => bf16::from_f32(v as f32),
    f32: v => v as f32,
    f64: v => v,
    Complex: v => Complex::new(v as f32, 0.0),
}
