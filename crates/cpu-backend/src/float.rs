//! The floating element types of the kernels that accumulate: float16 and bfloat16 compute in
//! float32, float32 and float64 in themselves.

use half::{bf16, f16};
use mlx_vulkan_core::Element;

use crate::simd::{
    Lanes, dispatch,
    gemm::Gemm,
    vector::{Combine, Dots, ExpSum, Narrow, Sum, SumOfSquares, Widen},
};

/// A floating element type.
pub(crate) trait Real: Element + Default {
    /// The type of its sums.
    type Wide: Wide;

    /// The most negative finite value, as the wide type.
    fn lowest() -> Self::Wide;
    fn widen(self) -> Self::Wide;
    /// Rounds to nearest even.
    fn narrow(x: Self::Wide) -> Self;
    /// Widens `dst.len()` elements.
    fn widen_slice(src: &[Self], dst: &mut [Self::Wide]);
    /// Rounds `dst.len()` elements.
    fn narrow_slice(src: &[Self::Wide], dst: &mut [Self]);
    /// `out[j] = Σ_i x[i] * rows[j * stride + i]`.
    fn dots(x: &[Self::Wide], rows: &[Self], stride: usize, out: &mut [Self::Wide]);
    /// `acc[i] += Σ_j x[j] * rows[j * stride + i]`.
    fn combine(x: &[Self::Wide], rows: &[Self], stride: usize, acc: &mut [Self::Wide]);
}

/// A type to accumulate in.
pub(crate) trait Wide: Real<Wide = Self> + Gemm + num_traits::Float {
    fn from_f64(x: f64) -> Self;
    fn to_f32(self) -> f32;
    /// `x = exp(x - shift)`, which are at most 1; returns the sum.
    fn exp_sum(x: &mut [Self], shift: Self) -> Self;
    fn sum(x: &[Self]) -> Self;
    /// `Σ (x - shift)²`.
    fn sum_of_squares(x: &[Self], shift: Self) -> Self;
}

macro_rules! in_float32 {
    ($($t:ty: $widen:expr, $narrow:expr, $lowest:expr;)*) => {$(
        impl Real for $t {
            type Wide = f32;

            fn lowest() -> f32 {
                $lowest
            }
            #[inline(always)]
            fn widen(self) -> f32 {
                $widen(self)
            }
            #[inline(always)]
            fn narrow(x: f32) -> Self {
                $narrow(x)
            }
            fn widen_slice(src: &[Self], dst: &mut [f32]) {
                widen_lanes(src, dst);
            }
            fn narrow_slice(src: &[f32], dst: &mut [Self]) {
                dispatch(Narrow { src, dst });
            }
            fn dots(x: &[f32], rows: &[Self], stride: usize, out: &mut [f32]) {
                dispatch(Dots { x, rows, stride, out });
            }
            fn combine(x: &[f32], rows: &[Self], stride: usize, acc: &mut [f32]) {
                dispatch(Combine { x, rows, stride, acc });
            }
        }
    )*};
}

fn widen_lanes<T: Lanes>(src: &[T], dst: &mut [f32]) {
    dispatch(Widen { src, dst });
}

in_float32! {
    f16: f16::to_f32, f16::from_f32, f16::MIN.to_f32();
    bf16: bf16::to_f32, bf16::from_f32, bf16::MIN.to_f32();
    f32: std::convert::identity, std::convert::identity, f32::MIN;
}

impl Wide for f32 {
    fn from_f64(x: f64) -> f32 {
        x as f32
    }
    fn to_f32(self) -> f32 {
        self
    }
    fn exp_sum(x: &mut [f32], shift: f32) -> f32 {
        dispatch(ExpSum { x, shift })
    }
    fn sum(x: &[f32]) -> f32 {
        dispatch(Sum(x))
    }
    fn sum_of_squares(x: &[f32], shift: f32) -> f32 {
        dispatch(SumOfSquares { x, shift })
    }
}

impl Real for f64 {
    type Wide = f64;

    fn lowest() -> f64 {
        f64::MIN
    }
    fn widen(self) -> f64 {
        self
    }
    fn narrow(x: f64) -> f64 {
        x
    }
    fn widen_slice(src: &[f64], dst: &mut [f64]) {
        dst.copy_from_slice(&src[..dst.len()]);
    }
    fn narrow_slice(src: &[f64], dst: &mut [f64]) {
        dst.copy_from_slice(&src[..dst.len()]);
    }
    fn dots(x: &[f64], rows: &[f64], stride: usize, out: &mut [f64]) {
        for (j, out) in out.iter_mut().enumerate() {
            *out = x.iter().zip(&rows[j * stride..]).map(|(x, y)| x * y).sum();
        }
    }
    fn combine(x: &[f64], rows: &[f64], stride: usize, acc: &mut [f64]) {
        for (j, &x) in x.iter().enumerate() {
            acc.iter_mut().zip(&rows[j * stride..]).for_each(|(acc, row)| *acc += x * row);
        }
    }
}

impl Wide for f64 {
    fn from_f64(x: f64) -> f64 {
        x
    }
    fn to_f32(self) -> f32 {
        self as f32
    }
    fn exp_sum(x: &mut [f64], shift: f64) -> f64 {
        x.iter_mut().for_each(|x| *x = (*x - shift).exp());
        x.iter().sum()
    }
    fn sum(x: &[f64]) -> f64 {
        x.iter().sum()
    }
    fn sum_of_squares(x: &[f64], shift: f64) -> f64 {
        x.iter().map(|x| (x - shift) * (x - shift)).sum()
    }
}

/// Runs `$body` with `$t` bound to the Rust type of a floating dtype.
macro_rules! dispatch_real {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            mlx_vulkan_core::Dtype::Float16 => {
                type $t = half::f16;
                $body
            }
            mlx_vulkan_core::Dtype::Bfloat16 => {
                type $t = half::bf16;
                $body
            }
            mlx_vulkan_core::Dtype::Float32 => {
                type $t = f32;
                $body
            }
            mlx_vulkan_core::Dtype::Float64 => {
                type $t = f64;
                $body
            }
            other => unreachable!("operations take floating types only, not {other}"),
        }
    };
}
pub(crate) use dispatch_real;
