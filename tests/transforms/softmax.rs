//! Derivatives and mapping of softmax, of its logarithm and of what is built on them.

use mlx::{Array, Dtype, fast, ops};
use mlx_tests::{array, on_each_device};

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

#[test]
fn mapped() {
    for axes in AXES {
        mapping::check_unary("softmax", &[3, 2, 4], |x| ops::softmax(x, axes, false));
        mapping::check_unary("logsumexp", &[3, 2, 4], |x| ops::logsumexp(x, axes, false));
    }
}
