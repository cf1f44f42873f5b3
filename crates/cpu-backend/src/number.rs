//! What kernels that serve all dtypes ask of an element.

use std::cmp::Ordering;

use mlx_vulkan_core::{Complex, Element, bf16, dtype::Bool8, f16};

/// An element that can be compared. Complex numbers compare by real, then by imaginary part, as
/// in MLX.
pub(crate) trait Number: Element {
    /// Whether `self < other`; false if either is NaN.
    fn less(self, other: Self) -> bool;

    /// Whether `self <= other`; false if either is NaN.
    fn less_equal(self, other: Self) -> bool {
        self.less(other) || self == other
    }

    /// Whether the value is NaN.
    #[expect(clippy::eq_op, reason = "NaN differs from itself")]
    fn not_a_number(self) -> bool {
        self != self
    }

    /// Whether the value is not zero.
    fn is_true(self) -> bool {
        self != Self::zeroed()
    }

    /// The larger one; NaN if either is.
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        if self.not_a_number() || other.less(self) { self } else { other }
    }

    /// The smaller one; NaN if either is.
    #[inline(always)]
    fn minimum(self, other: Self) -> Self {
        if self.not_a_number() || self.less(other) { self } else { other }
    }

    /// Ascending order, NaN last.
    fn order(self, other: Self) -> Ordering {
        match (self.less(other), other.less(self)) {
            (true, _) => Ordering::Less,
            (_, true) => Ordering::Greater,
            _ => self.not_a_number().cmp(&other.not_a_number()),
        }
    }

    /// The least value of the type.
    const LOWEST: Self;
    /// The greatest value of the type.
    const HIGHEST: Self;
}

macro_rules! number {
    ($($t:ty: $low:expr, $high:expr;)*) => {$(
        impl Number for $t {
            const LOWEST: Self = $low;
            const HIGHEST: Self = $high;

            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }

            #[inline(always)]
            fn less_equal(self, other: Self) -> bool {
                self <= other
            }
        }
    )*};
}

number! {
    u8: u8::MIN, u8::MAX;
    u16: u16::MIN, u16::MAX;
    u32: u32::MIN, u32::MAX;
    u64: u64::MIN, u64::MAX;
    i8: i8::MIN, i8::MAX;
    i16: i16::MIN, i16::MAX;
    i32: i32::MIN, i32::MAX;
    i64: i64::MIN, i64::MAX;
    f16: f16::NEG_INFINITY, f16::INFINITY;
    bf16: bf16::NEG_INFINITY, bf16::INFINITY;
    f32: f32::NEG_INFINITY, f32::INFINITY;
    f64: f64::NEG_INFINITY, f64::INFINITY;
}

impl Number for Bool8 {
    const LOWEST: Self = Bool8(0);
    const HIGHEST: Self = Bool8(1);

    #[inline(always)]
    fn less(self, other: Self) -> bool {
        self.0 < other.0
    }
}

impl Number for Complex {
    const LOWEST: Self = Complex::new(f32::NEG_INFINITY, f32::NEG_INFINITY);
    const HIGHEST: Self = Complex::new(f32::INFINITY, f32::INFINITY);

    #[inline(always)]
    fn less(self, other: Self) -> bool {
        self.re < other.re || (self.re == other.re && self.im < other.im)
    }

    /// By real, then by imaginary parts, of each of which NaN is last; behind a real part that is NaN the
    /// other does not count. A total order: comparing whole numbers that are half NaN would be none.
    fn order(self, other: Self) -> Ordering {
        let re = self.re.order(other.re);
        if self.re.is_nan() { re } else { re.then(self.im.order(other.im)) }
    }
}

/// Integers, with arithmetic that wraps around and never panics.
pub(crate) trait Integer: Number + num_traits::PrimInt {
    fn wrapping_add(self, other: Self) -> Self;
    fn wrapping_sub(self, other: Self) -> Self;
    fn wrapping_mul(self, other: Self) -> Self;
    /// Truncated quotient; 0 for a zero divisor.
    fn quotient(self, other: Self) -> Self;
    /// Quotient rounded down; 0 for a zero divisor.
    #[inline(always)]
    fn floor_quotient(self, other: Self) -> Self {
        let signs_differ = self.less(Self::zero()) != other.less(Self::zero());
        let rounds = signs_differ && self.modulo(other) != Self::zero();
        self.quotient(other).wrapping_sub(if rounds { Self::one() } else { Self::zero() })
    }
    /// Remainder with the sign of the divisor; 0 for a zero divisor.
    fn modulo(self, other: Self) -> Self;
    /// `self << by`; 0 if `by` is negative or not less than the width.
    fn shift_left(self, by: Self) -> Self;
    /// `self >> by`; only sign bits are left if `by` is negative or not less than the width.
    fn shift_right(self, by: Self) -> Self;
    fn sign(self) -> Self;
    fn magnitude(self) -> Self;
    /// `self` to a power that wraps around; integers to negative ones are 0, whatever the base.
    fn power(self, exponent: Self) -> Self;
}

