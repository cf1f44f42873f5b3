//! Elementwise functions of two arrays, comparisons and selection.

use mlx::{Array, Complex, Dtype, Result, ops};
use mlx_tests::{
    Host, Layout, array, assert_ulps, dtypes_of, filled, indices, integers, noise, on_each_device,
    random_bits, values, wrapped,
};

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

/// The remainder that has the divisor's sign; that of a truncated quotient is exact.
fn modulo(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
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

/// Third powers, which have a way of their own, in and out of its range.
#[test]
fn cubes() {
    let x = |i: usize| (1.0 + (i % 61) as f64 / 61.0) * 2f64.powi((i / 61) as i32 - 41);
    on_each_device(|device| {
        for sign in [1.0, -1.0] {
            let a = filled(&[83 * 61], Dtype::Float32, |i| sign * x(i));
            let want: Vec<f64> = values(&a).into_iter().map(|x| x.powi(3)).collect();
            let got = ops::power(&a, 3.0f32).unwrap();
            assert_ulps(&format!("cubes on {device}"), &got, &want, 1.0);
        }
        let zero = values(&ops::power(array(&[-0.0], &[1], Dtype::Float32), 3.0f32).unwrap());
        assert!(zero[0] == 0.0 && zero[0].is_sign_negative(), "{device}");
    });
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
fn operands_of_either_sign_match_float64() {
    let functions = functions! {
        add: |a, b| a + b;
        subtract: |a, b| a - b;
        multiply: |a, b| a * b;
        divide: |a, b| a / b;
        maximum: f64::max;
        minimum: f64::min;
        remainder: modulo;
        floor_divide: |a, b| (a / b).floor();
        arctan2: f64::atan2;
    };
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            let tolerance = if dtype.size() == 2 { 0.51 } else { 4.0 };
            let a = filled(&[12, 25], dtype, noise(1, -6.0, 6.0));
            let b = filled(&[12, 25], dtype, noise(2, -5.0, 5.0));
            for (name, function, oracle) in functions.clone() {
                let want: Vec<f64> =
                    values(&a).into_iter().zip(values(&b)).map(|(a, b)| oracle(a, b)).collect();
                let got = function(&a, &b).unwrap();
                assert_ulps(&format!("{name} {dtype} on {device}"), &got, &want, tolerance);
            }
        }
    });
}

/// Rows, columns, scalars and an outer product, on either side, of more elements than a workgroup has.
#[test]
fn rows_columns_and_scalars_broadcast() {
    on_each_device(|device| {
        for dtype in [Dtype::Float32, Dtype::Int16] {
            let of = |shape: &[usize], seed| filled(shape, dtype, noise(seed, -90.0, 90.0));
            let (all, row, column) = (of(&[6, 700], 1), of(&[700], 2), of(&[6, 1], 3));
            let one = of(&[], 4);
            for (a, b) in [(&all, &row), (&all, &column), (&all, &one), (&column, &row)] {
                for (a, b) in [(a, b), (b, a)] {
                    let (x, y) = (Host::of(a), Host::of(b));
                    let want: Vec<f64> = indices(&[6, 700]).map(|i| x.at(&i) - y.at(&i)).collect();
                    let got = ops::subtract(a, b).unwrap();
                    let what = format!("{:?} - {:?} {dtype} on {device}", a.shape(), b.shape());
                    assert_eq!(got.shape(), [6, 700], "{what}");
                    assert_ulps(&what, &got, &want, 0.5);
                }
            }
        }
    });
}

