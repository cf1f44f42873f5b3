//! The associative operations of reductions and scans.

use std::marker::PhantomData;

use mlx_vulkan_core::{Complex, Element, bf16, f16};
use num_complex::Complex64;

use crate::{
    complex,
    halves::{bf16_from_f64, f16_from_f64, widen_bf16, widen_f16},
    math,
    number::Number,
    simd,
};

/// An associative and commutative operation on elements of type `T`.
pub(crate) trait Monoid<T: Element>: Send + Sync + 'static {
    /// What partial results are kept in.
    type Total: Copy + Send + Sync + 'static;
    /// The result for no elements.
    const IDENTITY: Self::Total;
    /// Adds an element.
    fn push(total: Self::Total, value: T) -> Self::Total;
    /// Joins two partial results.
    fn join(a: Self::Total, b: Self::Total) -> Self::Total;
    /// Rounds to an element.
    fn finish(total: Self::Total) -> T;
}

/// Sums.
pub(crate) struct Sum;
/// Products.
pub(crate) struct Prod;
/// Largest elements, or NaN.
pub(crate) struct Max;
/// Smallest elements, or NaN.
pub(crate) struct Min;
/// Logarithms of sums of exponentials.
pub(crate) struct LogAddExp;

/// An element with the type that sums and products of it are kept in: float64 for floats, twice
/// the precision for complex numbers, and the type itself for integers, which wrap around.
/// Signed integers have none: their bits are those of the unsigned ones.
pub(crate) trait Accumulate: Element {
    type Total: Copy + Send + Sync + 'static;
    const ZERO: Self::Total;
    const ONE: Self::Total;
    fn widen(self) -> Self::Total;
    fn narrow(total: Self::Total) -> Self;
    fn add(a: Self::Total, b: Self::Total) -> Self::Total;
    fn multiply(a: Self::Total, b: Self::Total) -> Self::Total;
}

macro_rules! accumulate {
    ($($t:ty => $total:ty, $zero:expr, $one:expr, $widen:expr, $narrow:expr, $add:expr, $mul:expr;)*) => {$(
        impl Accumulate for $t {
            type Total = $total;
            const ZERO: $total = $zero;
            const ONE: $total = $one;

            #[inline(always)]
            fn widen(self) -> $total {
                let widen: fn($t) -> $total = $widen;
                widen(self)
            }

            #[inline(always)]
            fn narrow(total: $total) -> Self {
                let narrow: fn($total) -> $t = $narrow;
                narrow(total)
            }

            #[inline(always)]
            fn add(a: $total, b: $total) -> $total {
                let add: fn($total, $total) -> $total = $add;
                add(a, b)
            }

            #[inline(always)]
            fn multiply(a: $total, b: $total) -> $total {
                let multiply: fn($total, $total) -> $total = $mul;
                multiply(a, b)
            }
        }
    )*};
}

accumulate! {
    u8 => u8, 0, 1, |x| x, |x| x, u8::wrapping_add, u8::wrapping_mul;
    u16 => u16, 0, 1, |x| x, |x| x, u16::wrapping_add, u16::wrapping_mul;
    u32 => u32, 0, 1, |x| x, |x| x, u32::wrapping_add, u32::wrapping_mul;
    u64 => u64, 0, 1, |x| x, |x| x, u64::wrapping_add, u64::wrapping_mul;
    f16 => f64, 0.0, 1.0, |x| widen_f16(x) as f64, f16_from_f64, |a, b| a + b, |a, b| a * b;
    bf16 => f64, 0.0, 1.0, |x| widen_bf16(x) as f64, bf16_from_f64, |a, b| a + b, |a, b| a * b;
    f32 => f64, 0.0, 1.0, |x| x as f64, |x| x as f32, |a, b| a + b, |a, b| a * b;
    f64 => f64, 0.0, 1.0, |x| x, |x| x, |a, b| a + b, |a, b| a * b;
    Complex => Complex64, Complex64::ZERO, Complex64::ONE, complex::widen, complex::narrow,
        |a, b| a + b, |a, b| a * b;
}

/// Runs `$body` with `$t` and `$m` bound to the element type and the operation in which sums or
/// products of `$dtype` run: signed integers as unsigned ones, whose two's complement bits are the
/// same, and bools in the operation behind `or`.
macro_rules! dispatch_arithmetic {
    ($dtype:expr, $monoid:ident or $logical:ident, $t:ident, $m:ident => $body:expr) => {
        $crate::monoid::dispatch_arithmetic!(@ $dtype, $t, $m, $body;
            Bool => mlx_vulkan_core::dtype::Bool8, $logical;
            Uint8 | Int8 => u8, $monoid;
            Uint16 | Int16 => u16, $monoid;
            Uint32 | Int32 => u32, $monoid;
            Uint64 | Int64 => u64, $monoid;
            Float16 => mlx_vulkan_core::f16, $monoid;
            Bfloat16 => mlx_vulkan_core::bf16, $monoid;
            Float32 => f32, $monoid;
            Float64 => f64, $monoid;
            Complex64 => mlx_vulkan_core::Complex, $monoid;
        )
    };
    (@ $dtype:expr, $t:ident, $m:ident, $body:expr;
     $($($variant:ident)|+ => $type:ty, $operation:ident;)*) => {
        match $dtype {
            $($(mlx_vulkan_core::Dtype::$variant)|+ => {
                type $t = $type;
                type $m = $operation;
                $body
            })*
        }
    };
}
pub(crate) use dispatch_arithmetic;

