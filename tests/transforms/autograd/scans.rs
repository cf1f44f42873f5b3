//! Derivatives of reductions, scans and sorts.

use mlx::{
    Array, Result, ops,
    transforms::{grad, tree},
};
use mlx_tests::{on_each_device, values};

use super::{Function, assert_close, by, floats, random, shaped};

#[test]
fn tangents_of_reductions() {
    on_each_device(|_| {
        let (a, b) = (floats(&[0.0, 1.0, 2.0, 3.0]), floats(&[3.0, 2.0, 1.0, 0.0]));
        type Reduction = fn(&Array, &[isize], bool) -> Result<Array>;
        let cases: [(Reduction, f64); 4] =
            [(ops::sum, 6.0), (ops::prod, 18.0), (ops::min, 3.0), (ops::max, 0.0)];
        for (reduce, want) in cases {
            let (_, along) = tree::jvp(|a| reduce(a, &[], false), &a, &b).unwrap();
            assert_eq!(values(&along), [want]);
        }
    });
}

/// The sum of products of the elements up to each one, differentiated by hand: of all products that have the
/// element as a factor, what is left of them.
fn by_hand(x: &[f64], reverse: bool, inclusive: bool) -> Vec<f64> {
    let n = x.len();
    let factors = |i: usize| -> Vec<usize> {
        match (reverse, inclusive) {
            (false, true) => (0..i + 1).collect(),
            (false, false) => (0..i).collect(),
            (true, true) => (i..n).collect(),
            (true, false) => (i + 1..n).collect(),
        }
    };
    let of = |j: usize| {
        let products = (0..n).map(factors).filter(|f| f.contains(&j));
        products.map(|f| f.iter().filter(|&&k| k != j).map(|&k| x[k]).product::<f64>()).sum()
    };
    (0..n).map(of).collect()
}

#[test]
fn products_so_far_have_derivatives_also_at_zeros() {
    on_each_device(|_| {
        for x in [[2.0, 1.0, 3.0, 2.0, 5.0], [2.0, 0.0, 3.0, 2.0, 5.0], [2.0, 0.0, 3.0, 0.0, 5.0]] {
            let at = shaped(&x, &[5]);
            for (reverse, inclusive) in [(false, true), (false, false), (true, true), (true, false)]
            {
                let got = by(|x| ops::cumprod(x, Some(0), reverse, inclusive, None), &at);
                assert_close(&got, &by_hand(&x, reverse, inclusive));
            }
        }
    });
}

#[test]
fn the_last_of_equal_extremes_has_the_derivative() {
    on_each_device(|_| {
        let a = floats(&[3.0, 3.0, 1.0, 5.0, 5.0]);
        let max =
            |reverse, inclusive| values(&by(|a| ops::cummax(a, Some(0), reverse, inclusive), &a));
        assert_eq!(max(false, true), [1.0, 2.0, 0.0, 1.0, 1.0]);
        assert_eq!(max(false, false), [1.0, 2.0, 0.0, 1.0, 0.0]);
        assert_eq!(max(true, true), [0.0, 0.0, 0.0, 4.0, 1.0]);
        assert_eq!(max(true, false), [0.0, 0.0, 0.0, 3.0, 1.0]);
        let min =
            |reverse, inclusive| values(&by(|a| ops::cummin(a, Some(0), reverse, inclusive), &a));
        assert_eq!(min(false, true), [1.0, 1.0, 3.0, 0.0, 0.0]);
        assert_eq!(min(false, false), [1.0, 1.0, 2.0, 0.0, 0.0]);
        assert_eq!(min(true, true), [0.0, 0.0, 3.0, 1.0, 1.0]);
        assert_eq!(min(true, false), [0.0, 0.0, 2.0, 1.0, 1.0]);
        let cotangent = floats(&[10.0, 1.0, 1.0, 100.0, 1000.0]);
        let (_, by) = tree::vjp(|a| ops::cummax(a, Some(0), false, true), &a, &cotangent).unwrap();
        assert_eq!(values(&by), [10.0, 2.0, 0.0, 100.0, 1000.0]);
    });
}

#[test]
fn what_is_sorted_sends_its_cotangents_back() {
    on_each_device(|_| {
        let x = floats(&[3.0, 1.0, 2.0, 5.0, 4.0]);
        let cotangent = floats(&[10.0, 20.0, 30.0, 40.0, 50.0]);
        let (_, by_x) = tree::vjp(|x| ops::sort(x, 0), &x, &cotangent).unwrap();
        assert_eq!(values(&by_x), [30.0, 10.0, 20.0, 50.0, 40.0]);
        let rows = shaped(&[1.0, 2.0, 6.0, 4.0, 5.0, 9.0, 5.0, 6.0, 7.0, 8.0], &[2, 5]);
        let top = by(|x| ops::topk(x, 2, -1), &rows);
        assert_eq!(values(&top), [0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    });
}

#[test]
fn cotangents_and_tangents_agree() {
    on_each_device(|_| {
        let dot = |a: &Array, b: &Array| -> f64 {
            values(a).iter().zip(values(b)).map(|(a, b)| a * b).sum()
        };
        let (a, tangent) = (random(&[4, 6], 1), random(&[4, 6], 2));
        let cases: [Function<'_>; 5] = [
            &|a| ops::sort(a, 0),
            &|a| ops::sort(a, 1),
            &|a| ops::sort(a, -1),
            &|a| ops::logsumexp(a, &[-1], true),
            &|a| ops::logsumexp(a, &[-1], false),
        ];
        for fun in cases {
            let (out, along) = tree::jvp(fun, &a, &tangent).unwrap();
            assert_eq!(along.shape(), out.shape());
            let cotangent = random(out.shape(), 3);
            let (_, back) = tree::vjp(fun, &a, &cotangent).unwrap();
            assert!((dot(&cotangent, &along) - dot(&tangent, &back)).abs() < 1e-5);
        }
    });
}

#[test]
fn permutations_are_constant_to_second_derivatives() {
    on_each_device(|_| {
        let x = floats(&[3.0, 1.0, 2.0, 5.0]);
        let v = floats(&[1.0, -2.0, 0.5, 1.5]);
        let cases: [Function<'_>; 8] = [
            &|a| ops::sort(a, 0),
            &|a| ops::partition(a, 2, 0),
            &|a| ops::topk(a, 2, 0),
            &|a| ops::cummax(a, Some(0), false, true),
            &|a| ops::cummin(a, Some(0), false, true),
            &|a| ops::cummax(a, Some(0), true, true),
            &|a| ops::cummax(a, Some(0), false, false),
            &|a| ops::cummin(a, Some(0), true, false),
        ];
        for fun in cases {
            let first = |a: &Array| grad(|a| ops::sum(&ops::square(&fun(a)?)?, &[], false), a);
            let got = by(|a| ops::multiply(&first(a)?, &v), &x);
            // The gradient is linear as long as the order stays.
            let moved = ops::add(&x, ops::multiply(&v, 0.0625f32).unwrap()).unwrap();
            let step = ops::subtract(first(&moved).unwrap(), first(&x).unwrap()).unwrap();
            let want: Vec<f64> = values(&step).iter().map(|d| d * 16.0).collect();
            assert_close(&got, &want);
        }
    });
}
