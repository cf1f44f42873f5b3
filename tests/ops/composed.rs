//! Functions that are made of others.

use mlx::{Array, Dtype, ops};
use mlx_tests::{
    Approx, Layout, array, assert_approx, axes_of, dtypes_of, epsilon, filled, groups, integers,
    noise, on_each_device, rounded, scattered, sum_epsilon, values,
};

const AXES: [&[isize]; 5] = [&[], &[0], &[-1], &[0, 2], &[2, 1]];

/// Calls `test` with every real dtype and layout, and axes with the groups of places that they join.
fn each_reduction(
    value: impl Fn(usize) -> f64 + Copy,
    mut test: impl FnMut(&str, &Array, &[isize], &[Vec<f64>]),
) {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| *d != Dtype::Complex64) {
            for (layout, axes) in Layout::VIEWS.into_iter().zip(AXES) {
                let a = layout.array(dtype, value);
                let (_, places) = groups(a.shape(), &axes_of(axes, 3));
                let x = values(&a);
                let rows: Vec<Vec<f64>> =
                    places.iter().map(|row| row.iter().map(|&i| x[i]).collect()).collect();
                test(&format!("{dtype} {layout:?} {axes:?} on {device}"), &a, axes, &rows);
            }
        }
    });
}

#[test]
fn medians_are_in_the_middle() {
    each_reduction(
        |i| (scattered(i, 1) % 40) as f64,
        |what, a, axes, rows| {
            let dtype = a.dtype().at_least_float();
            let want = rows.iter().map(|row| {
                let mut row = row.clone();
                row.sort_by(f64::total_cmp);
                let n = row.len();
                let pair = rounded(row[n / 2] + row[(n - 1) / 2], dtype);
                if n % 2 == 1 { row[n / 2] } else { rounded(0.5 * pair, dtype) }
            });
            let want: Vec<f64> = want.collect();
            let got = ops::median(a, axes, false).unwrap();
            assert_eq!((got.dtype(), values(&got)), (dtype, want.clone()), "{what}");
            let kept = ops::median(a, axes, true).unwrap();
            let reduced = axes_of(axes, 3);
            let size = |x: usize| if reduced.contains(&x) { 1 } else { a.shape()[x] };
            assert_eq!(
                (kept.shape(), values(&kept)),
                (&[size(0), size(1), size(2)][..], want),
                "{what}"
            );
        },
    );
    on_each_device(|device| {
        let a = array(&[1.0, f64::NAN, 3.0, 4.0, 5.0, 6.0], &[2, 3], Dtype::Float32);
        let got = values(&ops::median(&a, &[1], false).unwrap());
        assert!(got[0].is_nan() && got[1] == 5.0, "{got:?} on {device}");
        assert_eq!(values(&ops::median(&Array::scalar(3i32).unwrap(), &[], false).unwrap()), [3.0]);
        let empty = array(&[], &[0], Dtype::Float32);
        let error = ops::median(&empty, &[], false).unwrap_err().to_string();
        assert_eq!(error, "[median] Cannot take median along empty axis.");
        assert!(ops::median(&a, &[2], false).is_err());
    });
}

#[test]
fn counts_extremes_and_deviations() {
    each_reduction(
        |i| (scattered(i, 2) % 5) as f64,
        |what, a, axes, rows| {
            let count = ops::count_nonzero(a, axes, false).unwrap();
            let want: Vec<i128> =
                rows.iter().map(|row| row.iter().filter(|x| **x != 0.0).count() as i128).collect();
            assert_eq!((count.dtype(), integers(&count)), (Dtype::Int32, want), "{what}");
            let (low, high) = ops::minmax(a, axes, false).unwrap();
            let fold = |f: fn(f64, f64) -> f64| -> Vec<f64> {
                rows.iter().map(|row| row.iter().copied().reduce(f).unwrap()).collect()
            };
            assert_eq!((values(&low), values(&high)), (fold(f64::min), fold(f64::max)), "{what}");
            let dtype = a.dtype().at_least_float();
            let got = ops::std(a, axes, false, 1).unwrap();
            let want: Vec<Approx> = rows
                .iter()
                .map(|row| {
                    let n = row.len() as f64;
                    let mean = row.iter().sum::<f64>() / n;
                    let squares = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
                    let value = (squares / (n - 1.0)).sqrt();
                    // The mean is rounded to the dtype, and so is every step behind it.
                    Approx { value, error: 16.0 * (epsilon(dtype) + n * sum_epsilon(dtype)) }
                })
                .collect();
            assert_eq!(got.dtype(), dtype, "{what}");
            assert_approx(what, &got, &want);
        },
    );
}