macro_rules! integer {
    ($($t:ty, $sign:expr, $magnitude:expr;)*) => {$(
        impl Integer for $t {
            #[inline(always)]
            fn wrapping_add(self, other: Self) -> Self {
                <$t>::wrapping_add(self, other)
            }

            #[inline(always)]
            fn wrapping_sub(self, other: Self) -> Self {
                <$t>::wrapping_sub(self, other)
            }

            #[inline(always)]
            fn wrapping_mul(self, other: Self) -> Self {
                <$t>::wrapping_mul(self, other)
            }

            fn quotient(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }

            #[allow(unused_comparisons, reason = "unsigned types too")]
            fn modulo(self, other: Self) -> Self {
                let r = if other == 0 { 0 } else { self.wrapping_rem(other) };
                if r != 0 && (r < 0) != (other < 0) { r.wrapping_add(other) } else { r }
            }

            fn shift_left(self, by: Self) -> Self {
                u32::try_from(by).ok().and_then(|by| self.checked_shl(by)).unwrap_or(0)
            }

            fn shift_right(self, by: Self) -> Self {
                let by = u32::try_from(by).unwrap_or(u32::MAX);
                self >> by.min(<$t>::BITS - 1) >> (by >= <$t>::BITS) as u32
            }

            fn sign(self) -> Self {
                let sign: fn($t) -> $t = $sign;
                sign(self)
            }

            fn magnitude(self) -> Self {
                let magnitude: fn($t) -> $t = $magnitude;
                magnitude(self)
            }

            #[allow(unused_comparisons, reason = "unsigned types too")]
            fn power(self, exponent: Self) -> Self {
                if exponent < 0 {
                    return 0;
                }
                let (mut result, mut base, mut left) = (1 as $t, self, exponent);
                while left != 0 {
                    if left & 1 == 1 {
                        result = result.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                result
            }
        }
    )*};
}

integer! {
    u8, |x| (x != 0) as u8, |x| x;
    u16, |x| (x != 0) as u16, |x| x;
    u32, |x| (x != 0) as u32, |x| x;
    u64, |x| (x != 0) as u64, |x| x;
    i8, i8::signum, i8::wrapping_abs;
    i16, i16::signum, i16::wrapping_abs;
    i32, i32::signum, i32::wrapping_abs;
    i64, i64::signum, i64::wrapping_abs;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_never_panic() {
        assert_eq!(i32::MIN.quotient(-1), i32::MIN);
        assert_eq!((7i32.quotient(0), 7i32.modulo(0), i32::MIN.modulo(-1)), (0, 0, 0));
        assert_eq!((7i32.modulo(-3), (-7i32).modulo(3), 7u8.modulo(4)), (-2, 2, 3));
        assert_eq!((1u8.shift_left(8), 1i32.shift_left(-1), (-8i8).shift_right(9)), (0, 0, -1));
        assert_eq!((200u8.shift_right(8), 200u8.shift_right(3)), (0, 25));
        assert_eq!((3i8.power(2), 2u8.power(8), 2i32.power(-1), (-1i64).power(-3)), (9, 0, 0, 0));
    }

    #[test]
    fn nan_wins_extremes_and_sorts_last() {
        let nan = f32::NAN;
        assert!(Number::maximum(nan, 1.0).is_nan() && Number::maximum(1.0, nan).is_nan());
        assert!(Number::minimum(nan, 1.0).is_nan() && Number::minimum(1.0, nan).is_nan());
        assert_eq!(nan.order(f32::INFINITY), Ordering::Greater);
        assert_eq!(nan.order(nan), Ordering::Equal);
        let (a, b) = (Complex::new(1.0, 2.0), Complex::new(1.0, 3.0));
        assert_eq!((Number::maximum(a, b), a.less_equal(a), b.less(a)), (b, true, false));
        let (half, whole) = (Complex::new(1.0, nan), Complex::new(nan, 1.0));
        assert_eq!(
            (half.order(b), half.order(Complex::new(2.0, 0.0))),
            (Ordering::Greater, Ordering::Less)
        );
        assert_eq!(
            (whole.order(half), whole.order(Complex::new(nan, 9.0))),
            (Ordering::Greater, Ordering::Equal)
        );
    }
}
