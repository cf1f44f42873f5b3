//! Elementwise functions of two arrays, comparisons and selection.

use mlx::{Array, Dtype, Result, ops};
use mlx_tests::{Layout, array, assert_ulps, dtypes_of, on_each_device, rounded, values};

type Function = fn(&Array, &Array) -> Result<Array>;

macro_rules! functions {
    ($($name:ident: $oracle:expr;)*) => {
        vec![$((
            stringify!($name),
            (|a, b| ops::$name(a, b)) as Function,
            $oracle as fn(f64, f64) -> f64,
        )),*]
    };
}

fn modulo(a: f64, b: f64) -> f64 {
    a - b * (a / b).floor()
}

/// Pairs of layouts that broadcast together.
fn pairs(dtype: Dtype, low: f64, high: f64) -> Vec<(String, Array, Array)> {
    let value = |seed: usize| {
        move |i: usize| low + (high - low) * (((i + seed) as f64 * 0.618_033_988_749_895).fract())
    };
    let mut out = Vec::new();
    for left in Layout::ALL {
        for right in Layout::ALL {
            let shapes = (left.shape(), right.shape());
            if left == Layout::Scalar || right == Layout::Scalar || shapes.0 == shapes.1 {
                let a = left.array(dtype, value(1));
                let b = right.array(dtype, value(77));
                out.push((format!("{dtype} {left:?} {right:?}"), a, b));
            }
        }
    }
    out
}

/// Checks `function` on every pair of layouts of a dtype.
fn check(
    context: &str,
    function: Function,
    oracle: fn(f64, f64) -> f64,
    (dtype, low, high): (Dtype, f64, f64),
    tolerance: f64,
) {
    for (layouts, a, b) in pairs(dtype, low, high) {
        let got = function(&a, &b).expect(context);
        let shape = got.shape().to_vec();
        let (x, y) =
            (ops::broadcast_to(&a, &shape).unwrap(), ops::broadcast_to(&b, &shape).unwrap());
        let want: Vec<f64> =
            values(&x).into_iter().zip(values(&y)).map(|(x, y)| oracle(x, y)).collect();
        assert_ulps(&format!("{context} {layouts}"), &got, &want, tolerance);
    }
}

#[test]
fn arithmetic_matches_float64() {
    let functions = functions! {
        add: |a, b| a + b;
        subtract: |a, b| a - b;
        multiply: |a, b| a * b;
        divide: |a, b| a / b;
        maximum: f64::max;
        minimum: f64::min;
        power: f64::powf;
        remainder: modulo;
        floor_divide: |a, b| (a / b).floor();
        arctan2: f64::atan2;
        logaddexp: |a, b| (a.exp() + b.exp()).ln();
    };
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            // Halves are computed in float32 and rounded once.
            let tolerance = if dtype.size() == 2 { 0.51 } else { 4.0 };
            for (name, function, oracle) in functions.clone() {
                check(
                    &format!("{name} on {device}"),
                    function,
                    oracle,
                    (dtype, 0.5, 6.0),
                    tolerance,
                );
            }
        }
    });
}

#[test]
fn integer_arithmetic_is_exact() {
    let functions = functions! {
        add: |a, b| a + b;
        multiply: |a, b| a * b;
        maximum: f64::max;
        minimum: f64::min;
        remainder: modulo;
        floor_divide: |a, b| (a / b).floor();
        bitwise_and: |a, b| (a as i64 & b as i64) as f64;
        bitwise_or: |a, b| (a as i64 | b as i64) as f64;
        bitwise_xor: |a, b| (a as i64 ^ b as i64) as f64;
    };
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_integer()) {
            for (name, function, oracle) in functions.clone() {
                check(&format!("{name} on {device}"), function, oracle, (dtype, 1.0, 11.0), 0.0);
            }
            if dtype.is_signed_integer() {
                let subtract: Function = |a, b| ops::subtract(a, b);
                check(
                    &format!("subtract on {device}"),
                    subtract,
                    |a, b| a - b,
                    (dtype, -20.0, 20.0),
                    0.0,
                );
                let remainder: Function = |a, b| ops::remainder(a, b);
                let a = array(&[7.0, -7.0, 7.0, -7.0], &[4], dtype);
                let b = array(&[3.0, 3.0, -3.0, -3.0], &[4], dtype);
                assert_eq!(
                    values(&remainder(&a, &b).unwrap()),
                    [1.0, 2.0, -2.0, -1.0],
                    "{dtype} on {device}"
                );
            }
        }
    });
}

#[test]
fn integers_wrap_and_never_trap() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_integer()) {
            let largest = if dtype.is_signed_integer() {
                2f64.powi(dtype.size() as i32 * 8 - 1)
            } else {
                2f64.powi(dtype.size() as i32 * 8)
            };
            if dtype.size() < 8 {
                let a = array(&[largest - 1.0], &[1], dtype);
                let one = array(&[1.0], &[1], dtype);
                let want = if dtype.is_signed_integer() { -largest } else { 0.0 };
                assert_eq!(values(&ops::add(&a, &one).unwrap()), [want], "{dtype} on {device}");
            }
            // Division by zero gives some number, not a crash.
            let a = array(&[5.0, 0.0], &[2], dtype);
            let zero = array(&[0.0, 0.0], &[2], dtype);
            ops::floor_divide(&a, &zero).unwrap().eval().unwrap();
            ops::remainder(&a, &zero).unwrap().eval().unwrap();
        }
    });
}

