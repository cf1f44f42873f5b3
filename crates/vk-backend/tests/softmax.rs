//! Softmax and its logarithm on a Vulkan device, against float64 in Rust.

mod common;
mod layouts;

use common::with_gpu;
use layouts::{LAYOUTS, Layout, Value, arrange, each_row, random};
use mlx_vulkan_core::{Array, Dtype, bf16, dispatch_dtype, f16, ops};

fn values<T: Value>(n: usize, seed: u64) -> Vec<T> {
    let mut next = random(seed);
    (0..n).map(|_| T::from_f64((next() % 4000) as f64 / 100.0 - 20.0)).collect()
}

fn numbers(a: &Array) -> Vec<f64> {
    dispatch_dtype!(a.dtype(), T => a.to_vec::<T>().unwrap().into_iter().map(Value::number).collect())
}

/// Relative error that rounding to the dtype and summing in float32 may make.
fn tolerance(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Float16 => 1.0 / 1024.0,
        Dtype::Bfloat16 => 1.0 / 128.0,
        _ => 2e-6,
    }
}

fn check<T: Value>(values: &[T], shape: &[usize], axis: usize, layout: Layout) {
    let (a, shown) = arrange(values, shape, layout);
    let soft = numbers(&ops::softmax(&a, &[axis as isize], true).unwrap());
    let logs = numbers(&ops::logsumexp(&a, &[axis as isize], false).unwrap());
    let mut at = 0;
    each_row(shape, axis, |row| {
        let row_values: Vec<f64> = row.iter().map(|&i| shown[i].number()).collect();
        let max = row_values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row_values.iter().map(|x| (x - max).exp()).sum();
        let bound = tolerance(T::DTYPE);
        for (&i, x) in row.iter().zip(&row_values) {
            let want = (x - max).exp() / sum;
            // Half precision has few denormal digits.
            let error = (soft[i] - want).abs();
            assert!(
                error <= bound * want + 6e-8,
                "{} {shape:?} {layout:?} {i}: {} {want}",
                T::DTYPE,
                soft[i]
            );
        }
        let want = max + sum.ln();
        let error = (logs[at] - want).abs();
        assert!(
            error <= bound * want.abs().max(1.0),
            "logsumexp {} {shape:?} {layout:?}: {} {want}",
            T::DTYPE,
            logs[at]
        );
        at += 1;
    });
}

#[test]
fn every_layout_and_dtype() {
    with_gpu(|| {
        for layout in LAYOUTS {
            check(&values::<f32>(5 * 37 * 4, 1), &[5, 4, 37], 2, layout);
            check(&values::<f32>(5 * 37 * 4, 1), &[5, 37, 4], 1, layout);
        }
        for n in [40, 43, 3000] {
            check(&values::<f16>(3 * n, 2), &[3, n], 1, Layout::Contiguous);
            check(&values::<bf16>(3 * n, 3), &[3, n], 1, Layout::Contiguous);
        }
    });
}

#[test]
fn lengths_around_registers_and_parts() {
    with_gpu(|| {
        for n in
            [1usize, 2, 31, 32, 33, 255, 256, 257, 1000, 1024, 1025, 4096, 4097, 20_000, 100_000]
        {
            let rows = if n > 10_000 { 1 } else { 3 };
            check(&values::<f32>(rows * n, n as u64), &[rows, n], 1, Layout::Contiguous);
        }
        check(&values::<f32>(2 * 5001, 5), &[2, 5001], 1, Layout::Sliced);
    });
}

#[test]
fn infinities_and_nan() {
    with_gpu(|| {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        for n in [4usize, 70, 3000, 50_000] {
            let row = |at: usize, x: f32| {
                (0..n).map(|i| if i == at { x } else { 1.0 }).collect::<Vec<f32>>()
            };
            let soft = |v: &[f32]| {
                let a = Array::from_slice(v, &[n]).unwrap();
                ops::softmax(&a, &[0], true).unwrap().to_vec::<f32>().unwrap()
            };
            let log = |v: &[f32]| {
                let a = Array::from_slice(v, &[n]).unwrap();
                ops::logsumexp(&a, &[0], false).unwrap().item::<f32>().unwrap()
            };
            let masked = vec![-inf; n];
            assert!(soft(&masked).iter().all(|x| x.is_nan()), "{n}");
            assert_eq!(log(&masked), -inf);
            assert!(soft(&row(n / 2, inf)).iter().all(|x| x.is_nan()), "{n}");
            assert_eq!(log(&row(n / 2, inf)), inf);
            assert!(soft(&row(n - 1, nan)).iter().all(|x| x.is_nan()), "{n}");
            assert!(log(&row(n - 1, nan)).is_nan());
            let one = row(1, -inf);
            let got = soft(&one);
            assert_eq!(got[1], 0.0);
            assert!((got[0] * (n - 1) as f32 - 1.0).abs() < 1e-5);
            assert!((log(&one) - (1.0 + ((n - 1) as f32).ln())).abs() < 1e-5);
        }
    });
}

#[test]
fn nothing_and_one() {
    with_gpu(|| {
        let empty = Array::from_slice::<f32>(&[], &[0, 3]).unwrap();
        assert!(ops::softmax(&empty, &[1], true).unwrap().to_vec::<f32>().unwrap().is_empty());
        assert!(ops::logsumexp(&empty, &[1], false).is_err(), "as in MLX");
        let scalar = Array::scalar(3.0f32).unwrap();
        assert_eq!(ops::softmax(&scalar, &[], true).unwrap().item::<f32>().unwrap(), 1.0);
    });
}
