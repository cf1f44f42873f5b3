//! Cumulative reductions on a Vulkan device, against loops in Rust.

mod common;
mod layouts;

use common::with_gpu;
use layouts::{LAYOUTS, Layout, Value, arrange, dtypes, each_row, random, small};
use mlx_vulkan_core::{Array, Complex, Dtype, array::FromF64, dispatch_dtype, dtype::Bool8, ops};

type Scan = fn(&Array, Option<isize>, bool, bool) -> mlx_vulkan_core::Result<Array>;
type Fold = fn(f64, f64) -> f64;

const SCANS: [(&str, Scan, Fold); 4] = [
    (
        "cumsum",
        |a, axis, reverse, inclusive| ops::cumsum(a, axis, reverse, inclusive, None),
        |a, b| a + b,
    ),
    (
        "cumprod",
        |a, axis, reverse, inclusive| ops::cumprod(a, axis, reverse, inclusive, None),
        |a, b| a * b,
    ),
    ("cummax", ops::cummax, f64::max),
    ("cummin", ops::cummin, f64::min),
];

/// What a scan starts from, as numbers of the dtype.
fn identity(name: &str, dtype: Dtype) -> f64 {
    let (low, high) = match dtype {
        Dtype::Bool => (0.0, 1.0),
        Dtype::Uint8 => (0.0, 255.0),
        Dtype::Uint16 => (0.0, 65_535.0),
        Dtype::Uint32 => (0.0, u32::MAX.into()),
        Dtype::Uint64 => (0.0, u64::MAX as f64),
        Dtype::Int8 => (-128.0, 127.0),
        Dtype::Int16 => (-32_768.0, 32_767.0),
        Dtype::Int32 => (i32::MIN.into(), i32::MAX.into()),
        Dtype::Int64 => (i64::MIN as f64, i64::MAX as f64),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    };
    match name {
        "cumsum" => 0.0,
        "cumprod" => 1.0,
        "cummax" => low,
        _ => high,
    }
}

fn numbers(a: &Array) -> Vec<f64> {
    dispatch_dtype!(a.dtype(), T => a.to_vec::<T>().unwrap().into_iter().map(Value::number).collect())
}

fn check<T: Value>(values: &[T], shape: &[usize], axis: usize, layout: Layout, only: Option<&str>) {
    let (a, shown) = arrange(values, shape, layout);
    for (name, scan, f) in SCANS {
        if only.is_some_and(|o| o != name) {
            continue;
        }
        for (reverse, inclusive) in [(false, true), (true, true), (false, false), (true, false)] {
            let got = scan(&a, Some(axis as isize), reverse, inclusive).unwrap();
            let mut want = vec![0.0; shown.len()];
            each_row(shape, axis, |row| {
                let mut total = identity(name, got.dtype());
                let mut step = |&i: &usize| {
                    let next = f(total, shown[i].number());
                    want[i] = if inclusive { next } else { total };
                    total = next;
                };
                if reverse {
                    row.iter().rev().for_each(&mut step)
                } else {
                    row.iter().for_each(&mut step)
                }
            });
            let want: Vec<f64> = dispatch_dtype!(got.dtype(), O => {
                want.iter().map(|&x| <O as FromF64>::from_f64(x).number()).collect()
            });
            let got = numbers(&got);
            let bad = (0..want.len()).find(|&i| got[i] != want[i]);
            assert_eq!(
                bad.map(|i| (i, got[i], want[i])),
                None,
                "{name} of {} {shape:?} axis {axis} {layout:?} reverse {reverse} inclusive {inclusive}",
                T::DTYPE
            );
        }
    }
}

/// Values whose running products stay exact: powers of two that cancel.
fn halves_and_doubles<T: Value>(n: usize) -> Vec<T> {
    let real = T::DTYPE.is_inexact();
    (0..n).map(|i| T::from_f64(if real { [2.0, 0.5, -1.0][i % 3] } else { 1.0 })).collect()
}

#[test]
fn every_layout_axis_and_direction() {
    with_gpu(|| {
        for layout in LAYOUTS {
            for axis in 0..3 {
                check(&small::<f32>(5 * 33 * 7, 2), &[5, 33, 7], axis, layout, Some("cumsum"));
            }
            check(&small::<f32>(5 * 33 * 7, 2), &[5, 33, 7], 1, layout, Some("cummax"));
            check(&halves_and_doubles::<f32>(9 * 36), &[9, 36], 1, layout, None);
        }
    });
}