#[test]
fn comparisons_give_bools() {
    let functions = functions! {
        equal: |a, b| (a == b) as u8 as f64;
        not_equal: |a, b| (a != b) as u8 as f64;
        less: |a, b| (a < b) as u8 as f64;
        less_equal: |a, b| (a <= b) as u8 as f64;
        greater: |a, b| (a > b) as u8 as f64;
        greater_equal: |a, b| (a >= b) as u8 as f64;
        logical_and: |a, b| (a != 0.0 && b != 0.0) as u8 as f64;
        logical_or: |a, b| (a != 0.0 || b != 0.0) as u8 as f64;
    };
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for (name, function, oracle) in functions.clone() {
                check(&format!("{name} on {device}"), function, oracle, (dtype, 0.0, 4.0), 0.0);
            }
        }
    });
}

#[test]
fn dtypes_promote() {
    on_each_device(|device| {
        let all: Vec<Dtype> = dtypes_of(device).collect();
        for &left in &all {
            for &right in &all {
                let (a, b) = (array(&[1.0, 0.0], &[2], left), array(&[1.0, 1.0], &[2], right));
                let want = left.promote(right);
                let sum = ops::add(&a, &b).unwrap();
                assert_eq!(sum.dtype(), want);
                let exact = match want {
                    Dtype::Bool => [1.0, 1.0],
                    _ => [2.0, 1.0],
                };
                assert_eq!(values(&sum), exact, "{left} + {right} on {device}");
            }
        }
    });
}

#[test]
fn scalars_are_weak() {
    on_each_device(|_| {
        let half = array(&[1.0], &[1], Dtype::Float16);
        assert_eq!(ops::add(&half, 2.5f32).unwrap().dtype(), Dtype::Float16);
        let int = array(&[1.0], &[1], Dtype::Int8);
        assert_eq!(ops::add(&int, 2).unwrap().dtype(), Dtype::Int8);
        assert_eq!(ops::multiply(&int, 2.5f32).unwrap().dtype(), Dtype::Float32);
        assert_eq!(values(&(&half * 2.0f32 + 1.0f32)), [3.0]);
    });
}

#[test]
fn nan_spreads_through_maximum() {
    on_each_device(|device| {
        let a = array(&[f64::NAN, 1.0, f64::NAN], &[3], Dtype::Float32);
        let b = array(&[1.0, f64::NAN, f64::NAN], &[3], Dtype::Float32);
        for got in [ops::maximum(&a, &b).unwrap(), ops::minimum(&a, &b).unwrap()] {
            assert!(values(&got).iter().all(|x| x.is_nan()), "{device}");
        }
        let same = ops::array_equal(&a, &a, true).unwrap();
        assert_eq!(values(&same), [1.0]);
    });
}

#[test]
fn where_selects() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for layout in Layout::ALL {
                let condition = layout.array(Dtype::Bool, |i| (i % 3 == 0) as u8 as f64);
                let a = layout.array(dtype, |i| (i % 100) as f64);
                let b = array(&[1.0], &[], dtype);
                let got = ops::where_(&condition, &a, &b).unwrap();
                let want: Vec<f64> = values(&condition)
                    .into_iter()
                    .zip(values(&a))
                    .map(|(c, a)| if c != 0.0 { a } else { 1.0 })
                    .collect();
                assert_eq!(values(&got), want, "{dtype} {layout:?} on {device}");
            }
        }
    });
}

#[test]
fn astype_converts_every_pair() {
    on_each_device(|device| {
        let all: Vec<Dtype> = dtypes_of(device).collect();
        for &from in &all {
            for &to in &all {
                for layout in Layout::ALL {
                    let a = layout.array(from, |i| {
                        (i % 50) as f64 * if from.is_inexact() { 1.25 } else { 1.0 }
                    });
                    let want: Vec<f64> = values(&a).into_iter().map(|x| rounded(x, to)).collect();
                    let got = ops::astype(&a, to).unwrap();
                    assert_eq!(values(&got), want, "{from} to {to} {layout:?} on {device}");
                }
            }
        }
    });
}

#[test]
fn shapes_that_do_not_broadcast_are_refused() {
    on_each_device(|_| {
        let a = array(&[1.0; 6], &[2, 3], Dtype::Float32);
        let b = array(&[1.0; 4], &[2, 2], Dtype::Float32);
        let error = ops::add(&a, &b).unwrap_err().to_string();
        assert_eq!(error, "[add] Shapes [2, 3] and [2, 2] cannot be broadcast.");
    });
}
