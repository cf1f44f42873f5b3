//! Elementwise kernels against float64, in the layouts that choose between their modes.

mod common;

use mlx_vulkan_core::{Array, Dtype, ops};

fn floats(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * 0.37).sin() * 20.0).collect()
}

fn close(got: &[f32], want: impl Iterator<Item = f64>, context: &str) {
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(*g) - w).abs();
        assert!(error <= w.abs() * 4.8e-7 + 1e-37, "{context}: element {i} is {g}, not {w}");
    }
}

#[test]
fn unary_functions_are_within_four_ulp() {
    common::with_gpu(|| {
        let data = floats(1003);
        let a = Array::from_slice(&data, &[17, 59]).unwrap();
        let flipped = ops::transpose(&a, &[]).unwrap();
        let f64s = || data.iter().map(|&x| f64::from(x));
        close(&ops::sin(&a).unwrap().to_vec().unwrap(), f64s().map(f64::sin), "sin");
        close(&ops::exp(&a).unwrap().to_vec().unwrap(), f64s().map(f64::exp), "exp");
        close(&ops::tanh(&a).unwrap().to_vec().unwrap(), f64s().map(f64::tanh), "tanh");
        let got = ops::transpose(&ops::cos(&flipped).unwrap(), &[]).unwrap();
        close(&got.to_vec().unwrap(), f64s().map(f64::cos), "cos of a transposed view");
        let strided = ops::slice(&a, &[0, 0], &[17, 59], &[1, 3]).unwrap();
        let got: Vec<f32> = ops::square(&strided).unwrap().to_vec().unwrap();
        let want = (0..17).flat_map(|r| (0..59).step_by(3).map(move |c| r * 59 + c));
        close(&got, want.map(|i| f64::from(data[i]).powi(2)), "square of a slice");
    });
}

#[test]
fn binary_functions_broadcast_and_promote() {
    common::with_gpu(|| {
        let (x, y) = (floats(600), floats(30));
        let a = Array::from_slice(&x, &[20, 30]).unwrap();
        let row = Array::from_slice(&y, &[30]).unwrap();
        let sum: Vec<f32> = ops::add(&a, &row).unwrap().to_vec().unwrap();
        let want = (0..600).map(|i| f64::from(x[i] + y[i % 30]));
        close(&sum, want, "add a row");
        let scaled: Vec<f32> = ops::divide(&a, 3.0f32).unwrap().to_vec().unwrap();
        close(&scaled, x.iter().map(|&x| f64::from(x) / 3.0), "divide by a scalar");
        let ints = Array::from_slice(&[7i8, -7, 7, -7, 100], &[5]).unwrap();
        let by = Array::from_slice(&[3i8, 3, -3, -3, 0], &[5]).unwrap();
        let modulo: Vec<i8> = ops::remainder(&ints, &by).unwrap().to_vec().unwrap();
        assert_eq!(modulo[..4], [1, 2, -2, -1]);
        let less: Vec<mlx_vulkan_core::dtype::Bool8> =
            ops::less(&ints, &by).unwrap().to_vec().unwrap();
        assert_eq!(less.iter().map(|b| b.0).collect::<Vec<_>>(), [0, 1, 0, 1, 0]);
        let halves = ops::astype(&a, Dtype::Float16).unwrap();
        let twice = ops::add(&halves, &halves).unwrap();
        let want: Vec<mlx_vulkan_core::f16> = halves.to_vec().unwrap();
        let got: Vec<mlx_vulkan_core::f16> = twice.to_vec().unwrap();
        assert!(got.iter().zip(&want).all(|(g, w)| g.to_f32() == 2.0 * w.to_f32()));
    });
}

#[test]
fn ranges_and_selection() {
    common::with_gpu(|| {
        let range: Vec<f32> =
            ops::arange(0.5, 1000.0, 0.1, Dtype::Float32).unwrap().to_vec().unwrap();
        close(&range, (0..range.len()).map(|i| 0.5 + i as f64 * 0.1), "arange");
        let ints: Vec<i16> = ops::arange(-3.0, 4.0, 2.0, Dtype::Int16).unwrap().to_vec().unwrap();
        assert_eq!(ints, [-3, -1, 1, 3]);
        let a = ops::arange(0.0, 10.0, 1.0, Dtype::Int64).unwrap();
        let picked = ops::where_(&ops::greater(&a, 4).unwrap(), &a, 0).unwrap();
        assert_eq!(picked.to_vec::<i64>().unwrap(), [0, 0, 0, 0, 0, 5, 6, 7, 8, 9]);
    });
}
