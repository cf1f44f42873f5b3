//! Softmax and the logarithm of sums of exponentials.

use mlx::{Array, Dtype, ops};
use mlx_tests::{
    Approx, Layout, array, assert_approx, axes_of, dtypes_of, epsilon, filled, groups, keeping,
    noise, on_each_device, sum_epsilon, values,
};

/// Axes to take the exponentials' sum over.
const AXES: [&[isize]; 5] = [&[-1], &[0], &[1], &[0, 2], &[]];

/// The softmax of some numbers that is computed in units of `unit`.
///
/// An exponent is rounded in proportion to its distance from the maximum, twice: when the
/// maximum is taken off and when it becomes a power of two. The sum has its terms' errors, in
/// proportion to their share, and rounds with each term. The rest are a few elementary
/// operations. What lies below the normal range may be flushed to zero.
fn softmax(x: &[f64], unit: f64) -> Vec<Approx> {
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = x.iter().map(|x| (x - top).exp()).collect();
    let sum: f64 = powers.iter().sum();
    let distance = |x: f64| if x == f64::NEG_INFINITY { 0.0 } else { top - x };
    let common: f64 = x.iter().zip(&powers).map(|(&x, p)| distance(x) * p / sum).sum();
    let error = |x: f64| unit * (2.0 * (distance(x) + common) + powers.len() as f64 + 8.0);
    x.iter()
        .zip(&powers)
        .map(|(&x, p)| Approx {
            value: p / sum,
            error: error(x) * p / sum + f32::MIN_POSITIVE as f64,
        })
        .collect()
}

/// The logarithm of the sum of exponentials of some numbers, computed in units of `unit`: the
/// relative error of the sum, as above, is an absolute one of its logarithm, to which the rounded
/// maximum, logarithm and sum of both are added.
fn log_sum_exp(x: &[f64], unit: f64) -> Approx {
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if x.iter().any(|x| x.is_nan()) || top.is_infinite() {
        return Approx::exact(if x.iter().any(|x| x.is_nan()) { f64::NAN } else { top });
    }
    let value = top + x.iter().map(|x| (x - top).exp()).sum::<f64>().ln();
    // A term has the largest error where distance · exp(-distance) is largest, at 1/e.
    let terms = x.len() as f64;
    Approx { value, error: unit * (2.0 * terms + 8.0 + 2.0 * (top.abs() + value.abs())) }
}

/// Checks softmax and logsumexp of an array over axes.
fn check(context: &str, a: &Array, axes: &[isize]) {
    let dtype = a.dtype();
    let x = values(a);
    let normal = axes_of(axes, a.ndim());
    let (kept, groups) = groups(a.shape(), &normal);
    let of = |g: &Vec<usize>| g.iter().map(|&i| x[i]).collect::<Vec<_>>();
    let context = format!("{context} {:?} {dtype} over {axes:?}", a.shape());
    let (precise, fast, logs) = keeping(&context, &[a], || {
        let precise = ops::softmax(a, axes, true).unwrap();
        let fast = ops::softmax(a, axes, false).unwrap();
        let logs = ops::logsumexp(a, axes, true).unwrap();
        mlx::eval(&[&precise, &fast, &logs]).expect(&context);
        (precise, fast, logs)
    });
    // Without `precise`, halves may be added up as halves.
    for (got, unit) in
        [(precise, sum_epsilon(dtype)), (fast, sum_epsilon(dtype).max(epsilon(dtype)))]
    {
        assert_eq!((got.shape(), got.dtype()), (a.shape(), dtype), "{context}");
        let mut want = vec![Approx::exact(0.0); x.len()];
        for group in &groups {
            let row = softmax(&of(group), unit);
            group.iter().zip(row).for_each(|(&i, value)| want[i] = value);
        }
        assert_approx(&format!("softmax {context}"), &got, &want);
    }
    // Only the last axis has a kernel of its own; over others each step is rounded to the dtype.
    let fused = normal == [a.ndim() - 1];
    let unit = if fused { sum_epsilon(dtype) } else { sum_epsilon(dtype).max(epsilon(dtype)) };
    assert_eq!((logs.shape(), logs.dtype()), (kept.as_slice(), dtype), "{context}");
    let want: Vec<Approx> = groups.iter().map(|g| log_sum_exp(&of(g), unit)).collect();
    assert_approx(&format!("logsumexp {context}"), &logs, &want);
    let squeezed = ops::logsumexp(a, axes, false).unwrap();
    assert_eq!((squeezed.ndim(), values(&squeezed)), (a.ndim() - normal.len(), values(&logs)));
}

#[test]
fn every_dtype_layout_and_axis_matches_float64() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            for layout in Layout::VIEWS {
                let a = layout.array(dtype, noise(1, -8.0, 8.0));
                for axes in AXES {
                    check(&format!("{layout:?} on {device}"), &a, axes);
                }
            }
        }
    });
}

/// Row lengths around what threads, workgroups and passes take at a time.
#[test]
fn lengths_around_blocks() {
    on_each_device(|device| {
        for n in [1, 2, 31, 33, 255, 257, 1023, 1025, 4097, 9000] {
            for dtype in [Dtype::Float32, Dtype::Float16] {
                let a = filled(&[2, n], dtype, noise(n as u64, -9.0, 9.0));
                check(&format!("rows on {device}"), &a, &[1]);
                let a = Layout::Sliced.view(&[2, n], |s| filled(s, dtype, noise(4, -9.0, 9.0)));
                check(&format!("slices on {device}"), &a, &[1]);
            }
        }
    });
}