/// Operands whose last axis is walked by fours: broadcast in the middle, turned around, backwards, and parts
/// of rows that begin at a multiple of four or elsewhere.
#[test]
fn fours_of_the_last_axis() {
    const SHAPE: [usize; 3] = [6, 5, 8];
    on_each_device(|device| {
        for dtype in [Dtype::Float32, Dtype::Bfloat16, Dtype::Int16, Dtype::Uint8] {
            let of = |shape: &[usize], seed| filled(shape, dtype, noise(seed, 1.0, 90.0));
            let part = |first: isize| {
                ops::slice(&of(&[6, 5, 16], 3), &[0, 0, first], &[6, 5, first + 8], &[1, 1, 1])
            };
            let backwards = ops::slice(&of(&SHAPE, 4), &[-1, 0, 0], &[-7, 5, 8], &[-1, 1, 1]);
            let operands = [
                of(&[6, 1, 8], 1),
                of(&[5, 1], 2),
                ops::transpose(&of(&[5, 6, 8], 5), &[1, 0, 2]).unwrap(),
                part(4).unwrap(),
                part(3).unwrap(),
                backwards.unwrap(),
                of(&SHAPE, 6),
            ];
            for (i, a) in operands.iter().enumerate() {
                for (j, b) in operands.iter().enumerate().filter(|&(j, _)| i.max(j) > 1) {
                    let (x, y) = (Host::of(a), Host::of(b));
                    let want: Vec<f64> =
                        indices(&SHAPE).map(|at| x.at(&at).max(y.at(&at))).collect();
                    let got = ops::maximum(a, b).unwrap();
                    assert_ulps(&format!("{i} and {j}, {dtype} on {device}"), &got, &want, 0.0);
                    let less: Vec<f64> =
                        indices(&SHAPE).map(|at| f64::from(x.at(&at) < y.at(&at))).collect();
                    assert_eq!(
                        values(&ops::less(a, b).unwrap()),
                        less,
                        "{i} < {j}, {dtype} on {device}"
                    );
                }
                if dtype.is_floating() {
                    let whole = ops::broadcast_to(a, &SHAPE).unwrap();
                    let want: Vec<f64> = values(&whole).iter().map(|x| -x).collect();
                    assert_eq!(
                        values(&ops::negative(&whole).unwrap()),
                        want,
                        "-{i}, {dtype} on {device}"
                    );
                }
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
            // Division by zero, shifts by more bits than there are and negative powers give some
            // number, not a crash.
            let a = array(&[-128.0, -1.0, 0.0, 1.0, 127.0], &[5, 1], dtype);
            let b = array(&[-1.0, 0.0, 1.0, 64.0, 100.0], &[5], dtype);
            let functions: [Function; 5] = [
                |a, b| ops::floor_divide(a, b),
                |a, b| ops::remainder(a, b),
                |a, b| ops::left_shift(a, b),
                |a, b| ops::right_shift(a, b),
                |a, b| ops::power(a, b),
            ];
            for function in functions {
                function(&a, &b).unwrap().eval().unwrap();
            }
        }
        let by = Array::from_slice(&[-1, 0, 2], &[3]).unwrap();
        assert_eq!(values(&ops::power(&by, &by).unwrap()), [0.0, 1.0, 4.0], "{device}");
    });
}

/// The quotient that is rounded down.
fn floor_quotient(a: i128, b: i128) -> i128 {
    a / b - i128::from(a % b != 0 && (a < 0) != (b < 0))
}

/// Integers of any bits, against integers of 128.
#[test]
fn integers_of_the_whole_range_wrap() {
    type Fold = fn(i128, i128) -> i128;
    let functions: [(&str, Function, Fold); 10] = [
        ("add", |a, b| ops::add(a, b), |a, b| a + b),
        ("subtract", |a, b| ops::subtract(a, b), |a, b| a - b),
        ("multiply", |a, b| ops::multiply(a, b), i128::wrapping_mul),
        ("maximum", |a, b| ops::maximum(a, b), i128::max),
        ("minimum", |a, b| ops::minimum(a, b), i128::min),
        ("remainder", |a, b| ops::remainder(a, b), |a, b| a - b * floor_quotient(a, b)),
        ("floor_divide", |a, b| ops::floor_divide(a, b), floor_quotient),
        ("bitwise_and", |a, b| ops::bitwise_and(a, b), |a, b| a & b),
        ("bitwise_or", |a, b| ops::bitwise_or(a, b), |a, b| a | b),
        ("bitwise_xor", |a, b| ops::bitwise_xor(a, b), |a, b| a ^ b),
    ];
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_integer()) {
            // The least integer by -1 as well, whose quotient is out of range.
            let least = if dtype.is_signed_integer() { 1i128 << (8 * dtype.size() - 1) } else { 0 };
            let edge = array(&[-(least as f64)], &[1], dtype);
            let a = ops::concatenate(&[&random_bits(&[300], dtype, 1), &edge], 0).unwrap();
            let b = random_bits(&[300], dtype, 2);
            let b = ops::where_(&ops::equal(&b, 0).unwrap(), 3, &b).unwrap();
            let b = ops::concatenate(&[&b, &array(&[-1.0], &[1], dtype)], 0).unwrap();
            let pairs: Vec<(i128, i128)> = integers(&a).into_iter().zip(integers(&b)).collect();
            for (name, function, oracle) in functions {
                let want: Vec<i128> =
                    pairs.iter().map(|&(a, b)| wrapped(oracle(a, b), dtype)).collect();
                let got = integers(&function(&a, &b).unwrap());
                assert_eq!(got, want, "{name} {dtype} on {device}");
            }
        }
    });
}

