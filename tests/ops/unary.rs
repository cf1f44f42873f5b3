//! Elementwise functions of one array.

use mlx::{Array, Complex, Dtype, Result, ops};
use mlx_tests::{
    Layout, array, assert_ulps, complex_noise, complex_parts, dtypes_of, epsilon, filled, noise,
    on_each_device, series_erf, values,
};
use num_complex::Complex64;

type Function = fn(&Array) -> Result<Array>;

/// `round` without its number of decimals.
fn round(a: &Array) -> Result<Array> {
    ops::round(a, 0)
}

/// A function with its float64 oracle and the range its arguments are drawn from.
struct Case {
    name: &'static str,
    function: Function,
    oracle: fn(f64) -> f64,
    range: (f64, f64),
}

macro_rules! cases {
    ($($name:ident: $oracle:expr, $low:expr, $high:expr;)*) => {
        vec![$(Case {
            name: stringify!($name),
            function: ops::$name,
            oracle: $oracle,
            range: ($low, $high),
        }),*]
    };
}

fn cases() -> Vec<Case> {
    let round =
        |range| Case { name: "round", function: round, oracle: f64::round_ties_even, range };
    let mut cases = cases! {
        arccos: f64::acos, -1.0, 1.0;
        arccosh: f64::acosh, 1.0, 1e4;
        arcsin: f64::asin, -1.0, 1.0;
        arcsinh: f64::asinh, -1e4, 1e4;
        arctan: f64::atan, -1e3, 1e3;
        arctanh: arctanh, -0.999, 0.999;
        cos: f64::cos, -60000.0, 60000.0;
        cosh: f64::cosh, -10.0, 10.0;
        erf: series_erf, -4.0, 4.0;
        exp: f64::exp, -10.0, 11.0;
        expm1: f64::exp_m1, -10.0, 11.0;
        log: f64::ln, 1e-3, 6e4;
        log10: f64::log10, 1e-3, 6e4;
        log1p: f64::ln_1p, -0.99, 6e4;
        log2: f64::log2, 1e-3, 6e4;
        rsqrt: |x| 1.0 / x.sqrt(), 1e-3, 6e4;
        sigmoid: |x| 1.0 / (1.0 + (-x).exp()), -10.0, 10.0;
        sin: f64::sin, -60000.0, 60000.0;
        sinh: f64::sinh, -10.0, 10.0;
        sqrt: f64::sqrt, 0.0, 6e4;
        square: |x| x * x, -200.0, 200.0;
        tan: f64::tan, -100.0, 100.0;
        tanh: f64::tanh, -6.0, 6.0;
        abs: f64::abs, -100.0, 100.0;
        negative: |x| -x, -100.0, 100.0;
        floor: f64::floor, -100.0, 100.0;
        ceil: f64::ceil, -100.0, 100.0;
        sign: |x| if x == 0.0 { 0.0 } else { x.signum() }, -100.0, 100.0;
    };
    cases.push(round((-5.0, 5.0)));
    cases
}

/// The standard library's loses four digits near 1.
fn arctanh(x: f64) -> f64 {
    let a = x.abs();
    (0.5 * (2.0 * a / (1.0 - a)).ln_1p()).copysign(x)
}

/// Spreads indices over a range without regularity.
fn spread(i: usize, (low, high): (f64, f64)) -> f64 {
    low + (high - low) * ((i as f64 * 0.618_033_988_749_895 + 0.137).fract())
}

#[test]
fn floating_functions_match_float64() {
    on_each_device(|device| {
        for case in cases() {
            for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
                for layout in Layout::ALL {
                    let a = layout.array(dtype, |i| spread(i, case.range));
                    let want: Vec<f64> = values(&a).into_iter().map(case.oracle).collect();
                    let got = (case.function)(&a).expect(case.name);
                    let context = format!("{} {dtype} {layout:?} on {device}", case.name);
                    // The oracle's erf has an error of its own.
                    let tolerance = match dtype {
                        Dtype::Float64 if case.name == "erf" => 16.0,
                        Dtype::Float16 | Dtype::Bfloat16 => 0.51,
                        _ => 4.0,
                    };
                    assert_ulps(&context, &got, &want, tolerance);
                }
            }
        }
    });
}