#[test]
fn differences_of_neighbours() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| *d != Dtype::Bool) {
            let a = Layout::Transposed.array(dtype, |i| (i * i % 50) as f64);
            let x = values(&a);
            let at = |i: usize, j: usize, k: usize| x[20 * i + 5 * j + k];
            let got = ops::diff(&a, 1, 1).unwrap();
            assert_eq!((got.shape(), got.dtype()), (&[3, 3, 5][..], dtype));
            let order = (0..45).map(|p| (p / 15, p / 5 % 3, p % 5));
            let exact = |x: f64| {
                if dtype.is_inexact() { x } else { mlx_tests::wrapped(x as i128, dtype) as f64 }
            };
            let want: Vec<f64> =
                order.map(|(i, j, k)| exact(at(i, j + 1, k) - at(i, j, k))).collect();
            assert_eq!(values(&got), want, "{dtype} on {device}");
        }
        let a = array(&[1.0, 4.0, 9.0, 16.0], &[4], Dtype::Float32);
        let times = |n| values(&ops::diff(&a, n, -1).unwrap());
        assert_eq!((times(0).len(), times(2), times(3)), (4, vec![2.0, 2.0], vec![0.0]));
        assert!(times(4).is_empty() && times(9).is_empty() && ops::diff(&a, 1, 1).is_err());
        let bools = array(&[1.0, 0.0, 0.0], &[3], Dtype::Bool);
        assert_eq!(ops::diff(&bools, 1, 0).unwrap().dtype(), Dtype::Bool);
    });
}

#[test]
fn truncation_and_exclusive_or() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| *d != Dtype::Complex64) {
            let a = Layout::Sliced.array(dtype, noise(1, -9.0, 9.0));
            let got = ops::trunc(&a).unwrap();
            let want: Vec<f64> = values(&a).into_iter().map(f64::trunc).collect();
            assert_eq!((got.dtype(), values(&got)), (dtype, want), "{dtype} on {device}");
            assert_eq!(values(&ops::positive(&a).unwrap()), values(&a));
            let b = filled(&[5], dtype, |i| (i % 2) as f64);
            let got = ops::logical_xor(&a, &b).unwrap();
            let (x, y) = (values(&a), values(&b));
            let want: Vec<f64> = x
                .iter()
                .enumerate()
                .map(|(i, x)| f64::from((*x != 0.0) != (y[i % 5] != 0.0)))
                .collect();
            assert_eq!((got.dtype(), values(&got)), (Dtype::Bool, want), "{dtype} on {device}");
        }
        let special = array(&[f64::NAN, f64::NEG_INFINITY, -0.5], &[3], Dtype::Float32);
        let got = values(&ops::trunc(&special).unwrap());
        assert!(got[0].is_nan() && got[1] == f64::NEG_INFINITY && got[2] == 0.0);
        assert!(ops::trunc(&ops::zeros(&[1], Dtype::Complex64).unwrap()).is_err());
    });
}

#[test]
fn nan_becomes_a_number() {
    on_each_device(|device| {
        let x = [f64::NAN, 1.0, f64::INFINITY, f64::NEG_INFINITY];
        for (dtype, largest) in [
            (Dtype::Float16, 65504.0),
            (Dtype::Bfloat16, f64::from(mlx::bf16::MAX)),
            (Dtype::Float32, f64::from(f32::MAX)),
        ] {
            let a = array(&x, &[4], dtype);
            let got = ops::nan_to_num(&a, 0.0, None, None).unwrap();
            assert_eq!((got.dtype(), values(&got)), (dtype, vec![0.0, 1.0, largest, -largest]));
            let got = ops::nan_to_num(&a, 2.0, Some(3.0), Some(4.0)).unwrap();
            assert_eq!(values(&got), [2.0, 1.0, 3.0, 4.0], "{dtype} on {device}");
        }
        let whole = array(&[3.0], &[1], Dtype::Int8);
        assert_eq!(integers(&ops::nan_to_num(&whole, 0.0, None, None).unwrap()), [3]);
        let z = ops::zeros(&[1], Dtype::Complex64).unwrap();
        assert!(ops::nan_to_num(&z, 0.0, None, None).is_err());
    });
}

#[test]
fn arrays_of_one_value_and_open_ranges() {
    on_each_device(|device| {
        let a = Layout::Transposed.array(Dtype::Int16, |i| i as f64);
        let got = ops::full_like(&a, 2.7f32, None).unwrap();
        assert_eq!((got.shape(), got.dtype()), (a.shape(), Dtype::Int16));
        assert_eq!(integers(&got), [2; 60], "{device}");
        let row = array(&[1.0, 2.0, 3.0, 4.0, 5.0], &[5], Dtype::Float32);
        let got = ops::full_like(&a, &row, Some(Dtype::Float16)).unwrap();
        assert_eq!((got.dtype(), &values(&got)[3..7]), (Dtype::Float16, &[4.0, 5.0, 1.0, 2.0][..]));
        let open = ops::linspace(0.0, 1.0, 4, false, Dtype::Float32).unwrap();
        assert_eq!(values(&open), [0.0, 0.25, 0.5, 0.75], "{device}");
        assert_eq!(ops::linspace(0.0, 1.0, 0, true, Dtype::Float32).unwrap().size(), 0);
    });
}