#[test]
fn bools_add_multiply_and_exclude() {
    on_each_device(|device| {
        let a = array(&[0.0, 0.0, 1.0, 1.0], &[4], Dtype::Bool);
        let b = array(&[0.0, 1.0, 0.0, 1.0], &[4], Dtype::Bool);
        assert_eq!(values(&ops::add(&a, &b).unwrap()), [0.0, 1.0, 1.0, 1.0], "{device}");
        assert_eq!(values(&ops::multiply(&a, &b).unwrap()), [0.0, 0.0, 0.0, 1.0], "{device}");
        assert_eq!(values(&ops::bitwise_xor(&a, &b).unwrap()), [0.0, 1.0, 1.0, 0.0], "{device}");
    });
}

/// Complex numbers are ordered by their real parts first.
#[test]
fn complex_numbers_of_two_arrays() {
    on_each_device(|device| {
        let (x, y) = (Complex::new(1.0, 2.0), Complex::new(1.0, 3.0));
        let a = Array::from_slice(&[x, y], &[2]).unwrap();
        let b = Array::from_slice(&[y, x], &[2]).unwrap();
        let of = |a: Result<Array>| a.unwrap().to_vec::<Complex>().unwrap();
        assert_eq!(of(ops::maximum(&a, &b)), [y, y], "{device}");
        assert_eq!(of(ops::minimum(&a, &b)), [x, x], "{device}");
        assert_eq!(of(ops::multiply(&a, &b)), [x * y, x * y], "{device}");
        assert_eq!(values(&ops::less(&a, &b).unwrap()), [1.0, 0.0], "{device}");
        assert!((of(ops::divide(&a, &b))[0] - x / y).norm() < 1e-6, "{device}");
        assert!((of(ops::power(&a, &b))[0] - x.powc(y)).norm() < 1e-6, "{device}");
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
        // An integer that the dtype has not is refused, as upstream refuses Python's.
        let beside = |value: u32, dtype| ops::add(array(&[1.0], &[1], dtype), value);
        let refused = |value: u32, dtype: Dtype| {
            let message =
                format!("[array] Converting {value} to {dtype} would result in overflow.");
            assert_eq!(beside(value, dtype).unwrap_err().to_string(), message);
        };
        assert_eq!(integers(&beside(1 << 31, Dtype::Uint32).unwrap()), [(1 << 31) + 1]);
        assert_eq!(integers(&beside((1 << 31) - 2, Dtype::Int32).unwrap()), [(1 << 31) - 1]);
        assert_eq!(integers(&beside(u32::MAX, Dtype::Int64).unwrap()), [1 << 32]);
        assert_eq!(values(&beside(1 << 31, Dtype::Float32).unwrap()), [2f64.powi(31)]);
        refused(1 << 31, Dtype::Int32);
        refused(256, Dtype::Uint8);
        refused(128, Dtype::Int8);
        // Beside booleans it is an int32, to which it wraps; by itself an int64 where it must be.
        assert_eq!(integers(&beside(1 << 31, Dtype::Bool).unwrap()), [1 - (1 << 31)]);
        let alone = ops::where_(&array(&[1.0], &[1], Dtype::Bool), 1u32 << 31, 0).unwrap();
        assert_eq!((alone.dtype(), integers(&alone)), (Dtype::Int64, vec![1 << 31]));
        let wide = array(&[1.0], &[1], Dtype::Uint64);
        assert_eq!(integers(&ops::add(&wide, -1).unwrap()), [0], "64 bits wrap");
        assert!(ops::add(array(&[1.0], &[1], Dtype::Uint8), -1).is_err());
        assert_eq!(integers(&ops::add(&int, -128).unwrap()), [-127]);
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
        let same = |nan| values(&ops::array_equal(&a, &a, nan).unwrap());
        assert_eq!((same(true), same(false)), (vec![1.0], vec![0.0]), "{device}");
    });
}

