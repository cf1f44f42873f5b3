//! Functions of one array against float64.

mod common;

use common::*;
use mlx_vulkan_core::{Array, Complex, Dtype, Result, ops};

type Op = fn(&Array) -> Result<Array>;
type Case = (&'static str, Op, fn(f64) -> f64, f64, f64);

/// Name, operation, oracle, and the range of arguments.
const CASES: &[Case] = &[
    ("abs", ops::abs, f64::abs, -5.0, 5.0),
    ("arccos", ops::arccos, f64::acos, -1.0, 1.0),
    ("arccosh", ops::arccosh, libm_acosh, 1.0, 50.0),
    ("arcsin", ops::arcsin, f64::asin, -1.0, 1.0),
    ("arcsinh", ops::arcsinh, libm_asinh, -50.0, 50.0),
    ("arctan", ops::arctan, f64::atan, -50.0, 50.0),
    ("arctanh", ops::arctanh, libm_atanh, -0.99, 0.99),
    ("ceil", ops::ceil, f64::ceil, -5.0, 5.0),
    ("cos", ops::cos, f64::cos, -20.0, 20.0),
    ("cosh", ops::cosh, f64::cosh, -9.0, 9.0),
    ("erf", ops::erf, libm::erf, -4.0, 4.0),
    ("exp", ops::exp, f64::exp, -9.0, 9.0),
    ("expm1", ops::expm1, f64::exp_m1, -1.0, 1.0),
    ("floor", ops::floor, f64::floor, -5.0, 5.0),
    ("log", ops::log, f64::ln, 0.01, 90.0),
    ("log10", ops::log10, f64::log10, 0.01, 90.0),
    ("log1p", ops::log1p, f64::ln_1p, -0.9, 2.0),
    ("log2", ops::log2, f64::log2, 0.01, 90.0),
    ("negative", ops::negative, |x| -x, -5.0, 5.0),
    ("round", |a| ops::round(a, 0), f64::round_ties_even, -5.0, 5.0),
    ("rsqrt", ops::rsqrt, |x| 1.0 / x.sqrt(), 0.01, 90.0),
    ("sigmoid", ops::sigmoid, |x| 1.0 / (1.0 + (-x).exp()), -9.0, 9.0),
    ("sign", ops::sign, f64::signum, 0.1, 3.0),
    ("sin", ops::sin, f64::sin, -20.0, 20.0),
    ("sinh", ops::sinh, f64::sinh, -9.0, 9.0),
    ("sqrt", ops::sqrt, f64::sqrt, 0.0, 90.0),
    ("square", ops::square, |x| x * x, -9.0, 9.0),
    ("tan", ops::tan, f64::tan, -1.5, 1.5),
    ("tanh", ops::tanh, f64::tanh, -9.0, 9.0),
];

fn libm_acosh(x: f64) -> f64 {
    libm::acosh(x)
}
fn libm_asinh(x: f64) -> f64 {
    libm::asinh(x)
}
fn libm_atanh(x: f64) -> f64 {
    libm::atanh(x)
}

#[test]
fn floats_in_every_layout() {
    on_cpu(|| {
        for &(name, op, exact, low, high) in CASES {
            for dtype in FLOATS {
                for shape in [&[3usize, 4, 5][..], &[7], &[], &[2, 0]] {
                    let n = shape.iter().product();
                    let values = stored(&sequence(n, low, high), dtype);
                    let want: Vec<f64> = values.iter().map(|&x| exact(x)).collect();
                    for (layout, a) in layouts(&values, shape, dtype) {
                        let what = format!("{name} {dtype} {layout} {shape:?}");
                        assert_close(&op(&a).unwrap(), &want, 2.0, &what);
                    }
                }
            }
        }
    });
}

#[test]
fn large_arrays_use_all_cores() {
    on_cpu(|| {
        let values = stored(&sequence(200_003, -3.0, 3.0), Dtype::Float32);
        let want: Vec<f64> = values.iter().map(|x| x.exp()).collect();
        for (layout, a) in layouts(&values, &[200_003], Dtype::Float32) {
            assert_close(&ops::exp(&a).unwrap(), &want, 2.0, layout);
        }
    });
}

#[test]
fn erfinv_undoes_erf() {
    on_cpu(|| {
        for dtype in [Dtype::Float32, Dtype::Float64] {
            let y = sequence(1000, -2.0, 2.0);
            let x = stored(&y.iter().map(|&y| libm::erf(y)).collect::<Vec<_>>(), dtype);
            let got = read(&ops::erfinv(&array(&x, &[1000], dtype)).unwrap());
            for (g, x) in got.iter().zip(&x) {
                // The result's rounding error, seen through the slope of erf.
                let slope = 2.0 / std::f64::consts::PI.sqrt() * (-g * g).exp();
                let bound = epsilon(dtype) * g.abs() * slope + 2.0 * f64::EPSILON;
                assert!((libm::erf(*g) - x).abs() <= bound, "{dtype}: {x} {g}");
            }
        }
    });
}

#[test]
fn integers_wrap_and_keep() {
    on_cpu(|| {
        let a = Array::from_slice(&[i32::MIN, -3, 0, 7], &[4]).unwrap();
        assert_eq!(ops::abs(&a).unwrap().to_vec::<i32>().unwrap(), [i32::MIN, 3, 0, 7]);
        assert_eq!(ops::negative(&a).unwrap().to_vec::<i32>().unwrap(), [i32::MIN, 3, 0, -7]);
        assert_eq!(ops::sign(&a).unwrap().to_vec::<i32>().unwrap(), [-1, -1, 0, 1]);
        assert_eq!(ops::square(&a).unwrap().to_vec::<i32>().unwrap(), [0, 9, 0, 49]);
        assert_eq!(
            ops::bitwise_invert(&a).unwrap().to_vec::<i32>().unwrap(),
            [i32::MAX, 2, -1, -8]
        );
        for dtype in INTS {
            let a = array(&[0.0, 1.0, 5.0], &[3], dtype);
            assert_same(&ops::sign(&a).unwrap(), &[0.0, 1.0, 1.0], dtype.name());
            assert_same(&ops::square(&a).unwrap(), &[0.0, 1.0, 25.0], dtype.name());
            assert_same(&ops::logical_not(&a).unwrap(), &[1.0, 0.0, 0.0], dtype.name());
        }
    });
}

#[test]
fn special_values() {
    on_cpu(|| {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let a = Array::from_slice(&[inf, -inf, nan, -0.0f32], &[4]).unwrap();
        let read = |a: Result<Array>| a.unwrap().to_vec::<f32>().unwrap();
        assert_eq!(read(ops::exp(&a))[..2], [inf, 0.0]);
        assert_eq!(read(ops::tanh(&a))[..2], [1.0, -1.0]);
        assert_eq!(read(ops::sigmoid(&a))[..2], [1.0, 0.0]);
        assert!(read(ops::tanh(&a))[3].is_sign_negative());
        assert!(
            [ops::exp(&a), ops::tanh(&a), ops::sigmoid(&a)].map(read).iter().all(|r| r[2].is_nan())
        );
        let half = Array::from_slice(&[0.5f32, 1.5, 2.5, -0.5], &[4]).unwrap();
        assert_eq!(read(ops::round(&half, 0)), [0.0, 2.0, 2.0, 0.0]);
    });
}

#[test]
fn complex_numbers() {
    on_cpu(|| {
        let z = Complex::new(0.3, -1.2);
        let a = Array::from_slice(&[z, Complex::new(0.0, 0.0)], &[2]).unwrap();
        type Case = (Op, fn(Complex) -> Complex);
        let cases: [Case; 6] = [
            (ops::exp, |z| z.exp()),
            (ops::sin, |z| z.sin()),
            (ops::sqrt, |z| z.sqrt()),
            (ops::tanh, |z| z.tanh()),
            (ops::sign, |z| z / z.norm()),
            (ops::square, |z| z * z),
        ];
        for (op, exact) in cases {
            let got = op(&a).unwrap().to_vec::<Complex>().unwrap()[0];
            assert!((got - exact(z)).norm() < 1e-6, "{got} {}", exact(z));
        }
        assert_eq!(ops::abs(&a).unwrap().to_vec::<f32>().unwrap()[1], 0.0);
        assert_eq!(ops::imag(&a).unwrap().to_vec::<f32>().unwrap(), [-1.2, 0.0]);
        assert_eq!(ops::conjugate(&a).unwrap().to_vec::<Complex>().unwrap()[0], z.conj());
        let error = ops::erf(&a).unwrap_err().to_string();
        assert!(error.starts_with("[erf]"), "{error}");
    });
}
