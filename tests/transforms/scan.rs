//! Derivatives and mapping of cumulative reductions.

use mlx::{Array, Dtype, Result, ops};
use mlx_tests::{array, filled, noise, on_each_device};

use crate::{
    common::{along, check, gradient, random},
    mapping,
};

/// A scan along an axis: its name and the operation.
type Scan = (&'static str, fn(&Array, isize, bool, bool) -> Result<Array>);

const SCANS: [Scan; 5] = [
    ("cumsum", |a, axis, reverse, inclusive| {
        ops::cumsum(&ops::square(a)?, Some(axis), reverse, inclusive, None)
    }),
    ("cumprod", |a, axis, reverse, inclusive| {
        ops::cumprod(a, Some(axis), reverse, inclusive, None)
    }),
    ("cummax", |a, axis, reverse, inclusive| ops::cummax(a, Some(axis), reverse, inclusive)),
    ("cummin", |a, axis, reverse, inclusive| ops::cummin(a, Some(axis), reverse, inclusive)),
    ("logcumsumexp", |a, axis, reverse, inclusive| {
        ops::logcumsumexp(a, Some(axis), reverse, inclusive)
    }),
];

const MODES: [(bool, bool); 4] = [(false, true), (true, true), (false, false), (true, false)];

/// The results that have inputs: an exclusive scan begins with one that has none and may be infinite.
fn dependent(a: &Array, axis: isize, (reverse, inclusive): (bool, bool)) -> Result<Array> {
    let n = a.dim(axis) as isize;
    match (inclusive, reverse) {
        (true, _) => Ok(a.clone()),
        (false, false) => ops::slice_axis(a, axis, 1.min(n), n),
        (false, true) => ops::slice_axis(a, axis, 0, (n - 1).max(0)),
    }
}

#[test]
fn derivatives_from_both_ends() {
    for shape in [&[3, 5][..], &[1, 8], &[4, 1]] {
        let x = random(shape, 1);
        for (name, scan) in SCANS {
            for axis in [0, 1] {
                for mode in MODES {
                    if x.dim(axis) > 1 || mode.1 {
                        let name = format!("{name} {shape:?} {axis} {mode:?}");
                        check(&name, &x, |x| {
                            dependent(&scan(x, axis, mode.0, mode.1)?, axis, mode)
                        });
                    }
                }
            }
        }
    }
}

#[test]
fn derivatives_of_products_with_zeros() {
    let rows = [2.0, 0.0, 3.0, 1.5, 0.0, 0.5, 0.0, 2.5, 0.0, 0.0, 3.0, 1.0];
    let x = array(&rows, &[3, 4], Dtype::Float64);
    for (reverse, inclusive) in MODES {
        check("cumprod", &x, |x| ops::cumprod(x, Some(1), reverse, inclusive, None));
    }
    on_each_device(|_| {
        let x = [2.0, 0.0, 2.0, 0.0, 3.0];
        let of = |mode: (bool, bool)| gradient(&x, |x| ops::cumprod(x, None, mode.0, mode.1, None));
        assert_eq!(of((false, true)), [1.0, 6.0, 0.0, 0.0, 0.0]);
        assert_eq!(of((false, false)), [1.0, 6.0, 0.0, 0.0, 0.0]);
        assert_eq!(of((true, false)), [0.0, 0.0, 0.0, 9.0, 1.0]);
        assert_eq!(of((true, true)), [0.0, 0.0, 0.0, 9.0, 1.0]);
    });
}

#[test]
fn the_latest_of_equal_extremes_has_the_derivative() {
    on_each_device(|_| {
        let x = [3.0, 3.0, 1.0, 5.0, 5.0];
        let max = |mode: (bool, bool)| gradient(&x, |x| ops::cummax(x, None, mode.0, mode.1));
        let min = |mode: (bool, bool)| gradient(&x, |x| ops::cummin(x, None, mode.0, mode.1));
        assert_eq!(max((false, true)), [1.0, 2.0, 0.0, 1.0, 1.0]);
        assert_eq!(max((false, false)), [1.0, 2.0, 0.0, 1.0, 0.0]);
        assert_eq!(max((true, true)), [0.0, 0.0, 0.0, 4.0, 1.0]);
        assert_eq!(max((true, false)), [0.0, 0.0, 0.0, 3.0, 1.0]);
        assert_eq!(min((false, true)), [1.0, 1.0, 3.0, 0.0, 0.0]);
        assert_eq!(min((false, false)), [1.0, 1.0, 2.0, 0.0, 0.0]);
        assert_eq!(min((true, true)), [0.0, 0.0, 3.0, 1.0, 1.0]);
        assert_eq!(min((true, false)), [0.0, 0.0, 2.0, 1.0, 1.0]);
    });
}

#[test]
fn logarithms_of_zero_have_derivatives() {
    on_each_device(|_| {
        let x = [f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0];
        assert_eq!(gradient(&x, |x| ops::logcumsumexp(x, None, true, true)), [0.0, 0.0, 3.0]);
        let last = |x: &Array| ops::slice_axis(&ops::logcumsumexp(x, None, false, true)?, 0, 2, 3);
        assert_eq!(gradient(&x, last), [0.0, 0.0, 1.0]);
    });
}

#[test]
fn derivatives_without_elements() {
    on_each_device(|_| {
        let x = ops::zeros(&[2, 0], Dtype::Float32).unwrap();
        for (_, scan) in SCANS {
            for axis in [0, 1] {
                for (reverse, inclusive) in MODES {
                    assert!(along(&x, &x, |x| scan(x, axis, reverse, inclusive)).is_empty());
                }
            }
        }
    });
}

#[test]
fn mapped() {
    let inputs = |seed| vec![filled(&[3, 4], Dtype::Float32, noise(seed, 0.1, 0.9))];
    for (name, scan) in SCANS {
        for axis in [0, 1] {
            for (reverse, inclusive) in MODES {
                mapping::check_function(name, inputs, |x| {
                    Ok(vec![scan(&x[0], axis, reverse, inclusive)?])
                });
            }
        }
    }
}
