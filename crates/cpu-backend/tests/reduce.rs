//! Reductions against float64, over every set of axes.

mod common;

use common::*;
use mlx_vulkan_core::{Array, Complex, Dtype, Result, ops};

type Op = fn(&Array, &[isize], bool) -> Result<Array>;

/// Name, reduction, its float64 oracle and the oracle's start.
type Case = (&'static str, Op, fn(f64, f64) -> f64, f64);

const OPS: &[Case] = &[
    ("sum", ops::sum, |a, b| a + b, 0.0),
    ("prod", ops::prod, |a, b| a * b, 1.0),
    ("max", ops::max, f64::max, f64::NEG_INFINITY),
    ("min", ops::min, f64::min, f64::INFINITY),
];

/// Reduces row-major values over axes.
fn reduced(
    values: &[f64],
    shape: &[usize],
    axes: &[usize],
    f: fn(f64, f64) -> f64,
    first: f64,
) -> Vec<f64> {
    let mut kept = shape.to_vec();
    axes.iter().for_each(|&x| kept[x] = 1);
    let mut out = vec![first; kept.iter().product()];
    for (i, &v) in values.iter().enumerate() {
        let mut index = index_of(i, shape);
        axes.iter().for_each(|&x| index[x] = 0);
        let at = number_of(&index, &kept);
        out[at] = f(out[at], v);
    }
    out
}

#[test]
fn every_set_of_axes() {
    let shape = [3, 4, 5];
    on_cpu(|| {
        for &(name, op, f, first) in OPS {
            for dtype in FLOATS.into_iter().chain(INTS) {
                let (low, high) = if name == "prod" { (0.6, 1.4) } else { (0.0, 20.0) };
                let values = stored(&sequence(60, low, high), dtype);
                for (layout, a) in layouts(&values, &shape, dtype) {
                    for set in 1..8usize {
                        let axes: Vec<usize> = (0..3).filter(|x| set >> x & 1 == 1).collect();
                        let signed: Vec<isize> = axes.iter().map(|&x| x as isize).collect();
                        let want = reduced(&values, &shape, &axes, f, first);
                        let what = format!("{name} {dtype} {layout} {axes:?}");
                        assert_near(&op(&a, &signed, false).unwrap(), &want, 1.0, &what);
                    }
                }
            }
        }
    });
}

#[test]
fn large_rows_and_columns() {
    on_cpu(|| {
        for shape in [[3, 200_000], [200_000, 3], [600, 1000], [1, 600_000], [5000, 60]] {
            let values = stored(&sequence(shape[0] * shape[1], -1.0, 2.0), Dtype::Float32);
            for (layout, a) in layouts(&values, &shape, Dtype::Float32) {
                for axes in [&[0usize][..], &[1], &[0, 1]] {
                    let signed: Vec<isize> = axes.iter().map(|&x| x as isize).collect();
                    let want = reduced(&values, &shape, axes, |a, b| a + b, 0.0);
                    let what = format!("{shape:?} {layout} {axes:?}");
                    assert_near(&ops::sum(&a, &signed, true).unwrap(), &want, 1.0, &what);
                    let want = reduced(&values, &shape, axes, f64::max, f64::NEG_INFINITY);
                    assert_same(&ops::max(&a, &signed, true).unwrap(), &want, &what);
                }
            }
        }
    });
}

#[test]
fn broadcast_inputs() {
    on_cpu(|| {
        let row = array(&[1.0, 2.0, 3.0], &[3], Dtype::Float32);
        let a = ops::broadcast_to(&row, &[4, 3]).unwrap();
        assert_same(&ops::sum(&a, &[0], false).unwrap(), &[4.0, 8.0, 12.0], "down");
        assert_same(&ops::sum(&a, &[1], false).unwrap(), &[6.0; 4], "across");
        let column = ops::broadcast_to(&ops::expand_dims(&row, &[1]).unwrap(), &[3, 5]).unwrap();
        assert_same(&ops::sum(&column, &[1], false).unwrap(), &[5.0, 10.0, 15.0], "repeated");
        assert_same(&ops::sum(&column, &[], false).unwrap(), &[30.0], "all");
    });
}

#[test]
fn nothing_gives_the_identity() {
    on_cpu(|| {
        let a = array(&[], &[2, 0], Dtype::Float32);
        assert_same(&ops::sum(&a, &[1], false).unwrap(), &[0.0, 0.0], "sum");
        assert_same(&ops::prod(&a, &[], false).unwrap(), &[1.0], "prod");
        assert_same(&ops::all(&a, &[], false).unwrap(), &[1.0], "all");
        assert_same(&ops::any(&a, &[], false).unwrap(), &[0.0], "any");
        assert_same(&ops::sum(&a, &[0], false).unwrap(), &[], "still nothing");
    });
}

#[test]
fn nan_truth_and_wrapping() {
    on_cpu(|| {
        for dtype in FLOATS {
            let a = array(&[1.0, f64::NAN, 3.0, 4.0], &[2, 2], dtype);
            for axes in [&[0][..], &[1], &[]] {
                assert!(read(&ops::max(&a, axes, false).unwrap())[0].is_nan() == (axes != [0]));
                assert!(read(&ops::min(&a, axes, false).unwrap()).iter().any(|x| x.is_nan()));
            }
        }
        let a = array(&[1.0, 0.0, 2.0, 3.0], &[2, 2], Dtype::Float32);
        assert_same(&ops::all(&a, &[1], false).unwrap(), &[0.0, 1.0], "all");
        assert_same(&ops::any(&a, &[0], false).unwrap(), &[1.0, 1.0], "any");
        let big = Array::from_slice(&[i32::MAX, 1], &[2]).unwrap();
        assert_eq!(ops::sum(&big, &[], false).unwrap().item::<i32>().unwrap(), i32::MIN);
        let z = Array::from_slice(&[Complex::new(1.0, 2.0), Complex::new(0.0, 1.0)], &[2]).unwrap();
        assert_eq!(
            ops::prod(&z, &[], false).unwrap().item::<Complex>().unwrap(),
            Complex::new(-2.0, 1.0)
        );
    });
}

#[test]
fn indices_of_extremes() {
    let shape = [4, 5, 6];
    on_cpu(|| {
        for dtype in FLOATS.into_iter().chain(INTS) {
            let values = stored(&sequence(120, 0.0, 30.0), dtype);
            for (layout, a) in layouts(&values, &shape, dtype) {
                for axis in 0..3 {
                    let mut kept = shape;
                    kept[axis] = 1;
                    let want: Vec<f64> = (0..kept.iter().product())
                        .map(|i| {
                            let mut index = index_of(i, &kept);
                            let mut best = (0, f64::NEG_INFINITY);
                            for j in 0..shape[axis] {
                                index[axis] = j;
                                let v = values[number_of(&index, &shape)];
                                if v > best.1 {
                                    best = (j, v);
                                }
                            }
                            best.0 as f64
                        })
                        .collect();
                    let got = ops::argmax(&a, Some(axis as isize), false).unwrap();
                    assert_same(&got, &want, &format!("argmax {dtype} {layout} {axis}"));
                }
            }
        }
        let a = array(&[3.0, 1.0, 1.0, 5.0, 5.0], &[5], Dtype::Int32);
        assert_same(&ops::argmin(&a, None, false).unwrap(), &[1.0], "first of equals");
        assert_same(&ops::argmax(&a, None, false).unwrap(), &[3.0], "first of equals");
    });
}