impl<T: Accumulate> Monoid<T> for Sum {
    type Total = T::Total;
    const IDENTITY: T::Total = T::ZERO;

    #[inline(always)]
    fn push(total: T::Total, value: T) -> T::Total {
        T::add(total, value.widen())
    }

    #[inline(always)]
    fn join(a: T::Total, b: T::Total) -> T::Total {
        T::add(a, b)
    }

    #[inline(always)]
    fn finish(total: T::Total) -> T {
        T::narrow(total)
    }
}

impl<T: Accumulate> Monoid<T> for Prod {
    type Total = T::Total;
    const IDENTITY: T::Total = T::ONE;

    #[inline(always)]
    fn push(total: T::Total, value: T) -> T::Total {
        T::multiply(total, value.widen())
    }

    #[inline(always)]
    fn join(a: T::Total, b: T::Total) -> T::Total {
        T::multiply(a, b)
    }

    #[inline(always)]
    fn finish(total: T::Total) -> T {
        T::narrow(total)
    }
}

macro_rules! extreme {
    ($monoid:ty, $identity:ident, $f:ident) => {
        impl<T: Number> Monoid<T> for $monoid {
            type Total = T;
            const IDENTITY: T = T::$identity;

            #[inline(always)]
            fn push(total: T, value: T) -> T {
                Number::$f(total, value)
            }

            #[inline(always)]
            fn join(a: T, b: T) -> T {
                Number::$f(a, b)
            }

            #[inline(always)]
            fn finish(total: T) -> T {
                total
            }
        }
    };
}

extreme!(Max, LOWEST, maximum);
extreme!(Min, HIGHEST, minimum);

macro_rules! log_add_exp {
    ($($t:ty => $total:ty, $identity:expr, $f:path;)*) => {$(
        impl Monoid<$t> for LogAddExp {
            type Total = $total;
            const IDENTITY: $total = $identity;

            fn push(total: $total, value: $t) -> $total {
                $f(total, value.widen())
            }

            fn join(a: $total, b: $total) -> $total {
                $f(a, b)
            }

            fn finish(total: $total) -> $t {
                <$t>::narrow(total)
            }
        }
    )*};
}

log_add_exp! {
    f16 => f64, f64::NEG_INFINITY, math::log_add_exp;
    bf16 => f64, f64::NEG_INFINITY, math::log_add_exp;
    f32 => f64, f64::NEG_INFINITY, math::log_add_exp;
    f64 => f64, f64::NEG_INFINITY, math::log_add_exp;
    Complex => Complex64, Complex64::new(f64::NEG_INFINITY, 0.0), complex::log_add_exp;
}

/// The total of dense elements: 16 independent partial totals, which the compiler keeps in vector
/// registers, for blocks of 4096 elements, so that rounding errors do not pile up.
pub(crate) fn total<T: Element, M: Monoid<T>>(values: &[T]) -> M::Total {
    simd::dispatch(Total::<T, M>(values, PhantomData))
}

struct Total<'a, T, M>(&'a [T], PhantomData<M>);

impl<T: Element, M: Monoid<T>> simd::Kernel for Total<'_, T, M> {
    type Output = M::Total;

    #[inline(always)]
    fn run<I: simd::Isa>(self, _: I) -> M::Total {
        const LANES: usize = 16;
        let mut total = M::IDENTITY;
        for block in self.0.chunks(4096) {
            let mut lanes = [M::IDENTITY; LANES];
            let (groups, rest) = block.as_chunks::<LANES>();
            for group in groups {
                for (lane, &value) in lanes.iter_mut().zip(group) {
                    *lane = M::push(*lane, value);
                }
            }
            for (lane, &value) in lanes.iter_mut().zip(rest) {
                *lane = M::push(*lane, value);
            }
            let block = lanes.into_iter().reduce(M::join).unwrap_or(M::IDENTITY);
            total = M::join(total, block);
        }
        total
    }
}

/// Adds each element of a dense row to the total of its column.
pub(crate) fn add_row<T: Element, M: Monoid<T>>(totals: &mut [M::Total], row: &[T]) {
    simd::dispatch(AddRow::<T, M> { totals, row });
}

struct AddRow<'a, T: Element, M: Monoid<T>> {
    totals: &'a mut [M::Total],
    row: &'a [T],
}

impl<T: Element, M: Monoid<T>> simd::Kernel for AddRow<'_, T, M> {
    type Output = ();

    #[inline(always)]
    fn run<I: simd::Isa>(self, _: I) {
        for (total, &value) in self.totals.iter_mut().zip(self.row) {
            *total = M::push(*total, value);
        }
    }
}