#[test]
fn infinite_logarithms_are_added() {
    let inf = f64::INFINITY;
    on_each_device(|device| {
        let a = array(&[inf, -inf, inf, f64::NAN, 1.0], &[5], Dtype::Float32);
        let b = array(&[1.0, -inf, -inf, 1.0, f64::NAN], &[5], Dtype::Float32);
        let got = values(&ops::logaddexp(&a, &b).unwrap());
        assert_eq!(got[..3], [inf, -inf, inf], "{device}");
        assert!(got[3].is_nan() && got[4].is_nan(), "{device}");
    });
}

/// Each operand in a layout of its own, and broadcast.
#[test]
fn where_selects_from_every_layout() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for (i, layout) in Layout::VIEWS.into_iter().enumerate() {
                let other = Layout::VIEWS[(i + 2) % 5];
                let condition = layout.array(Dtype::Bool, |i| (i % 3 == 0) as u8 as f64);
                let a = other.array(dtype, |i| (i % 100) as f64);
                let row = array(&[1.0, 0.0, 1.0, 0.0, 1.0], &[5], dtype);
                let (c, x, y) = (Host::of(&condition), Host::of(&a), Host::of(&row));
                let pick = |i: &Vec<usize>| if c.at(i) != 0.0 { x.at(i) } else { y.at(i) };
                let want: Vec<f64> = indices(&[3, 4, 5]).map(|i| pick(&i)).collect();
                let got = ops::where_(&condition, &a, &row).unwrap();
                assert_eq!(values(&got), want, "{dtype} {layout:?} {other:?} on {device}");
            }
        }
        let condition = array(&[1.0, 0.0], &[2, 1], Dtype::Bool);
        let row = array(&[2.0, 3.0], &[2], Dtype::Float32);
        let got = ops::where_(&condition, 1.0f32, &row).unwrap();
        assert_eq!((got.shape(), values(&got)), (&[2, 2][..], vec![1.0, 1.0, 2.0, 3.0]));
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
fn shapes_that_do_not_broadcast_are_refused() {
    on_each_device(|_| {
        let a = array(&[1.0; 6], &[2, 3], Dtype::Float32);
        let b = array(&[1.0; 4], &[2, 2], Dtype::Float32);
        let error = ops::add(&a, &b).unwrap_err().to_string();
        assert_eq!(error, "[add] Shapes [2, 3] and [2, 2] cannot be broadcast.");
    });
}
