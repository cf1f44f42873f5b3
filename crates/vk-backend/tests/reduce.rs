//! Reductions and indices of extremes on a Vulkan device, against loops in Rust.

mod common;
mod layouts;

use common::with_gpu;
use layouts::{LAYOUTS, Layout, Value, arrange, dtypes, random, ravel, small, unravel};
use mlx_vulkan_core::{Array, Complex, Dtype, array::FromF64, dispatch_dtype, dtype::Bool8, ops};

type Reduce = fn(&Array, &[isize], bool) -> mlx_vulkan_core::Result<Array>;
type Fold = fn(f64, f64) -> f64;

/// Name, operation, oracle, and what the oracle starts from.
const NUMERIC: [(&str, Reduce, Fold, f64); 4] = [
    ("sum", ops::sum, |a, b| a + b, 0.0),
    ("prod", ops::prod, |a, b| a * b, 1.0),
    ("max", ops::max, f64::max, f64::NEG_INFINITY),
    ("min", ops::min, f64::min, f64::INFINITY),
];

/// Folds the axes of row-major numbers, in row-major order of what is left.
fn fold(
    values: &[f64],
    shape: &[usize],
    axes: &[usize],
    f: fn(f64, f64) -> f64,
    start: f64,
) -> Vec<f64> {
    let mut out_shape = shape.to_vec();
    axes.iter().for_each(|&x| out_shape[x] = 1);
    let mut out = vec![start; out_shape.iter().product()];
    for (i, &v) in values.iter().enumerate() {
        let mut index = unravel(i, shape);
        axes.iter().for_each(|&x| index[x] = 0);
        let at = ravel(&index, &out_shape);
        out[at] = f(out[at], v);
    }
    out
}

fn numbers(a: &Array) -> Vec<f64> {
    dispatch_dtype!(a.dtype(), T => a.to_vec::<T>().unwrap().into_iter().map(Value::number).collect())
}

/// The numbers as the dtype holds them.
fn rounded(values: &[f64], dtype: Dtype) -> Vec<f64> {
    dispatch_dtype!(dtype, T => values.iter().map(|&x| <T as FromF64>::from_f64(x).number()).collect())
}

/// Checks the reductions whose names are listed.
fn check<T: Value>(names: &[&str], shape: &[usize], axes: &[usize], layout: Layout) {
    let n = shape.iter().product();
    let (a, shown) = arrange(&small::<T>(n, n as u64), shape, layout);
    let values: Vec<f64> = shown.iter().map(|x| x.number()).collect();
    let signed: Vec<isize> = axes.iter().map(|&x| x as isize).collect();
    for (name, reduce, f, start) in NUMERIC.into_iter().filter(|r| names.contains(&r.0)) {
        if n == 0 && (name == "max" || name == "min") {
            continue;
        }
        // Long products leave the range of exact floats; zeros among the values do not help prod.
        let ones: Vec<f64> = values.iter().map(|&x| if x == 2.0 { -1.0 } else { 1.0 }).collect();
        let (a, values) = match name {
            "prod" if T::DTYPE != Dtype::Bool && !T::DTYPE.is_unsigned_integer() => {
                let v: Vec<T> = ones.iter().map(|&x| T::from_f64(x)).collect();
                let (a, shown) = arrange(&v, shape, layout);
                (a, shown.iter().map(|x| x.number()).collect())
            }
            "prod" => continue,
            _ => (a.clone(), values.clone()),
        };
        let got = reduce(&a, &signed, false).unwrap();
        let want = rounded(&fold(&values, shape, axes, f, start), got.dtype());
        assert_eq!(
            numbers(&got),
            want,
            "{name} of {} {shape:?} over {axes:?}, {layout:?}",
            T::DTYPE
        );
    }
}

#[test]
fn all_axes_of_every_layout() {
    with_gpu(|| {
        let shape = [5, 33, 7];
        for axes in [&[0][..], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]] {
            for layout in LAYOUTS {
                check::<f32>(&["sum", "min"], &shape, axes, layout);
            }
        }
    });
}

#[test]
fn lengths_around_workgroups_and_blocks() {
    with_gpu(|| {
        for n in [1usize, 2, 31, 32, 33, 255, 256, 257, 1000, 4097, 100_000] {
            check::<f32>(&["sum"], &[n], &[0], Layout::Contiguous);
            check::<f32>(&["sum"], &[3, n], &[1], Layout::Contiguous);
            check::<f32>(&["sum"], &[n, 3], &[0], Layout::Contiguous);
        }
        check::<f32>(&["sum"], &[1, 40_001], &[0, 1], Layout::Sliced);
        check::<f32>(&["sum"], &[70, 3, 130], &[0, 2], Layout::Contiguous);
    });
}

#[test]
fn every_dtype() {
    with_gpu(|| {
        for dtype in dtypes() {
            dispatch_dtype!(dtype, T => {
                check::<T>(&["sum", "max"], &[3, 1030], &[1], Layout::Contiguous);
                check::<T>(&["prod", "min"], &[70, 33], &[0], Layout::Reversed);
            });
        }
    });
}

