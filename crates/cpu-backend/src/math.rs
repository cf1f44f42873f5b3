//! Scalar functions that std lacks or that loops over them should vectorize.
//!
//! float32 functions that are not written out here go through float64 and round once.

use std::f64::consts::PI;

/// `exp(x)` within 1 ULP, in plain arithmetic so that loops vectorize.
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`; a polynomial for `exp(r)` (Cephes' `expf`), and two
/// factors for `2^n`, so that results below the normal range are rounded once.
#[inline(always)]
pub(crate) fn exp_f32(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
    const ROUND: f32 = 12_582_912.0;
    // Wrapping arithmetic below: a check for overflow would keep loops from being vectorized.
    // Beyond these the result is infinite or zero; NaN stays NaN.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let mut p = 1.987_569_1e-4;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5] {
        p = p * r + c;
    }
    let y = p * (r * r) + r + 1.0;
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let half = n >> 1;
    y * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// `2^n` for `-126 <= n <= 127`.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `1 / (1 + exp(-x))` without overflow.
#[inline(always)]
pub(crate) fn sigmoid_f32(x: f32) -> f32 {
    let z = exp_f32(-x.abs());
    let y = 1.0 / (1.0 + z);
    if x < 0.0 { z * y } else { y }
}

/// `1 / (1 + exp(-x))` without overflow.
pub(crate) fn sigmoid_f64(x: f64) -> f64 {
    let z = (-x.abs()).exp();
    if x < 0.0 { z / (1.0 + z) } else { 1.0 / (1.0 + z) }
}

/// `tanh(x)` within 2 ULP, vectorizable: Cephes' `tanhf`.
#[inline(always)]
pub(crate) fn tanh_f32(x: f32) -> f32 {
    let magnitude = x.abs();
    let z = x * x;
    let mut p = -5.704_988_7e-3;
    for c in [2.063_909e-2, -5.373_971_6e-2, 0.133_314_42, -0.333_332_8] {
        p = p * z + c;
    }
    let small = p * z * x + x;
    let large = 1.0 - 2.0 / (exp_f32(magnitude + magnitude) + 1.0);
    let y = if magnitude < 0.625 { small } else { large };
    y.copysign(x)
}

/// Rounds half to even after computing in float64.
macro_rules! through_f64 {
    ($($name:ident => $f:expr;)*) => {$(
        pub(crate) fn $name(x: f32) -> f32 {
            let f: fn(f64) -> f64 = $f;
            f(x as f64) as f32
        }
    )*};
}

through_f64! {
    arccos_f32 => f64::acos;
    arccosh_f32 => libm::acosh;
    arcsin_f32 => f64::asin;
    arcsinh_f32 => libm::asinh;
    arctan_f32 => f64::atan;
    arctanh_f32 => libm::atanh;
    cosh_f32 => f64::cosh;
    erf_f32 => libm::erf;
    expm1_f32 => f64::exp_m1;
    log10_f32 => f64::log10;
    log1p_f32 => f64::ln_1p;
    log2_f32 => f64::log2;
    sinh_f32 => f64::sinh;
    tan_f32 => f64::tan;
    erfinv_f32 => |x| refine_erfinv(x, guess_erfinv(x));
}

/// Inverse of the error function: infinite at ±1, NaN beyond.
pub(crate) fn erfinv_f64(x: f64) -> f64 {
    refine_erfinv(x, refine_erfinv(x, guess_erfinv(x)))
}

/// Giles' approximation ("Approximating the erfinv function", 2010), good to about 1e-7.
fn guess_erfinv(x: f64) -> f64 {
    const CENTRE: [f64; 9] = [
        2.81022636e-08,
        3.43273939e-07,
        -3.5233877e-06,
        -4.39150654e-06,
        0.00021858087,
        -0.00125372503,
        -0.00417768164,
        0.246640727,
        1.50140941,
    ];
    const TAIL: [f64; 9] = [
        -0.000200214257,
        0.000100950558,
        0.00134934322,
        -0.00367342844,
        0.00573950773,
        -0.0076224613,
        0.00943887047,
        1.00167406,
        2.83297682,
    ];
    let w = -((1.0 - x) * (1.0 + x)).ln();
    let (t, coefficients) = if w < 5.0 { (w - 2.5, &CENTRE) } else { (w.sqrt() - 3.0, &TAIL) };
    coefficients.iter().fold(0.0, |p, c| p * t + c) * x
}

/// One step of Halley's method on `erf(y) - x`, which triples the number of right digits. Near
/// ±1 the difference is taken between complements, which keep their digits.
fn refine_erfinv(x: f64, y: f64) -> f64 {
    let magnitude = x.abs();
    if magnitude == 0.0 {
        return x;
    } else if magnitude == 1.0 {
        return f64::INFINITY.copysign(x);
    } else if magnitude.is_nan() || magnitude > 1.0 {
        return f64::NAN;
    }
    let error = if magnitude < 0.5 {
        libm::erf(y) - x
    } else {
        ((1.0 - magnitude) - libm::erfc(y.abs())) * x.signum()
    };
    let u = error / (2.0 / PI.sqrt() * (-y * y).exp());
    y - u / (1.0 + y * u)
}

/// `log(exp(a) + exp(b))` without overflow; infinities count.
pub(crate) fn log_add_exp(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if low == f64::NEG_INFINITY || high == f64::INFINITY {
        high
    } else {
        high + (low - high).exp().ln_1p()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance in units of the last place of the exact result.
    fn ulps(got: f32, exact: f64) -> f64 {
        if got.is_nan() || exact.is_nan() {
            return if got.is_nan() && exact.is_nan() { 0.0 } else { f64::INFINITY };
        }
        let rounded = exact as f32;
        if got == rounded {
            return 0.0;
        }
        let spacing = (rounded.abs().next_up() as f64 - rounded.abs() as f64).max(1e-45);
        (got as f64 - exact).abs() / spacing
    }

    /// The largest error over all magnitudes and both signs.
    fn worst(f: fn(f32) -> f32, exact: fn(f64) -> f64) -> f64 {
        (0..=u32::MAX)
            .step_by(1999)
            .map(|bits| ulps(f(f32::from_bits(bits)), exact(f32::from_bits(bits) as f64)))
            .fold(0.0, f64::max)
    }

    #[test]
    fn vectorizable_functions_are_precise() {
        assert!(worst(exp_f32, f64::exp) <= 1.1, "exp {}", worst(exp_f32, f64::exp));
        assert!(worst(sigmoid_f32, sigmoid_f64) <= 2.5, "{}", worst(sigmoid_f32, sigmoid_f64));
        assert!(worst(tanh_f32, f64::tanh) <= 2.0, "tanh {}", worst(tanh_f32, f64::tanh));
    }

    #[test]
    fn limits_of_the_exponential() {
        for (x, y) in [(f32::NEG_INFINITY, 0.0), (f32::INFINITY, f32::INFINITY), (0.0, 1.0)] {
            assert_eq!(exp_f32(x), y);
        }
        assert!(exp_f32(f32::NAN).is_nan());
        assert!(exp_f32(-103.0) > 0.0);
    }

    #[test]
    fn erfinv_inverts_erf() {
        for i in 1..2000 {
            let y = i as f64 * 0.002;
            let (x, back) = (libm::erf(y), erfinv_f64(libm::erf(y)));
            // Half an ULP of x, seen through the slope of erfinv.
            let slope = PI.sqrt() / 2.0 * (y * y).exp();
            let bound = 4.0 * f64::EPSILON * (y + x * slope);
            assert!((back - y).abs() <= bound, "{y}: {back}");
            assert_eq!(erfinv_f64(-x), -back);
        }
    }

    #[test]
    fn erfinv_at_the_ends() {
        assert_eq!(erfinv_f32(1.0), f32::INFINITY);
        assert_eq!(erfinv_f32(-1.0), f32::NEG_INFINITY);
        assert_eq!(erfinv_f64(0.0), 0.0);
        assert!(erfinv_f32(1.5).is_nan() && erfinv_f32(f32::NAN).is_nan());
        let tiny = 1e-30;
        assert!((erfinv_f64(tiny) / tiny - PI.sqrt() / 2.0).abs() < 1e-15);
    }
}
