//! Conversion between any two element types, as a C cast does it: floats truncate towards zero
//! and wrap around as 64-bit integers do, NaN becomes 0, everything but zero is true, and complex
//! numbers lose their imaginary part.

use mlx_vulkan_core::{Complex, bf16, dtype::Bool8, f16};

use crate::halves::{bf16_from_f64, f16_from_f64};

/// Conversion to `U`.
pub(crate) trait Cast<U> {
    /// The value as `U`.
    fn cast(self) -> U;
}

/// `impl Cast` for each source and each target, by an expression of the value.
macro_rules! casts {
    ([$($from:ty),*] => $to:tt, $x:ident: $e:expr) => { $(casts!(@one $from => $to, $x: $e);)* };
    (@one $from:ty => [$($to:ty),*], $x:ident: $e:expr) => {$(
        impl Cast<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                let $x = self;
                $e
            }
        }
    )*};
}

/// Conversions by `as`, after an expression of the value.
macro_rules! casts_as {
    ([$($from:ty),*] => $to:tt, $x:ident: $e:expr) => { $(casts_as!(@one $from => $to, $x: $e);)* };
    (@one $from:ty => [$($to:ty),*], $x:ident: $e:expr) => {$(
        impl Cast<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                let $x = self;
                $e as $to
            }
        }
    )*};
}

/// Conversions that go through another type.
macro_rules! casts_through {
    ([$($from:ty),*] => $to:tt, $x:ident: $e:expr) => { $(casts_through!(@one $from => $to, $x: $e);)* };
    (@one $from:ty => [$($to:ty),*], $x:ident: $e:expr) => {$(
        impl Cast<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                let $x = self;
                Cast::<$to>::cast($e)
            }
        }
    )*};
}

casts_as!([u8, u16, u32, u64, i8, i16, i32, i64] => [u8, u16, u32, u64, i8, i16, i32, i64, f32, f64], x: x);
casts_as!([f32, f64] => [u8, u16, u32, i8, i16, i32, i64], x: x as i64);
casts_as!([f32, f64] => [f32, f64], x: x);
casts!([f32, f64] => [u64], x: if x < 0.0 { x as i64 as u64 } else { x as u64 });
casts!([u8, u16, u32, u64, i8, i16, i32, i64] => [Bool8], x: (x != 0).into());
casts!([f32, f64] => [Bool8], x: (x != 0.0).into());
// Through float64, so that integers round once.
casts!([u8, u16, u32, u64, i8, i16, i32, i64, f64] => [f16], x: f16_from_f64(x as f64));
casts!([u8, u16, u32, u64, i8, i16, i32, i64, f64] => [bf16], x: bf16_from_f64(x as f64));
casts!([f32] => [f16], x: f16::from_f32(x));
casts!([f32] => [bf16], x: bf16::from_f32(x));
casts!([u8, u16, u32, u64, i8, i16, i32, i64, f32, f64] => [Complex], x: Complex::new(x as f32, 0.0));

casts_through!(
    [Bool8] => [u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64, Complex],
    x: (x.0 != 0) as u8
);
casts_through!([f16, bf16] => [Bool8, u8, u16, u32, u64, i8, i16, i32, i64, f64, Complex], x: x.to_f32());
casts_through!([f16] => [bf16], x: x.to_f32());
casts_through!([bf16] => [f16], x: x.to_f32());
casts!([f16, bf16] => [f32], x: x.to_f32());
casts_through!([Complex] => [u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64], x: x.re);
casts!([Complex] => [Bool8], x: (x.re != 0.0 || x.im != 0.0).into());
casts!([Bool8] => [Bool8], x: x);
casts!([f16] => [f16], x: x);
casts!([bf16] => [bf16], x: x);
casts!([Complex] => [Complex], x: x);

#[cfg(test)]
mod tests {
    use super::*;

    fn cast<T: Cast<U>, U>(x: T) -> U {
        x.cast()
    }

    #[test]
    fn floats_truncate_and_wrap() {
        assert_eq!(
            (cast::<f32, i32>(-1.9), cast::<f32, u8>(258.7), cast::<f64, u8>(-1.0)),
            (-1, 2, 255)
        );
        assert_eq!(
            (cast::<f32, i32>(f32::NAN), cast::<f64, u64>(1.8e19)),
            (0, 18_000_000_000_000_000_000)
        );
        assert_eq!((cast::<f32, Bool8>(0.5), cast::<f32, Bool8>(f32::NAN)), (Bool8(1), Bool8(1)));
        assert_eq!(cast::<Complex, i16>(Complex::new(-3.5, 9.0)), -3);
    }

    #[test]
    fn integers_round_once_to_half() {
        // 2049 lies between 2048 and 2050; one above decides.
        assert_eq!(cast::<i32, f16>(2049).to_f32(), 2048.0);
        assert_eq!(cast::<i32, bf16>((1 << 24) + (1 << 16) + 1).to_f32(), 16_908_288.0);
    }
}
