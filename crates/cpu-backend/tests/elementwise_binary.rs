//! Functions of two arrays against float64.

mod common;

use common::*;
use mlx_vulkan_core::{Array, Complex, Dtype, Result, dtype::Bool8, ops};

type Op = fn(&Array, &Array) -> Result<Array>;

fn modulo(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
}

/// Operation and oracle for floats.
/// Name, function and oracle.
type Case<T> = (&'static str, Op, fn(T, T) -> T);

const FLOAT: &[Case<f64>] = &[
    ("add", |a, b| ops::add(a, b), |a, b| a + b),
    ("arctan2", |a, b| ops::arctan2(a, b), f64::atan2),
    ("divide", |a, b| ops::divide(a, b), |a, b| a / b),
    ("logaddexp", |a, b| ops::logaddexp(a, b), |a, b| a.max(b) + (-(a - b).abs()).exp().ln_1p()),
    ("maximum", |a, b| ops::maximum(a, b), f64::max),
    ("minimum", |a, b| ops::minimum(a, b), f64::min),
    ("multiply", |a, b| ops::multiply(a, b), |a, b| a * b),
    ("remainder", |a, b| ops::remainder(a, b), modulo),
    ("subtract", |a, b| ops::subtract(a, b), |a, b| a - b),
    ("greater", |a, b| ops::greater(a, b), |a, b| (a > b) as u8 as f64),
    ("less_equal", |a, b| ops::less_equal(a, b), |a, b| (a <= b) as u8 as f64),
    ("equal", |a, b| ops::equal(a, b), |a, b| (a == b) as u8 as f64),
];

#[test]
fn floats_in_every_pair_of_layouts() {
    on_cpu(|| {
        for &(name, op, exact) in FLOAT {
            for dtype in FLOATS {
                let a = stored(&sequence(60, -4.0, 4.0), dtype);
                let b = stored(&sequence(60, 0.5, 5.0), dtype);
                let b: Vec<f64> =
                    b.iter().enumerate().map(|(i, &x)| if i % 3 == 0 { -x } else { x }).collect();
                let want: Vec<f64> = a.iter().zip(&b).map(|(&a, &b)| exact(a, b)).collect();
                for (la, a) in layouts(&a, &[3, 4, 5], dtype) {
                    for (lb, b) in layouts(&b, &[3, 4, 5], dtype) {
                        let what = format!("{name} {dtype} {la} {lb}");
                        assert_close(&op(&a, &b).unwrap(), &want, 2.0, &what);
                    }
                }
            }
        }
    });
}

/// Operation and oracle for integers, before wrapping.
const INTEGER: &[Case<i64>] = &[
    ("add", |a, b| ops::add(a, b), |a, b| a + b),
    ("bitwise_and", |a, b| ops::bitwise_and(a, b), |a, b| a & b),
    ("bitwise_or", |a, b| ops::bitwise_or(a, b), |a, b| a | b),
    ("bitwise_xor", |a, b| ops::bitwise_xor(a, b), |a, b| a ^ b),
    ("floor_divide", |a, b| ops::floor_divide(a, b), |a, b| (a as f64 / b as f64).floor() as i64),
    ("maximum", |a, b| ops::maximum(a, b), i64::max),
    ("minimum", |a, b| ops::minimum(a, b), i64::min),
    ("multiply", |a, b| ops::multiply(a, b), |a, b| a * b),
    ("remainder", |a, b| ops::remainder(a, b), |a, b| modulo(a as f64, b as f64) as i64),
    ("subtract", |a, b| ops::subtract(a, b), |a, b| a - b),
];

#[test]
fn integers_wrap() {
    on_cpu(|| {
        for &(name, op, exact) in INTEGER {
            for dtype in INTS {
                let low = if dtype.is_signed_integer() { -100.0 } else { 1.0 };
                let a = stored(&sequence(60, low, 120.0), dtype);
                let b: Vec<f64> = sequence(60, low, 120.0)
                    .iter()
                    .rev()
                    .map(|x| if x.trunc() == 0.0 { 3.0 } else { *x })
                    .collect();
                let b = stored(&b, dtype);
                let want: Vec<f64> =
                    a.iter().zip(&b).map(|(&a, &b)| exact(a as i64, b as i64) as f64).collect();
                if dtype == Dtype::Uint64 && name == "subtract" {
                    continue; // float64 cannot hold the oracle's wrapped values
                }
                for (layout, a) in layouts(&a, &[5, 12], dtype) {
                    let b = array(&b, &[5, 12], dtype);
                    assert_same(&op(&a, &b).unwrap(), &want, &format!("{name} {dtype} {layout}"));
                }
            }
        }
    });
}

#[test]
fn rows_columns_and_scalars_broadcast() {
    on_cpu(|| {
        let a = sequence(6 * 700, -4.0, 4.0);
        let a32 = stored(&a, Dtype::Float32);
        let dense = array(&a32, &[6, 700], Dtype::Float32);
        let row = array(&a32[..700], &[700], Dtype::Float32);
        let column = array(&a32[..6], &[6, 1], Dtype::Float32);
        let scalar = array(&a32[..1], &[], Dtype::Float32);
        let check = |b: &Array, pick: fn(usize) -> usize, what: &str| {
            let sum: Vec<f64> = (0..a32.len()).map(|i| a32[i] + a32[pick(i)]).collect();
            assert_close(&ops::add(&dense, b).unwrap(), &sum, 1.0, what);
            let difference: Vec<f64> = (0..a32.len()).map(|i| a32[pick(i)] - a32[i]).collect();
            assert_close(&ops::subtract(b, &dense).unwrap(), &difference, 1.0, what);
        };
        check(&row, |i| i % 700, "row");
        check(&column, |i| i / 700, "column");
        check(&scalar, |_| 0, "scalar");
        let outer = ops::multiply(&column, &row).unwrap();
        let want: Vec<f64> = (0..a32.len()).map(|i| a32[i / 700] * a32[i % 700]).collect();
        assert_close(&outer, &want, 1.0, "outer product");
    });
}

#[test]
fn chains_reuse_memory() {
    on_cpu(|| {
        let a = array(&sequence(100_000, -1.0, 1.0), &[100_000], Dtype::Float32);
        let base = read(&a);
        let mut x = ops::add(&a, 1.0f32).unwrap();
        for _ in 0..5 {
            x = ops::multiply(ops::add(&x, &a).unwrap(), 0.5f32).unwrap();
            x = ops::add(ops::square(&a).unwrap(), ops::negative(&x).unwrap()).unwrap();
        }
        let exact = |a: f64| (0..5).fold(a + 1.0, |x, _| a * a - (x + a) * 0.5);
        let want: Vec<f64> = base.iter().map(|&a| exact(a)).collect();
        for (g, w) in read(&x).iter().zip(&want) {
            assert!((g - w).abs() < 1e-5);
        }
        assert_eq!(read(&a), base, "an array in use is not overwritten");
    });
}

#[test]
fn nothing_panics() {
    on_cpu(|| {
        for dtype in INTS {
            let a = array(&[-128.0, -1.0, 0.0, 1.0, 127.0], &[5, 1], dtype);
            let b = array(&[-1.0, 0.0, 1.0, 64.0, 100.0], &[5], dtype);
            for op in [
                (|a, b| ops::floor_divide(a, b)) as Op,
                |a, b| ops::remainder(a, b),
                |a, b| ops::left_shift(a, b),
                |a, b| ops::right_shift(a, b),
                |a, b| ops::power(a, b),
            ] {
                op(&a, &b).unwrap().eval().unwrap();
            }
        }
        let min = Array::from_slice(&[i32::MIN, 7, -7], &[3]).unwrap();
        let by = Array::from_slice(&[-1, 0, 2], &[3]).unwrap();
        let to = |a: Result<Array>| a.unwrap().to_vec::<i32>().unwrap();
        assert_eq!(to(ops::floor_divide(&min, &by)), [i32::MIN, 0, -4]);
        assert_eq!(to(ops::remainder(&min, &by)), [0, 0, 1]);
        assert_eq!(to(ops::power(&by, &by)), [-1, 1, 4]);
    });
}

#[test]
fn infinities_and_nan() {
    on_cpu(|| {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let a = Array::from_slice(&[inf, -inf, inf, nan, 1.0], &[5]).unwrap();
        let b = Array::from_slice(&[1.0, -inf, -inf, 1.0, nan], &[5]).unwrap();
        let got = ops::logaddexp(&a, &b).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(got[..3], [inf, -inf, inf]);
        assert!(got[3].is_nan() && got[4].is_nan());
        for op in [(|a, b| ops::maximum(a, b)) as Op, |a, b| ops::minimum(a, b)] {
            let got = op(&a, &b).unwrap().to_vec::<f32>().unwrap();
            assert!(got[3].is_nan() && got[4].is_nan());
        }
        let same = ops::array_equal(&a, &a, true).unwrap().item::<Bool8>().unwrap();
        let different = ops::array_equal(&a, &a, false).unwrap().item::<Bool8>().unwrap();
        assert_eq!((same, different), (Bool8(1), Bool8(0)));
    });
}

#[test]
fn bools_and_complex() {
    on_cpu(|| {
        let a = array(&[0.0, 0.0, 1.0, 1.0], &[4], Dtype::Bool);
        let b = array(&[0.0, 1.0, 0.0, 1.0], &[4], Dtype::Bool);
        assert_same(&ops::add(&a, &b).unwrap(), &[0.0, 1.0, 1.0, 1.0], "or");
        assert_same(&ops::multiply(&a, &b).unwrap(), &[0.0, 0.0, 0.0, 1.0], "and");
        assert_same(&ops::bitwise_xor(&a, &b).unwrap(), &[0.0, 1.0, 1.0, 0.0], "xor");
        let (x, y) = (Complex::new(1.0, 2.0), Complex::new(1.0, 3.0));
        let a = Array::from_slice(&[x, y], &[2]).unwrap();
        let b = Array::from_slice(&[y, x], &[2]).unwrap();
        let z = |a: Result<Array>| a.unwrap().to_vec::<Complex>().unwrap();
        assert_eq!(z(ops::maximum(&a, &b)), [y, y]);
        assert_eq!(z(ops::multiply(&a, &b)), [x * y, x * y]);
        assert_same(&ops::less(&a, &b).unwrap(), &[1.0, 0.0], "lexicographic");
        assert!((z(ops::power(&a, &b))[0] - x.powc(y)).norm() < 1e-6);
        assert!((z(ops::divide(&a, &b))[0] - x / y).norm() < 1e-6);
    });
}
