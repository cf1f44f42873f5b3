//! Derivatives and mapping of softmax, of its logarithm and of what is built on them.

use mlx::{Array, Dtype, fast, ops, transforms::grad};
use mlx_tests::{array, epsilon, filled, noise, on_each_device, values};

use crate::{
    common::{along, check, random, row},
    mapping,
};

const AXES: [&[isize]; 5] = [&[-1], &[0], &[1], &[0, 2], &[]];

#[test]
fn derivatives_over_several_axes() {
    let x = random(&[2, 3, 4], 1);
    for axes in AXES {
        check("softmax", &x, |x| ops::softmax(x, axes, false));
        check("logsumexp", &x, |x| ops::logsumexp(x, axes, false));
        check("logsumexp", &x, |x| ops::logsumexp(x, axes, true));
    }
    check("softmax of one", &random(&[3, 1], 2), |x| ops::softmax(x, &[-1], true));
    check("softmax of a scalar", &random(&[], 3), |x| ops::softmax(x, &[], false));
}

#[test]
fn derivatives_of_halves() {
    on_each_device(|_| {
        let numbers = [1.0, 2.0, 3.0];
        let total: f64 = numbers.iter().map(|x: &f64| x.exp()).sum();
        for dtype in [Dtype::Float16, Dtype::Bfloat16] {
            let x = array(&numbers, &[3], dtype);
            let one = Array::scalar_of(1.0, dtype).unwrap();
            let got = along(&one, &x, |x| ops::logsumexp(x, &[], false));
            for (got, x) in got.iter().zip(numbers) {
                assert!((got - x.exp() / total).abs() < 4e-3, "{dtype} {got}");
            }
        }
    });
}

#[test]
fn the_derivative_of_cross_entropy_is_what_is_off() {
    on_each_device(|_| {
        let targets = Array::from_slice(&[2i32], &[1]).unwrap();
        let logits = array(&[1.0, 2.0, 3.0], &[1, 3], Dtype::Float32);
        let loss = |x: &Array| fast::cross_entropy(x, &targets);
        let got = along(&row(&[1.0]), &logits, loss);
        let total: f64 = [1.0, 2.0, 3.0].iter().map(|x: &f64| x.exp()).sum();
        let want = [1f64.exp() / total, 2f64.exp() / total, 3f64.exp() / total - 1.0];
        for (got, want) in got.iter().zip(want) {
            assert!((got - want).abs() < 1e-6, "{got} instead of {want}");
        }
    });
}

/// Rows of several dtypes, with a cotangent for each and logits that share a large number.
#[test]
fn derivatives_of_cross_entropy() {
    const CLASSES: usize = 70;
    let cotangents = [1.0, -2.0, 0.5];
    let targets = [3i32, 0, 69];
    on_each_device(|device| {
        for dtype in [Dtype::Float16, Dtype::Bfloat16, Dtype::Float32] {
            let logits = filled(&[3, CLASSES], dtype, |i| 200.0 + noise(1, -3.0, 3.0)(i));
            let targets = Array::from_slice(&targets, &[3]).unwrap();
            let cotangents = array(&cotangents, &[3], Dtype::Float32);
            let got = along(&cotangents, &logits, |x| fast::cross_entropy(x, &targets));
            let (x, targets, cotangents) = (values(&logits), values(&targets), values(&cotangents));
            for (i, got) in got.into_iter().enumerate() {
                let (row, class) = (i / CLASSES, i % CLASSES);
                let hit = f64::from(class == targets[row] as usize);
                let want = (share(&x[row * CLASSES..][..CLASSES], class) - hit) * cotangents[row];
                let error = 1e-5 + want.abs() * epsilon(dtype);
                assert!((got - want).abs() < error, "{i} of {dtype} on {device}: {got} not {want}");
            }
        }
    });
}

/// The second derivative along a vector: of each share what it is more than the mean.
#[test]
fn second_derivatives_of_cross_entropy() {
    on_each_device(|device| {
        let (x, v) = ([0.5, -1.0, 2.0, 0.25], [1.0, -2.0, 0.5, 3.0]);
        let targets = Array::from_slice(&[1i32], &[1]).unwrap();
        let vector = array(&v, &[1, 4], Dtype::Float32);
        let loss = |x: &Array| ops::sum(&fast::cross_entropy(x, &targets)?, &[], false);
        let first = |x: &Array| ops::sum(&ops::multiply(&grad(loss, x)?, &vector)?, &[], false);
        let got = values(&grad(first, &array(&x, &[1, 4], Dtype::Float32)).unwrap());
        let shares: Vec<f64> = (0..4).map(|i| share(&x, i)).collect();
        let mean: f64 = shares.iter().zip(v).map(|(p, v)| p * v).sum();
        for i in 0..4 {
            let want = shares[i] * (v[i] - mean);
            assert!((got[i] - want).abs() < 1e-6, "{i} on {device}: {} not {want}", got[i]);
        }
    });
}

/// The share of an element in the sum of exponentials of all.
fn share(x: &[f64], i: usize) -> f64 {
    let largest = x.iter().copied().fold(f64::MIN, f64::max);
    let total: f64 = x.iter().map(|x| (x - largest).exp()).sum();
    (x[i] - largest).exp() / total
}

#[test]
fn mapped() {
    for axes in AXES {
        mapping::check_unary("softmax", &[3, 2, 4], |x| ops::softmax(x, axes, false));
        mapping::check_unary("logsumexp", &[3, 2, 4], |x| ops::logsumexp(x, axes, false));
    }
}
