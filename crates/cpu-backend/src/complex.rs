//! Functions of complex numbers, for elements widened to twice the precision.

use std::f64::consts::FRAC_PI_2;

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

/// `i z` and `z / i`: functions of one give those of the other.
fn times_i(z: Complex64) -> Complex64 {
    Complex64::new(-z.im, z.re)
}

fn over_i(z: Complex64) -> Complex64 {
    Complex64::new(z.im, -z.re)
}

/// The exponential, with C99's limits: of a real number it is real, however large.
pub(crate) fn exp(z: Complex64) -> Complex64 {
    match (z.re.exp(), z.im.is_finite()) {
        (modulus, _) if z.im == 0.0 => Complex64::new(modulus, z.im),
        (0.0, false) => Complex64::ZERO,
        (f64::INFINITY, false) => Complex64::new(f64::INFINITY, f64::NAN),
        (modulus, _) => Complex64::new(modulus * z.im.cos(), modulus * z.im.sin()),
    }
}

/// `exp(z) - 1` without cancellation near zero.
pub(crate) fn expm1(z: Complex64) -> Complex64 {
    if z.im == 0.0 {
        return Complex64::new(z.re.exp_m1(), z.im);
    }
    if z.re.abs() > 40.0 || !z.im.is_finite() {
        return exp(z) - 1.0;
    }
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

/// `1 / (1 + exp(-z))`, as `exp(z/2) / (2 cosh(z/2))` next to its poles.
pub(crate) fn sigmoid(z: Complex64) -> Complex64 {
    if z.re > 40.0 {
        return 1.0 - exp(-z);
    }
    if z.re < -40.0 { exp(z) } else { exp(z / 2.0) / (2.0 * cosh(z / 2.0)) }
}

/// Hyperbolic sine. No float32 but zero has a sine of zero, so infinite factors stay infinite.
pub(crate) fn sinh(z: Complex64) -> Complex64 {
    if z.im == 0.0 {
        return Complex64::new(z.re.sinh(), z.im);
    }
    Complex64::new(z.re.sinh() * z.im.cos(), z.re.cosh() * z.im.sin())
}

/// Hyperbolic cosine.
pub(crate) fn cosh(z: Complex64) -> Complex64 {
    if z.im == 0.0 {
        return Complex64::new(z.re.cosh(), z.im * 1f64.copysign(z.re));
    }
    Complex64::new(z.re.cosh() * z.im.cos(), z.re.sinh() * z.im.sin())
}

/// Hyperbolic tangent: Kahan, "Branch cuts for complex elementary functions" (1987), CTANH.
pub(crate) fn tanh(z: Complex64) -> Complex64 {
    if z.im == 0.0 {
        return Complex64::new(z.re.tanh(), z.im);
    }
    if z.re.abs() > 20.0 {
        let small = match z.re.is_infinite() && !z.im.is_finite() {
            true => 0f64.copysign(z.im),
            false => 4.0 * z.im.sin() * z.im.cos() * (-2.0 * z.re.abs()).exp(),
        };
        return Complex64::new(1f64.copysign(z.re), small);
    }
    let (tan, sinh) = (z.im.tan(), z.re.sinh());
    let b = 1.0 + tan * tan;
    let d = 1.0 + b * sinh * sinh;
    Complex64::new(b * sinh * (1.0 + sinh * sinh).sqrt() / d, tan / d)
}

/// Sine, cosine and tangent are hyperbolic functions of `i z`.
pub(crate) fn sin(z: Complex64) -> Complex64 {
    over_i(sinh(times_i(z)))
}

/// See [`sin`].
pub(crate) fn cos(z: Complex64) -> Complex64 {
    cosh(times_i(z))
}

/// See [`sin`].
pub(crate) fn tan(z: Complex64) -> Complex64 {
    over_i(tanh(times_i(z)))
}

/// The square root with a positive real part; both parts keep their digits.
pub(crate) fn sqrt(z: Complex64) -> Complex64 {
    if z.im.is_infinite() {
        return Complex64::new(f64::INFINITY, z.im);
    }
    let large = ((z.re.abs() + z.norm()) / 2.0).sqrt();
    if large == 0.0 {
        return Complex64::new(0.0, z.im);
    }
    match z.re < 0.0 {
        true => Complex64::new(z.im.abs() / (2.0 * large), large.copysign(z.im)),
        false => Complex64::new(large, z.im / (2.0 * large)),
    }
}

/// Inverse sine: Kahan (1987), CASIN. On its cuts the sign of a zero says which side is meant. Squares of
/// elements, which are float32, neither overflow nor vanish.
pub(crate) fn arcsin(z: Complex64) -> Complex64 {
    if z.re.is_infinite() || z.im.is_infinite() {
        return Complex64::new(z.re.atan2(z.im.abs()), f64::INFINITY.copysign(z.im));
    }
    let (p, q) = roots(z);
    let imaginary = (p.re * q.im - p.im * q.re).asinh();
    Complex64::new(z.re.atan2(p.re * q.re - p.im * q.im), imaginary.copysign(z.im))
}

/// Inverse cosine: Kahan (1987), CACOS; see [`arcsin`].
pub(crate) fn arccos(z: Complex64) -> Complex64 {
    if z.re.is_infinite() || z.im.is_infinite() {
        return Complex64::new(z.im.abs().atan2(z.re), f64::INFINITY.copysign(-z.im));
    }
    let (p, q) = roots(z);
    let imaginary = (q.re * p.im - q.im * p.re).asinh();
    Complex64::new(2.0 * p.re.atan2(q.re), imaginary.copysign(-z.im))
}

/// Square roots of `1 - z` and `1 + z`, whose imaginary parts keep the sign of a zero.
fn roots(z: Complex64) -> (Complex64, Complex64) {
    (sqrt(Complex64::new(1.0 - z.re, -z.im)), sqrt(Complex64::new(1.0 + z.re, z.im)))
}

/// Inverse hyperbolic tangent: with `x = |re|`, `log1p(4x / ((1 - x)² + y²)) / 4` and
/// `atan2(2y, (1 - x)(1 + x) - y²) / 2`; see [`arcsin`].
pub(crate) fn arctanh(z: Complex64) -> Complex64 {
    if z.re.is_infinite() || z.im.is_infinite() {
        return Complex64::new(0f64.copysign(z.re), FRAC_PI_2.copysign(z.im));
    }
    let (x, y) = (z.re.abs(), z.im);
    let real = (4.0 * x / ((1.0 - x) * (1.0 - x) + y * y)).ln_1p() / 4.0;
    let imaginary = (2.0 * y).atan2((1.0 - x) * (1.0 + x) - y * y) / 2.0;
    Complex64::new(real.copysign(z.re), imaginary.copysign(y))
}

/// Inverse hyperbolic sine, of which that of `i z` is the inverse sine.
pub(crate) fn arcsinh(z: Complex64) -> Complex64 {
    over_i(arcsin(times_i(z)))
}

/// Inverse tangent, of which that of `i z` is the inverse hyperbolic tangent.
pub(crate) fn arctan(z: Complex64) -> Complex64 {
    over_i(arctanh(times_i(z)))
}

/// Inverse hyperbolic cosine: the inverse cosine turned to a positive real part.
pub(crate) fn arccosh(z: Complex64) -> Complex64 {
    let w = arccos(z);
    if w.im.is_sign_negative() { times_i(w) } else { over_i(w) }
}

/// `a / b` with the infinities and zeros of C99's annex G (G.5.1, example 2): what divides by zero or is
/// infinite is so in the parts that say where it points.
#[inline(always)]
pub(crate) fn divide(a: Complex64, b: Complex64) -> Complex64 {
    let quotient = a / b;
    match quotient.re.is_nan() && quotient.im.is_nan() {
        true => limit_of_quotient(a, b).unwrap_or(quotient),
        false => quotient,
    }
}

/// A quotient that the textbook's formula has no number for.
#[cold]
fn limit_of_quotient(a: Complex64, b: Complex64) -> Option<Complex64> {
    // A unit where a part is infinite, and a zero elsewhere.
    let unit = |x: f64| f64::from(u8::from(x.is_infinite())).copysign(x);
    let units = |z: Complex64| Complex64::new(unit(z.re), unit(z.im));
    let direction = |a: Complex64, b: Complex64| {
        Complex64::new(a.re * b.re + a.im * b.im, a.im * b.re - a.re * b.im)
    };
    let is_infinite = |z: Complex64| z.re.is_infinite() || z.im.is_infinite();
    if b == Complex64::ZERO && !(a.re.is_nan() && a.im.is_nan()) {
        Some(a * f64::INFINITY.copysign(b.re))
    } else if is_infinite(a) && b.is_finite() {
        Some(direction(units(a), b) * f64::INFINITY)
    } else if is_infinite(b) && a.is_finite() {
        Some(direction(a, units(b)) * 0.0)
    } else {
        None
    }
}

/// `1 / sqrt(z)`.
pub(crate) fn rsqrt(z: Complex64) -> Complex64 {
    divide(Complex64::ONE, sqrt(z))
}

/// `base` to the power of `exponent`; `0^0 = 1`.
pub(crate) fn power(base: Complex64, exponent: Complex64) -> Complex64 {
    let zero = Complex64::ZERO;
    match (base == zero, exponent == zero) {
        (_, true) => Complex64::ONE,
        (true, _) if exponent.re > 0.0 => zero,
        (true, _) => Complex64::new(f64::NAN, f64::NAN),
        _ => exp(exponent * base.ln()),
    }
}

/// `log(exp(a) + exp(b))`, taking off the operand with the larger real part.
pub(crate) fn log_add_exp(a: Complex64, b: Complex64) -> Complex64 {
    let (low, high) = if a.re < b.re { (a, b) } else { (b, a) };
    if low.re == f64::NEG_INFINITY || high.re == f64::INFINITY {
        return high;
    }
    high + log1p(exp(low - high))
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
    fn quotients_have_the_infinities_of_c() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let cases = [
            ((1.0, 0.0), (0.0, 0.0), (inf, nan)),
            ((1.0, 2.0), (-0.0, 0.0), (-inf, -inf)),
            ((nan, 1.0), (0.0, 0.0), (nan, inf)),
            ((0.0, 0.0), (0.0, 0.0), (nan, nan)),
            ((inf, 0.0), (1.0, 2.0), (inf, -inf)),
            ((inf, nan), (1.0, 0.0), (inf, nan)),
            ((1.0, 0.0), (0.0, inf), (0.0, -0.0)),
            ((1.0, 2.0), (-inf, 2.0), (-0.0, -0.0)),
            ((inf, 0.0), (inf, 0.0), (nan, nan)),
        ];
        let bits =
            |(re, im): (f64, f64)| [re, im].map(|x| if x.is_nan() { 1 } else { x.to_bits() });
        for (a, b, expected) in cases {
            let found = divide(Complex64::new(a.0, a.1), Complex64::new(b.0, b.1));
            assert_eq!(bits((found.re, found.im)), bits(expected), "{a:?} / {b:?}");
        }
        let pole = rsqrt(Complex64::ZERO);
        assert!(pole.re == inf && pole.im.is_nan());
    }

    #[test]
    fn limits_are_numbers() {
        let real = Complex64::from;
        assert_eq!(expm1(real(800.0)), Complex64::new(f64::INFINITY, 0.0));
        assert_eq!(expm1(Complex64::new(-800.0, 1.0)), real(-1.0));
        assert_eq!(sigmoid(real(800.0)), Complex64::ONE);
        assert_eq!(sigmoid(real(-800.0)), Complex64::ZERO);
        assert!((sigmoid(real(1.0)) - 1.0 / (1.0 + exp(real(-1.0)))).norm() < 1e-15);
        // Next to a pole: there tan(z) is 1 / (π/2 - z).
        let near = FRAC_PI_2 - 2f64.powi(-26);
        assert!((tan(real(near)).re / 2f64.powi(26) - 1.0).abs() < 1e-8);
        assert!((sigmoid(Complex64::new(0.0, 2.0 * near)).re - 0.5).abs() < 1e-8);
    }

    #[test]
    fn powers() {
        let i = Complex64::I;
        assert!((power(i, Complex64::from(2.0)) + 1.0).norm() < 1e-15);
        assert_eq!(power(Complex64::ZERO, Complex64::ZERO), Complex64::ONE);
        assert_eq!(power(Complex64::ZERO, Complex64::ONE), Complex64::ZERO);
    }
}