/// Sizes around words, workgroups and what is shared between cores; also in steps and across.
#[test]
fn sizes_around_workgroups() {
    on_each_device(|device| {
        for n in [1, 3, 255, 257, 1003, 200_003] {
            let a = filled(&[n], Dtype::Float32, noise(n as u64, -6.0, 6.0));
            let steps = ops::slice(&a, &[n as isize / 9], &[n as isize], &[3]).unwrap();
            let back = ops::slice(&a, &[-1], &[-(n as isize) - 1], &[-1]).unwrap();
            for (what, a) in [("dense", &a), ("steps", &steps), ("backwards", &back)] {
                let want: Vec<f64> = values(a).into_iter().map(f64::exp).collect();
                let what = format!("exp of {n}, {what} on {device}");
                assert_ulps(&what, &ops::exp(a).unwrap(), &want, 4.0);
            }
        }
        let a = filled(&[17, 59], Dtype::Float32, noise(1, -20.0, 20.0));
        let turned = ops::transpose(&a, &[]).unwrap();
        let want: Vec<f64> = values(&turned).into_iter().map(f64::cos).collect();
        assert_ulps(&format!("cos across on {device}"), &ops::cos(&turned).unwrap(), &want, 4.0);
    });
}

#[test]
fn large_arguments_stay_exact() {
    let arguments = [1e5, 1e8, 1e15, 1e22, 3e38, 1e-38, 16367173.0, -711.0, 0.75 * 1e9];
    on_each_device(|device| {
        let a = array(&arguments, &[arguments.len()], Dtype::Float32);
        let exact = values(&a);
        for (name, function, oracle) in [
            ("sin", ops::sin as Function, f64::sin as fn(f64) -> f64),
            ("cos", ops::cos, f64::cos),
            ("tan", ops::tan, f64::tan),
        ] {
            let want: Vec<f64> = exact.iter().map(|&x| oracle(x)).collect();
            assert_ulps(&format!("{name} on {device}"), &function(&a).unwrap(), &want, 4.0);
        }
    });
}

#[test]
fn integers_keep_their_dtype_or_become_float32() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_integer()) {
            let a = Layout::Transposed.array(dtype, |i| i as f64);
            let exact = values(&a);
            let squares: Vec<f64> = match dtype.size() {
                // 8-bit squares wrap.
                1 if dtype == Dtype::Int8 => {
                    exact.iter().map(|x| (x * x) as i64 as i8 as f64).collect()
                }
                1 => exact.iter().map(|x| (x * x) as i64 as u8 as f64).collect(),
                _ => exact.iter().map(|x| x * x).collect(),
            };
            assert_ulps(
                &format!("square {dtype} on {device}"),
                &ops::square(&a).unwrap(),
                &squares,
                0.0,
            );
            let inverted = ops::bitwise_invert(&ops::bitwise_invert(&a).unwrap()).unwrap();
            assert_eq!(values(&inverted), exact, "bitwise_invert {dtype} on {device}");
            let roots: Vec<f64> = exact.iter().map(|x| x.sqrt()).collect();
            let got = ops::sqrt(&a).unwrap();
            assert_eq!(got.dtype(), Dtype::Float32);
            assert_ulps(&format!("sqrt {dtype} on {device}"), &got, &roots, 1.0);
        }
    });
}

#[test]
fn integers_wrap_at_their_edge() {
    on_each_device(|device| {
        let a = Array::from_slice(&[i32::MIN, -3, 0, 7], &[4]).unwrap();
        let min = f64::from(i32::MIN);
        let of = |a: Result<Array>| values(&a.unwrap());
        assert_eq!(of(ops::abs(&a)), [min, 3.0, 0.0, 7.0], "{device}");
        assert_eq!(of(ops::negative(&a)), [min, 3.0, 0.0, -7.0], "{device}");
        assert_eq!(of(ops::sign(&a)), [-1.0, -1.0, 0.0, 1.0], "{device}");
        assert_eq!(of(ops::square(&a)), [0.0, 9.0, 0.0, 49.0], "{device}");
        assert_eq!(of(ops::bitwise_invert(&a)), [-min - 1.0, 2.0, -1.0, -8.0], "{device}");
        for dtype in dtypes_of(device).filter(|d| d.is_integer()) {
            let a = array(&[0.0, 1.0, 5.0], &[3], dtype);
            assert_eq!(of(ops::sign(&a)), [0.0, 1.0, 1.0], "{dtype} on {device}");
            assert_eq!(of(ops::logical_not(&a)), [1.0, 0.0, 0.0], "{dtype} on {device}");
        }
    });
}

