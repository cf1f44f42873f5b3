//! Derivatives and mapping of sorting, of searching and of what is built on them.

use mlx::{Array, Dtype, Result, ops};
use mlx_tests::{filled, noise, on_each_device};

use crate::{
    common::{along, check, gradient, random, row},
    mapping,
};

#[test]
fn derivatives_follow_the_elements() {
    let x = random(&[4, 6], 1);
    for axis in [0, 1] {
        check("sort", &x, |x| ops::sort(&ops::square(x)?, axis));
        check("partition", &x, |x| ops::partition(&ops::square(x)?, 2, axis));
        check("topk", &x, |x| ops::topk(&ops::square(x)?, 3, axis));
        check("median", &x, |x| ops::median(&ops::square(x)?, &[axis], true));
    }
    // Longer than what quick selection leaves to insertion.
    check("partition", &random(&[100], 2), |x| ops::partition(x, 40, 0));
    on_each_device(|_| {
        let cotangent = row(&[10.0, 20.0, 30.0, 40.0, 50.0]);
        let got = along(&cotangent, &row(&[3.0, 1.0, 2.0, 5.0, 4.0]), |x| ops::sort(x, 0));
        assert_eq!(got, [30.0, 10.0, 20.0, 50.0, 40.0]);
        let got = gradient(&[1.0, 2.0, 6.0, 4.0, 5.0], |x| ops::topk(x, 2, 0));
        assert_eq!(got, [0.0, 0.0, 1.0, 0.0, 1.0]);
    });
}

#[test]
fn each_of_equal_elements_has_its_derivative() {
    on_each_device(|_| {
        let x = [1.0, 0.0, 1.0, 0.0, 1.0, 1.0];
        assert_eq!(gradient(&x, |x| ops::sort(x, 0)), [1.0; 6]);
        assert_eq!(gradient(&x, |x| ops::partition(x, 3, 0)), [1.0; 6]);
        let empty = ops::zeros(&[0, 2], Dtype::Float32).unwrap();
        assert!(along(&empty, &empty, |x| ops::sort(x, 0)).is_empty());
        assert!(along(&empty, &empty, |x| ops::partition(x, 1, 1)).is_empty());
    });
}

#[test]
fn indices_have_no_derivative() {
    on_each_device(|_| {
        let x = [0.5, 2.0, 1.0];
        let scaled = |indices: Result<Array>, x: &Array| {
            ops::multiply(&ops::astype(&indices?, Dtype::Float32)?, x)
        };
        assert_eq!(gradient(&x, |x| scaled(ops::argsort(x, 0), x)), [0.0, 2.0, 1.0]);
        let search = |x: &Array| scaled(ops::searchsorted(&row(&[0.0, 1.0, 2.0]), x, "left"), x);
        assert_eq!(gradient(&x, search), [1.0, 2.0, 1.0]);
    });
}

#[test]
fn mapped() {
    for axis in [0, 1] {
        mapping::check_unary("sort", &[3, 5], |x| ops::sort(x, axis));
        mapping::check_unary("argsort", &[3, 5], |x| ops::argsort(x, axis));
        mapping::check_unary("topk", &[3, 5], |x| ops::sort(&ops::topk(x, 2, axis)?, axis));
        mapping::check_unary("median", &[3, 5], |x| ops::median(x, &[axis], false));
    }
}

#[test]
fn mapped_searches() {
    let sorted = row(&[0.0, 1.0, 1.0, 2.0, 3.0]);
    let inputs = |seed| vec![filled(&[3, 5], Dtype::Float32, noise(seed, -1.0, 4.0))];
    for side in ["left", "right"] {
        mapping::check_function(side, inputs, |x| {
            Ok(vec![ops::searchsorted(&sorted, &x[0], side)?])
        });
    }
}