/// A slice that starts off the 16-byte grid is read in single elements up to it.
#[test]
fn rows_off_the_word_grid() {
    with_gpu(|| {
        for start in [1isize, 2, 3, 5] {
            let a = Array::from_slice(&small::<u8>(700, 9), &[700]).unwrap();
            let part = ops::slice(&a, &[start], &[690], &[1]).unwrap();
            let want: f64 =
                small::<u8>(700, 9)[start as usize..690].iter().map(|&x| f64::from(x)).sum();
            assert_eq!(numbers(&ops::sum(&part, &[], false).unwrap()), [want]);
        }
    });
}

#[test]
fn all_and_any() {
    with_gpu(|| {
        for n in [1usize, 33, 5000] {
            for hole in [None, Some(0), Some(n - 1), Some(n / 2)] {
                let v: Vec<Bool8> = (0..n).map(|i| (Some(i) != hole).into()).collect();
                let not: Vec<Bool8> = (0..n).map(|i| (Some(i) == hole).into()).collect();
                let (a, b) =
                    (Array::from_slice(&v, &[n]).unwrap(), Array::from_slice(&not, &[n]).unwrap());
                assert_eq!(numbers(&ops::all(&a, &[], false).unwrap())[0] != 0.0, hole.is_none());
                assert_eq!(numbers(&ops::any(&b, &[], false).unwrap())[0] != 0.0, hole.is_some());
            }
        }
        let floats = Array::from_slice(&[0.0f32, -0.0, f32::NAN, 1e-45], &[2, 2]).unwrap();
        assert_eq!(numbers(&ops::all(&floats, &[1], false).unwrap()), [0.0, 1.0]);
    });
}

#[test]
fn nothing_reduces_to_the_identity() {
    with_gpu(|| {
        let a = Array::from_slice::<f32>(&[], &[3, 0]).unwrap();
        assert_eq!(numbers(&ops::sum(&a, &[1], false).unwrap()), [0.0; 3]);
        assert_eq!(numbers(&ops::prod(&a, &[1], false).unwrap()), [1.0; 3]);
        assert_eq!(numbers(&ops::sum(&a, &[], false).unwrap()), [0.0]);
        assert_eq!(numbers(&ops::all(&a, &[1], false).unwrap()), [1.0; 3]);
        assert_eq!(numbers(&ops::any(&a, &[1], false).unwrap()), [0.0; 3]);
        assert!(ops::sum(&a, &[0], false).unwrap().to_vec::<f32>().unwrap().is_empty());
        let scalar = Array::scalar(3.0f32).unwrap();
        assert_eq!(ops::max(&scalar, &[], false).unwrap().item::<f32>().unwrap(), 3.0);
    });
}

#[test]
fn nan_wins_extremes_and_denormals_count() {
    with_gpu(|| {
        for n in [3usize, 300, 20_000] {
            for at in [0, n / 2, n - 1] {
                let mut v: Vec<f32> = (0..n).map(|i| i as f32 - 5.0).collect();
                v[at] = f32::from_bits(0xffc0_0001);
                let a = Array::from_slice(&v, &[n]).unwrap();
                for dtype in [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16] {
                    let a = ops::astype(&a, dtype).unwrap();
                    assert!(numbers(&ops::max(&a, &[], false).unwrap())[0].is_nan());
                    assert!(numbers(&ops::min(&a, &[], false).unwrap())[0].is_nan());
                    assert!(numbers(&ops::sum(&a, &[], false).unwrap())[0].is_nan());
                }
            }
        }
        let tiny = Array::from_slice(&[-1e-45f32, -0.0, 1e-45, 2e-45], &[4]).unwrap();
        assert_eq!(ops::max(&tiny, &[], false).unwrap().item::<f32>().unwrap(), 2e-45);
        assert_eq!(ops::min(&tiny, &[], false).unwrap().item::<f32>().unwrap(), -1e-45);
        let infinite = Array::from_slice(&[f32::NEG_INFINITY; 70], &[70]).unwrap();
        assert_eq!(
            ops::max(&infinite, &[], false).unwrap().item::<f32>().unwrap(),
            f32::NEG_INFINITY
        );
    });
}

#[test]
fn wide_integers_are_exact() {
    with_gpu(|| {
        let v: Vec<i64> = (0..1000).map(|i| (i - 500) * 0x1234_5678_9abc).collect();
        let a = Array::from_slice(&v, &[1000]).unwrap();
        assert_eq!(ops::sum(&a, &[], false).unwrap().item::<i64>().unwrap(), v.iter().sum::<i64>());
        assert_eq!(ops::max(&a, &[], false).unwrap().item::<i64>().unwrap(), *v.last().unwrap());
        assert_eq!(ops::min(&a, &[], false).unwrap().item::<i64>().unwrap(), v[0]);
        let u: Vec<u64> = (0..100).map(|i| u64::MAX - i).collect();
        let a = Array::from_slice(&u, &[100]).unwrap();
        let total = u.iter().fold(0u64, |t, &x| t.wrapping_add(x));
        assert_eq!(ops::sum(&a, &[], false).unwrap().item::<u64>().unwrap(), total);
        assert_eq!(ops::max(&a, &[], false).unwrap().item::<u64>().unwrap(), u64::MAX);
        let product = Array::from_slice(&[3u64, 1 << 40, 5], &[3]).unwrap();
        assert_eq!(ops::prod(&product, &[], false).unwrap().item::<u64>().unwrap(), 15 << 40);
    });
}