/// Functions of complex numbers, to some roundings of the result or of one.
#[test]
fn complex_functions_match_float64() {
    type Oracle = fn(Complex64) -> Complex64;
    let cases: [(&str, Function, Oracle); 12] = [
        ("exp", ops::exp, |z| z.exp()),
        ("log", ops::log, |z| z.ln()),
        ("sin", ops::sin, |z| z.sin()),
        ("cos", ops::cos, |z| z.cos()),
        ("tan", ops::tan, |z| z.tan()),
        ("sinh", ops::sinh, |z| z.sinh()),
        ("cosh", ops::cosh, |z| z.cosh()),
        ("tanh", ops::tanh, |z| z.tanh()),
        ("sqrt", ops::sqrt, |z| z.sqrt()),
        ("square", ops::square, |z| z * z),
        ("sign", ops::sign, |z| z / z.norm()),
        ("conjugate", ops::conjugate, |z| z.conj()),
    ];
    on_each_device(|device| {
        for layout in Layout::VIEWS {
            let a = layout.view(&[3, 4, 5], |shape| complex_noise(shape, 3));
            let z: Vec<Complex64> =
                complex_parts(&a).iter().map(|&[re, im]| Complex64::new(re, im)).collect();
            for (name, function, oracle) in cases {
                let got = complex_parts(&function(&a).unwrap());
                for (z, [re, im]) in z.iter().zip(got) {
                    let want = oracle(*z);
                    let off = (Complex64::new(re, im) - want).norm();
                    let bound = 16.0 * epsilon(Dtype::Float32) * (1.0 + want.norm());
                    assert!(
                        off <= bound,
                        "{name} {z} {layout:?} on {device}: {re} {im}, not {want}"
                    );
                }
            }
            let norms: Vec<f64> = z.iter().map(|z| z.norm()).collect();
            assert_ulps(&format!("abs on {device}"), &ops::abs(&a).unwrap(), &norms, 4.0);
            let parts: Vec<f64> = z.iter().map(|z| z.im).collect();
            assert_eq!(values(&ops::imag(&a).unwrap()), parts, "{layout:?} on {device}");
        }
        let zero = Array::from_slice(&[Complex::new(0.0, 0.0)], &[1]).unwrap();
        assert_eq!(values(&ops::abs(&zero).unwrap()), [0.0], "{device}");
        assert_eq!(complex_parts(&ops::sign(&zero).unwrap()), [[0.0; 2]], "{device}");
        let error = ops::erf(&zero).unwrap_err().to_string();
        assert!(error.starts_with("[erf]"), "{error}");
    });
}

/// Results for single complex numbers; each part to some roundings of itself.
fn check_complex(cases: &[(&str, Function, [f64; 2], [f64; 2])]) {
    on_each_device(|device| {
        for (name, function, [re, im], want) in cases {
            let z = Array::from_slice(&[Complex::new(*re as f32, *im as f32)], &[1]).unwrap();
            let got = complex_parts(&function(&z).unwrap())[0];
            let near = |(got, want): (&f64, &f64)| {
                got == want || (got - want).abs() <= 12.0 * epsilon(Dtype::Float32) * want.abs()
            };
            let all = got.iter().zip(want).all(near);
            assert!(all, "{name} of {re} {im} on {device}: {got:?}, not {want:?}");
        }
    });
}

/// On their cuts, far out and near zero, by functions of real numbers.
#[test]
fn inverse_complex_functions_keep_signs_and_digits() {
    use std::f64::consts::{FRAC_PI_2, PI};
    let mut cases: Vec<(&str, Function, [f64; 2], [f64; 2])> = Vec::new();
    for side in [1.0, -1.0] {
        let zero = 0f64.copysign(side);
        for x in [1.5, 2.0, 1e3, 1e12, 1e30] {
            let (cosh, tanh) = (f64::acosh(x), f64::atanh(1.0 / x));
            cases.extend([
                ("arcsin", ops::arcsin as Function, [x, zero], [FRAC_PI_2, side * cosh]),
                ("arcsin", ops::arcsin, [-x, zero], [-FRAC_PI_2, side * cosh]),
                ("arccos", ops::arccos, [x, zero], [0.0, -side * cosh]),
                ("arccos", ops::arccos, [-x, zero], [PI, -side * cosh]),
                ("arctanh", ops::arctanh, [x, zero], [tanh, side * FRAC_PI_2]),
                ("arctanh", ops::arctanh, [-x, zero], [-tanh, side * FRAC_PI_2]),
                ("arcsinh", ops::arcsinh, [zero, x], [side * cosh, FRAC_PI_2]),
                ("arcsinh", ops::arcsinh, [zero, -x], [side * cosh, -FRAC_PI_2]),
                ("arctan", ops::arctan, [zero, x], [side * FRAC_PI_2, tanh]),
                ("arctan", ops::arctan, [zero, -x], [side * FRAC_PI_2, -tanh]),
                ("arccosh", ops::arccosh, [-x, zero], [cosh, side * PI]),
                ("arccosh", ops::arccosh, [1.0 / x, zero], [0.0, side * f64::acos(1.0 / x)]),
                ("sqrt", ops::sqrt, [-x, zero], [0.0, side * x.sqrt()]),
            ]);
        }
        for size in [1e10, 1e20, 1e37] {
            // |z| = 5 size.
            let (re, im, log) = (-3.0 * size, side * 4.0 * size, f64::ln(10.0 * size));
            cases.extend([
                ("arcsin", ops::arcsin as Function, [re, im], [-f64::atan(0.75), side * log]),
                ("arccos", ops::arccos, [re, im], [FRAC_PI_2 + f64::atan(0.75), -side * log]),
                ("arcsinh", ops::arcsinh, [im, re], [side * log, -f64::atan(0.75)]),
            ]);
        }
        for size in [1e-10, 1e-20, 1e-30] {
            let small = [3.0 * size, side * 4.0 * size];
            cases.extend([
                ("arcsin", ops::arcsin as Function, small, small),
                ("arctanh", ops::arctanh, small, small),
                ("arcsinh", ops::arcsinh, small, small),
                ("arctan", ops::arctan, small, small),
            ]);
        }
    }
    check_complex(&cases);
}

