//! Functions of complex numbers, for elements widened to twice the precision.

use mlx_vulkan_core::Complex;
use num_complex::Complex64;

/// Widens an element; exact.
#[inline(always)]
pub(crate) fn widen(z: Complex) -> Complex64 {
    Complex64::new(z.re as f64, z.im as f64)
}

/// Rounds to an element.
#[inline(always)]
pub(crate) fn narrow(z: Complex64) -> Complex {
    Complex::new(z.re as f32, z.im as f32)
}

/// `exp(z) - 1` without cancellation near zero.
pub(crate) fn expm1(z: Complex64) -> Complex64 {
    // cos(y) - 1 = -2 sin²(y / 2)
    let half = (z.im / 2.0).sin();
    let real = z.re.exp_m1() * z.im.cos() - 2.0 * half * half;
    Complex64::new(real, z.re.exp() * z.im.sin())
}

/// `log(1 + z)` without cancellation near zero.
pub(crate) fn log1p(z: Complex64) -> Complex64 {
    // |1 + z|² - 1 = x (2 + x) + y²
    let real = 0.5 * (z.re * (2.0 + z.re) + z.im * z.im).ln_1p();
    Complex64::new(real, z.im.atan2(1.0 + z.re))
}

/// `z / |z|`; zero for zero.
pub(crate) fn sign(z: Complex64) -> Complex64 {
    let modulus = z.norm();
    if modulus == 0.0 { z } else { z / modulus }
}

/// Hyperbolic tangent; ±1 where the exponential would overflow.
pub(crate) fn tanh(z: Complex64) -> Complex64 {
    if z.re.abs() > 300.0 { Complex64::new(1f64.copysign(z.re), 0.0) } else { z.tanh() }
}

/// `base` to the power of `exponent`; `0^0 = 1`.
pub(crate) fn power(base: Complex64, exponent: Complex64) -> Complex64 {
    let zero = Complex64::ZERO;
    match (base == zero, exponent == zero) {
        (_, true) => Complex64::ONE,
        (true, _) if exponent.re > 0.0 => zero,
        (true, _) => Complex64::new(f64::NAN, f64::NAN),
        _ => (exponent * base.ln()).exp(),
    }
}

/// `log(exp(a) + exp(b))`, taking off the operand with the larger real part.
pub(crate) fn log_add_exp(a: Complex64, b: Complex64) -> Complex64 {
    let (low, high) = if a.re < b.re { (a, b) } else { (b, a) };
    if low.re == f64::NEG_INFINITY || high.re == f64::INFINITY {
        return high;
    }
    high + log1p((low - high).exp())
}

/// Inverse hyperbolic cosine. On its cut the sign of a zero imaginary part says which side is meant;
/// the formula behind `acosh` loses it.
pub(crate) fn arccosh(z: Complex64) -> Complex64 {
    let w = z.acosh();
    Complex64::new(w.re.abs(), w.im.copysign(z.im))
}

/// Inverse hyperbolic sine, odd in both parts; see [`arccosh`] for the signs.
pub(crate) fn arcsinh(z: Complex64) -> Complex64 {
    let w = z.asinh();
    Complex64::new(w.re.copysign(z.re), w.im.copysign(z.im))
}

/// Remainder of the parts, each with the sign of the divisor's.
pub(crate) fn remainder(a: Complex64, b: Complex64) -> Complex64 {
    Complex64::new(modulo(a.re, b.re), modulo(a.im, b.im))
}

/// Remainder with the sign of the divisor.
#[inline(always)]
fn modulo(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_arguments_keep_their_digits() {
        let z = Complex64::new(1e-12, -2e-12);
        assert!((log1p(expm1(z)) - z).norm() < 1e-26);
    }

    #[test]
    fn powers() {
        let i = Complex64::I;
        assert!((power(i, Complex64::from(2.0)) + 1.0).norm() < 1e-15);
        assert_eq!(power(Complex64::ZERO, Complex64::ZERO), Complex64::ONE);
        assert_eq!(power(Complex64::ZERO, Complex64::ONE), Complex64::ZERO);
    }
}