/// Rows that several workgroups and cores share. The bound takes rows as sums of partial sums.
#[test]
fn long_rows() {
    on_each_device(|device| {
        for n in [20_000, 100_000] {
            let a = filled(&[1, n], Dtype::Float32, noise(n as u64, -20.0, 20.0));
            let x = values(&a);
            let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = x.iter().map(|x| (x - top).exp()).sum();
            let got = values(&ops::softmax(&a, &[1], true).unwrap());
            for (i, (x, got)) in x.iter().zip(got).enumerate() {
                let want = (x - top).exp() / sum;
                let bound = 4e-6 * want + f64::from(f32::MIN_POSITIVE);
                assert!(
                    (got - want).abs() <= bound,
                    "{i} of {n} on {device}: {got:e}, not {want:e}"
                );
            }
            let got = values(&ops::logsumexp(&a, &[1], false).unwrap())[0];
            assert!((got - top - sum.ln()).abs() <= 1e-5, "{n} on {device}: {got}");
        }
    });
}

/// Over axes of one element and the last one, the sum is that of a row, to the last bit.
#[test]
fn axes_of_one_element_add_nothing() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            let a = filled(&[1, 3, 1, 700], dtype, noise(3, -8.0, 8.0));
            for (axes, shape) in [(&[-1isize, -2][..], [1, 3]), (&[0, 2, 3], [3, 1])] {
                let rows = ops::logsumexp(&a, &[-1], false).unwrap();
                let sums = ops::logsumexp(&a, axes, false).unwrap();
                assert_eq!(sums.shape(), &shape[..sums.ndim()], "{axes:?}");
                assert_eq!(values(&sums), values(&rows), "{axes:?} {dtype} on {device}");
            }
        }
    });
}

/// What would overflow if the maximum were not taken off first.
#[test]
fn large_numbers_do_not_overflow() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            for top in [100.0, 60_000.0] {
                let row: Vec<f64> = (0..40).map(|i| top - (i * i) as f64).collect();
                for sign in [1.0, -1.0] {
                    let x: Vec<f64> = row.iter().map(|x| sign * x).collect();
                    check(&format!("around {top} on {device}"), &array(&x, &[1, 40], dtype), &[1]);
                }
            }
        }
        let a = array(&[3e38, 2.9e38, -3e38], &[1, 3], Dtype::Float32);
        let got = ops::softmax(&a, &[1], true).unwrap();
        assert_eq!(values(&got), [1.0, 0.0, 0.0], "{device}");
        assert_eq!(values(&ops::logsumexp(&a, &[1], false).unwrap()), [3e38f32 as f64], "{device}");
    });
}

/// A row of negative infinities has no softmax, and its sum is zero; one positive infinity makes
/// the sum infinite.
#[test]
fn infinities_and_nan_in_a_row() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            for n in [5, 300, 5000, 50_000] {
                let with = |rest: f64, at: usize, x: f64| {
                    let row: Vec<f64> = (0..n).map(|i| if i == at { x } else { rest }).collect();
                    array(&row, &[n], dtype)
                };
                let what = format!("{n} {dtype} on {device}");
                for (a, sum) in [
                    (with(-inf, 0, -inf), -inf),
                    (with(1.0, n / 2, inf), inf),
                    (with(1.0, n - 1, nan), nan),
                    (with(-inf, 1, nan), nan),
                ] {
                    let soft = values(&ops::softmax(&a, &[0], true).unwrap());
                    assert!(soft.iter().all(|x| x.is_nan()), "{what}: {sum} gives {:?}", soft[0]);
                    let got = ops::logsumexp(&a, &[0], false).unwrap();
                    assert_approx(&what, &got, &[Approx::exact(sum)]);
                }
                // A mask hides all but one, or one of many.
                check(&format!("one seen on {device}"), &with(-inf, n - 1, 3.0), &[0]);
                check(&format!("one hidden on {device}"), &with(0.25, 1, -inf), &[0]);
            }
        }
    });
}

#[test]
fn other_dtypes_become_float32_and_nothing_stays_nothing() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| !d.is_inexact()) {
            let a = array(&[0.0, 1.0, 1.0, 0.0, 1.0], &[5], dtype);
            let got = ops::softmax(&a, &[0], true).unwrap();
            assert_eq!(got.dtype(), Dtype::Float32);
            let unit = sum_epsilon(Dtype::Float32);
            assert_approx(&format!("{dtype} on {device}"), &got, &softmax(&values(&a), unit));
            let sum = ops::logsumexp(&a, &[0], false).unwrap();
            assert_approx(&format!("{dtype} on {device}"), &sum, &[log_sum_exp(&values(&a), unit)]);
        }
        let none = Layout::Empty.array(Dtype::Float32, |_| 0.0);
        assert_eq!(ops::softmax(&none, &[-1], true).unwrap().size(), 0);
        assert!(ops::logsumexp(&none, &[-1], false).is_err(), "as in MLX");
        let scalar = array(&[3.0], &[], Dtype::Float32);
        assert_eq!(values(&ops::softmax(&scalar, &[], true).unwrap()), [1.0]);
        assert_eq!(values(&ops::logsumexp(&scalar, &[], false).unwrap()), [3.0]);
    });
}