/// Where the exponential of a part is more than float64 has.
#[test]
fn large_complex_arguments_give_limits() {
    const INF: f64 = f64::INFINITY;
    check_complex(&[
        ("exp", ops::exp, [800.0, 0.0], [INF, 0.0]),
        ("exp", ops::exp, [1e30, 2.0], [-INF, INF]),
        ("exp", ops::exp, [-800.0, 0.0], [0.0, 0.0]),
        ("sinh", ops::sinh, [-800.0, 0.0], [-INF, 0.0]),
        ("cosh", ops::cosh, [-800.0, 0.0], [INF, 0.0]),
        ("tanh", ops::tanh, [800.0, 1.0], [1.0, 0.0]),
        ("sin", ops::sin, [0.0, 800.0], [0.0, INF]),
        ("sin", ops::sin, [1.0, -800.0], [INF, -INF]),
        ("cos", ops::cos, [0.0, 800.0], [INF, 0.0]),
        ("cos", ops::cos, [1.0, 800.0], [INF, -INF]),
        ("tan", ops::tan, [1.0, -800.0], [0.0, -1.0]),
    ]);
}

#[test]
fn halves_round_to_even() {
    on_each_device(|device| {
        let a = array(&[0.5, 1.5, 2.5, -0.5, -1.5, 2.4], &[6], Dtype::Float32);
        let got = values(&ops::round(&a, 0).unwrap());
        assert_eq!(got, [0.0, 2.0, 2.0, 0.0, -2.0, 2.0], "{device}");
    });
}

#[test]
fn special_values_follow_ieee() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    on_each_device(|device| {
        let numbers = |dtype| array(&[inf, -inf, nan, 0.0, -1.0], &[5], dtype);
        let a = numbers(Dtype::Float32);
        for (name, function, want) in [
            ("exp", ops::exp as Function, [inf, 0.0, nan, 1.0, (-1f64).exp()]),
            ("log", ops::log, [inf, nan, nan, -inf, nan]),
            ("sqrt", ops::sqrt, [inf, nan, nan, 0.0, nan]),
            ("tanh", ops::tanh, [1.0, -1.0, nan, 0.0, (-1f64).tanh()]),
            ("sin", ops::sin, [nan, nan, nan, 0.0, (-1f64).sin()]),
            ("erf", ops::erf, [1.0, -1.0, nan, 0.0, series_erf(-1.0)]),
            ("erfinv", ops::erfinv, [nan, nan, nan, 0.0, -inf]),
        ] {
            for dtype in [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16] {
                let what = format!("{name} {dtype} on {device}");
                assert_ulps(&what, &function(&numbers(dtype)).unwrap(), &want, 4.0);
            }
        }
        let zero = ops::tanh(&array(&[-0.0], &[1], Dtype::Float32)).unwrap();
        assert!(values(&zero)[0].is_sign_negative(), "{device}");
        let classes = [ops::isnan(&a), ops::isinf(&a), ops::isfinite(&a)];
        let got: Vec<Vec<f64>> = classes.into_iter().map(|c| values(&c.unwrap())).collect();
        assert_eq!(got[0], [0.0, 0.0, 1.0, 0.0, 0.0]);
        assert_eq!(got[1], [1.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!(got[2], [0.0, 0.0, 0.0, 1.0, 1.0]);
    });
}

/// The result's rounding, seen through the slope of erf.
#[test]
fn erfinv_inverts_erf() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.size() >= 4 && d.is_floating()) {
            let x = noise(1, -2.5, 2.5);
            let a = filled(&[1000], dtype, |i| series_erf(x(i)));
            let got = values(&ops::erfinv(&a).unwrap());
            for (y, x) in values(&a).into_iter().zip(got) {
                let slope = std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp();
                let bound = 12.0 * epsilon(dtype) * x.abs() * slope + 16.0 * f64::EPSILON;
                let off = (series_erf(x) - y).abs();
                assert!(off <= bound, "{dtype} on {device}: {y:e} gives {x:e}, off by {off:e}");
            }
        }
    });
}
