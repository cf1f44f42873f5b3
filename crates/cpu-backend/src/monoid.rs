//! The associative operations of reductions and scans.

use mlx_core::{Complex, bf16, dtype::Bool8, f16};
use num_complex::Complex64;

use crate::{complex, elementwise::Typed, math, number::Number};

/// An associative and commutative operation on elements of type `T`.
pub(crate) trait Monoid<T: Typed>: Send + Sync + 'static {
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

macro_rules! extreme {
    ($monoid:ty, $identity:ident, $f:ident) => {
        impl<T: Number> Monoid<T> for $monoid {
            type Total = T;
            const IDENTITY: T = T::$identity;

            #[inline(always)]
            fn push(total: T, value: T) -> T {
                total.$f(value)
            }

            #[inline(always)]
            fn join(a: T, b: T) -> T {
                a.$f(b)
            }

            fn finish(total: T) -> T {
                total
            }
        }
    };
}

extreme!(Max, LOWEST, maximum);
extreme!(Min, HIGHEST, minimum);

macro_rules! monoids {
    ($($monoid:ty, [$($t:ty),*], $total:ty, $identity:expr, $join:expr, $widen:expr, $narrow:expr;)*) => {
        $(monoids!(@each $monoid, [$($t),*], $total, $identity, $join, $widen, $narrow);)*
    };
    (@each $monoid:ty, [$($t:ty),*], $total:ty, $identity:expr, $join:expr, $widen:expr, $narrow:expr) => {$(
        impl Monoid<$t> for $monoid {
            type Total = $total;
            const IDENTITY: $total = $identity;

            #[inline(always)]
            fn push(total: $total, value: $t) -> $total {
                let widen: fn($t) -> $total = $widen;
                Self::join_(total, widen(value))
            }

            #[inline(always)]
            fn join(a: $total, b: $total) -> $total {
                Self::join_(a, b)
            }

            #[inline(always)]
            fn finish(total: $total) -> $t {
                let narrow: fn($total) -> $t = $narrow;
                narrow(total)
            }
        }
    )*};
}
