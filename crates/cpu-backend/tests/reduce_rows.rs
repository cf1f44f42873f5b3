//! Scans and softmax against float64.

mod common;

use common::*;
use mlx_vulkan_core::{Array, Dtype, Result, ops};

type Scan = fn(&Array, Option<isize>, bool, bool) -> Result<Array>;

/// Name, function, its float64 oracle and the oracle's start.
type Case = (&'static str, Scan, fn(f64, f64) -> f64, f64);

const SCANS: &[Case] = &[
    (
        "cumsum",
        |a, axis, reverse, inclusive| ops::cumsum(a, axis, reverse, inclusive, None),
        |a, b| a + b,
        0.0,
    ),
    (
        "cumprod",
        |a, axis, reverse, inclusive| ops::cumprod(a, axis, reverse, inclusive, None),
        |a, b| a * b,
        1.0,
    ),
    ("cummax", ops::cummax, f64::max, f64::NEG_INFINITY),
    ("cummin", ops::cummin, f64::min, f64::INFINITY),
    ("logcumsumexp", ops::logcumsumexp, |a, b| (a.exp() + b.exp()).ln(), f64::NEG_INFINITY),
];

/// Scans row-major values along an axis.
fn scanned(
    values: &[f64],
    shape: &[usize],
    axis: usize,
    reverse: bool,
    inclusive: bool,
    f: fn(f64, f64) -> f64,
    first: f64,
) -> Vec<f64> {
    let mut out = vec![0.0; values.len()];
    let n = shape[axis];
    for (i, total) in out.iter_mut().enumerate() {
        let mut index = index_of(i, shape);
        let place = index[axis];
        let wanted: Vec<usize> = match (reverse, inclusive) {
            (false, true) => (0..=place).collect(),
            (false, false) => (0..place).collect(),
            (true, true) => (place..n).rev().collect(),
            (true, false) => (place + 1..n).rev().collect(),
        };
        *total = wanted.into_iter().fold(first, |total, j| {
            index[axis] = j;
            f(total, values[number_of(&index, shape)])
        });
    }
    out
}

#[test]
fn scans_along_every_axis() {
    let shape = [3, 4, 5];
    on_cpu(|| {
        for &(name, scan, f, first) in SCANS {
            for dtype in FLOATS {
                let values = stored(&sequence(60, 0.6, 1.4), dtype);
                for (layout, a) in layouts(&values, &shape, dtype) {
                    for (axis, flags) in (0..3).flat_map(|x| (0..4).map(move |f| (x, f))) {
                        let (reverse, inclusive) = (flags & 1 == 1, flags & 2 == 2);
                        let want = scanned(&values, &shape, axis, reverse, inclusive, f, first);
                        let got = scan(&a, Some(axis as isize), reverse, inclusive).unwrap();
                        let what = format!("{name} {dtype} {layout} {axis} {reverse} {inclusive}");
                        assert_near(&got, &want, 1.0, &what);
                    }
                }
            }
        }
        for dtype in INTS {
            let a = array(&[3.0, 1.0, 2.0], &[3], dtype);
            assert_same(
                &ops::cumsum(&a, Some(0), false, true, None).unwrap(),
                &[3.0, 4.0, 6.0],
                "sum",
            );
            assert_same(
                &ops::cumprod(&a, Some(0), true, true, None).unwrap(),
                &[6.0, 2.0, 2.0],
                "prod",
            );
            assert_same(&ops::cummax(&a, Some(0), false, true).unwrap(), &[3.0; 3], "max");
        }
        let long = array(&sequence(100_000, -1.0, 1.0), &[2, 50_000], Dtype::Float32);
        let want = scanned_rows(&read(&long), 50_000);
        assert_near(&ops::cumsum(&long, Some(1), false, true, None).unwrap(), &want, 1.0, "long");
    });
}

fn scanned_rows(values: &[f64], n: usize) -> Vec<f64> {
    let rows = values.chunks(n);
    rows.flat_map(|row| {
        row.iter().scan(0.0, |sum, x| {
            *sum += x;
            Some(*sum)
        })
    })
    .collect()
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
    row.iter().map(|x| (x - max).exp() / sum).collect()
}

#[test]
fn softmax_of_rows() {
    on_cpu(|| {
        for dtype in FLOATS {
            for shape in [[3, 40], [2, 5000], [400, 7]] {
                let values = stored(&sequence(shape[0] * shape[1], -8.0, 8.0), dtype);
                let rows = || values.chunks(shape[1]);
                let want: Vec<f64> = rows().flat_map(softmax).collect();
                let logs: Vec<f64> =
                    rows().map(|r| r.iter().map(|x| x.exp()).sum::<f64>().ln()).collect();
                for (layout, a) in layouts(&values, &shape, dtype) {
                    let what = format!("{dtype} {layout} {shape:?}");
                    // The exponential magnifies the rounding of the distance to the maximum.
                    assert_near(&ops::softmax(&a, &[-1], true).unwrap(), &want, 10.0, &what);
                    assert_near(&ops::logsumexp(&a, &[-1], false).unwrap(), &logs, 2.0, &what);
                }
            }
        }
    });
}

#[test]
fn infinite_rows() {
    on_cpu(|| {
        let inf = f64::INFINITY;
        let a = array(&[-inf, -inf, 0.0, -inf, inf, 0.0], &[3, 2], Dtype::Float32);
        let got = read(&ops::softmax(&a, &[-1], false).unwrap());
        assert!(got[0].is_nan() && got[1].is_nan() && got[4].is_nan());
        assert_eq!(got[2..4], [1.0, 0.0]);
        assert_same(&ops::logsumexp(&a, &[-1], false).unwrap(), &[-inf, 0.0, inf], "logsumexp");
    });
}