#[test]
fn lengths_around_workgroups_and_blocks() {
    with_gpu(|| {
        for n in [1usize, 2, 31, 32, 33, 255, 256, 257, 1000, 4097, 50_000, 50_001] {
            check(&small::<f32>(n, 1), &[n], 0, Layout::Contiguous, Some("cumsum"));
            check(&small::<i32>(n * 3, 1), &[3, n], 1, Layout::Contiguous, Some("cumsum"));
            check(&small::<i32>(n * 3, 1), &[n, 3], 0, Layout::Contiguous, Some("cumsum"));
        }
        let mut next = random(7);
        let v: Vec<i8> = (0..40_000).map(|_| next() as i8 / 2).collect();
        check(&v, &[40_000], 0, Layout::Contiguous, Some("cummax"));
        check(&v, &[20_000, 2], 0, Layout::Contiguous, Some("cummin"));
    });
}

#[test]
fn every_dtype() {
    with_gpu(|| {
        for dtype in dtypes() {
            dispatch_dtype!(dtype, T => {
                // Sums that every dtype holds exactly.
                let ones: Vec<T> = (0..300).map(|i| T::from_f64(f64::from(i % 5 == 0))).collect();
                check(&ones, &[3, 100], 1, Layout::Contiguous, Some("cumsum"));
                check(&ones, &[100, 3], 0, Layout::Contiguous, Some("cumsum"));
                let v = small::<T>(300, 8);
                if dtype != Dtype::Complex64 {
                    check(&v, &[3, 100], 1, Layout::Contiguous, Some("cummin"));
                    check(&v, &[3, 100], 0, Layout::Contiguous, Some("cummax"));
                }
            });
        }
    });
}

#[test]
fn nan_stays_once_it_came() {
    with_gpu(|| {
        let v = [1.0f32, f32::NAN, 5.0, -1.0];
        let a = Array::from_slice(&v, &[4]).unwrap();
        for (_, scan, _) in SCANS.into_iter().filter(|(name, ..)| *name != "cumprod") {
            let got = scan(&a, Some(0), false, true).unwrap().to_vec::<f32>().unwrap();
            assert!(got[0] == 1.0 && got[1..].iter().all(|x| x.is_nan()), "{got:?}");
        }
    });
}

#[test]
fn logarithms_of_sums() {
    with_gpu(|| {
        for n in [1usize, 5, 300, 9000] {
            let mut next = random(3);
            let v: Vec<f32> = (0..n).map(|_| (next() % 1000) as f32 / 50.0 - 10.0).collect();
            for (shape, axis) in [([1, n], 1), ([n, 1], 0)] {
                let a = Array::from_slice(&v, &shape).unwrap();
                let got = ops::logcumsumexp(&a, Some(axis), false, true)
                    .unwrap()
                    .to_vec::<f32>()
                    .unwrap();
                let mut total = 0.0f64;
                for (i, (&x, got)) in v.iter().zip(got).enumerate() {
                    total += f64::from(x).exp();
                    assert!(
                        (f64::from(got) - total.ln()).abs() < 1e-5,
                        "{i} of {n}: {got} {}",
                        total.ln()
                    );
                }
            }
        }
        let a = Array::from_slice(&[f32::NEG_INFINITY, f32::NEG_INFINITY, 0.0], &[3]).unwrap();
        let got = ops::logcumsumexp(&a, Some(0), false, false).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(got, [f32::NEG_INFINITY; 3]);
    });
}

#[test]
fn scalars_nothing_and_complex() {
    with_gpu(|| {
        let empty = Array::from_slice::<f32>(&[], &[0, 3]).unwrap();
        assert!(
            ops::cumsum(&empty, Some(0), false, true, None)
                .unwrap()
                .to_vec::<f32>()
                .unwrap()
                .is_empty()
        );
        let v = [Complex::new(0.0, 1.0), Complex::new(2.0, 0.0), Complex::new(0.0, 1.0)];
        let a = Array::from_slice(&v, &[3]).unwrap();
        let got =
            ops::cumprod(&a, Some(0), false, true, None).unwrap().to_vec::<Complex>().unwrap();
        assert_eq!(got, [v[0], v[0] * v[1], v[0] * v[1] * v[2]]);
        let bools = Array::from_slice(&[Bool8(1), Bool8(0), Bool8(1)], &[3]).unwrap();
        assert_eq!(
            ops::cumsum(&bools, Some(0), false, true, None).unwrap().to_vec::<i32>().unwrap(),
            [1, 1, 2]
        );
    });
}

#[test]
fn long_sums_stay_accurate() {
    with_gpu(|| {
        let n = 300_000;
        let mut next = random(1);
        let v: Vec<f32> = (0..n).map(|_| (next() % 1000) as f32 / 1000.0).collect();
        let a = Array::from_slice(&v, &[n]).unwrap();
        let got = ops::cumsum(&a, Some(0), false, true, None).unwrap().to_vec::<f32>().unwrap();
        let mut total = 0.0f64;
        for (x, got) in v.iter().zip(got) {
            total += f64::from(*x);
            assert!((f64::from(got) - total).abs() <= total * 1e-5, "{got} instead of {total}");
        }
    });
}