#[test]
fn complex_numbers() {
    with_gpu(|| {
        let v = [Complex::new(1.0, 2.0), Complex::new(1.0, 3.0), Complex::new(-2.0, 9.0)];
        let a = Array::from_slice(&v, &[3]).unwrap();
        let got = |a: Array| a.item::<Complex>().unwrap();
        assert_eq!(got(ops::sum(&a, &[], false).unwrap()), v[0] + v[1] + v[2]);
        assert_eq!(got(ops::prod(&a, &[], false).unwrap()), v[0] * v[1] * v[2]);
        assert_eq!(got(ops::max(&a, &[], false).unwrap()), v[1]);
        assert_eq!(got(ops::min(&a, &[], false).unwrap()), v[2]);
    });
}

#[test]
fn long_float_sums_stay_accurate() {
    with_gpu(|| {
        let n = 3_000_000;
        let mut next = random(1);
        let v: Vec<f32> = (0..n).map(|_| (next() % 1000) as f32 / 1000.0 + 0.1).collect();
        let want: f64 = v.iter().map(|&x| f64::from(x)).sum();
        let a = Array::from_slice(&v, &[n]).unwrap();
        let got = f64::from(ops::sum(&a, &[], false).unwrap().item::<f32>().unwrap());
        assert!((got - want).abs() < want * 3e-6, "{got} instead of {want}");
    });
}

/// MLX's rule: the first element that no earlier one equals or exceeds; NaN comes before numbers.
fn first_extreme<T: Value>(row: &[T], largest: bool) -> u32 {
    let mut best = 0;
    for i in 1..row.len() {
        let (x, b) = (row[i].number(), row[best].number());
        let further = if largest { x > b } else { x < b };
        if further || (x.is_nan() && !b.is_nan()) {
            best = i;
        }
    }
    best as u32
}

fn check_arg<T: Value>(values: &[T], shape: &[usize], axis: usize, layout: Layout) {
    let (a, shown) = arrange(values, shape, layout);
    for largest in [true, false] {
        let mut want = Vec::new();
        layouts::each_row(shape, axis, |row| {
            let row: Vec<T> = row.iter().map(|&i| shown[i]).collect();
            want.push(first_extreme(&row, largest));
        });
        let f = if largest { ops::argmax } else { ops::argmin };
        let got = f(&a, Some(axis as isize), false).unwrap().to_vec::<u32>().unwrap();
        assert_eq!(got, want, "largest: {largest}, {} {shape:?} axis {axis} {layout:?}", T::DTYPE);
    }
}

#[test]
fn indices_of_extremes() {
    with_gpu(|| {
        for layout in LAYOUTS {
            for axis in 0..3 {
                check_arg(&small::<f32>(4 * 37 * 6, 5), &[4, 37, 6], axis, layout);
            }
        }
        for n in [1usize, 2, 31, 33, 255, 257, 4097, 151_936] {
            let mut next = random(n as u64);
            let v: Vec<f32> = (0..2 * n).map(|_| (next() % 100_000) as f32 - 5e4).collect();
            check_arg(&v, &[2, n], 1, Layout::Contiguous);
        }
        for dtype in dtypes() {
            dispatch_dtype!(dtype, T => {
                check_arg(&small::<T>(600, 3), &[3, 200], 1, Layout::Contiguous);
                check_arg(&small::<T>(600, 4), &[20, 30], 0, Layout::Contiguous);
            });
        }
        let v: Vec<f32> = vec![1.0; 40_000];
        check_arg(&v, &[20_000, 2], 0, Layout::Contiguous);
    });
}

#[test]
fn the_first_nan_is_the_extreme() {
    with_gpu(|| {
        let nan = f32::NAN;
        for v in [
            [nan, 1.0, 2.0],
            [1.0, nan, 2.0],
            [nan; 3],
            [f32::NEG_INFINITY, nan, f32::NEG_INFINITY],
        ] {
            check_arg(&v, &[3], 0, Layout::Contiguous);
        }
        check_arg(&[0.0f32, -0.0, -0.0, 0.0], &[4], 0, Layout::Contiguous);
        check_arg(&[i64::MIN, i64::MIN, i64::MAX, i64::MAX], &[4], 0, Layout::Contiguous);
        check_arg(&[u64::MAX, 0, u64::MAX, 0], &[4], 0, Layout::Contiguous);
        check_arg(&[i8::MIN, i8::MIN], &[2], 0, Layout::Contiguous);
    });
}
