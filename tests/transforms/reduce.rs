//! Derivatives and mapping of reductions and of what is built on them.

use std::slice::from_ref;

use mlx::{Array, Dtype, Result, ops, transforms::jvp};
use mlx_tests::{array, on_each_device, values};

use crate::{
    common::{along, check, gradient, random},
    mapping,
};

const AXES: [&[isize]; 5] = [&[0], &[1], &[-1], &[0, 2], &[]];

#[test]
fn derivatives_over_several_axes() {
    let x = random(&[2, 3, 4], 1);
    for axes in AXES {
        for keepdims in [true, false] {
            check("sum", &x, |x| ops::sum(&ops::square(x)?, axes, keepdims));
            check("prod", &x, |x| ops::prod(x, axes, keepdims));
            check("max", &x, |x| ops::max(&ops::square(x)?, axes, keepdims));
            check("min", &x, |x| ops::min(x, axes, keepdims));
            check("mean", &x, |x| ops::mean(&ops::square(x)?, axes, keepdims));
            check("var", &x, |x| ops::var(x, axes, keepdims, 1));
            check("std", &x, |x| ops::std(x, axes, keepdims, 0));
        }
    }
}

#[test]
fn derivatives_of_products_with_zeros() {
    let rows = [2.0, 0.5, 3.0, 0.0, 0.0, 1.5, 0.0, 2.5, 0.0, 0.0, 0.0, 3.0];
    let x = array(&rows, &[4, 3], Dtype::Float64);
    for axes in [&[1][..], &[0], &[0, 1]] {
        check("prod", &x, |x| ops::prod(x, axes, false));
    }
    on_each_device(|_| {
        assert_eq!(gradient(&[2.0, 0.0, 3.0], |x| ops::prod(x, &[], false)), [0.0, 6.0, 0.0]);
        assert_eq!(gradient(&[2.0, 0.0, 0.0], |x| ops::prod(x, &[], false)), [0.0; 3]);
    });
}

#[test]
fn equal_extremes_share_the_derivative() {
    on_each_device(|_| {
        let x = [3.0, 1.0, 3.0, 1.0, 1.0];
        assert_eq!(gradient(&x, |x| ops::max(x, &[], false)), [0.5, 0.0, 0.5, 0.0, 0.0]);
        let third = f64::from(1.0f32 / 3.0);
        assert_eq!(gradient(&x, |x| ops::min(x, &[], false)), [0.0, third, 0.0, third, third]);
    });
}

#[test]
fn the_first_of_equal_extremes_has_the_tangent() {
    on_each_device(|_| {
        let x = array(&[1.0, 2.0, 2.0, 2.0, 1.0, 2.0], &[2, 3], Dtype::Float32);
        let tangent = array(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0], &[2, 3], Dtype::Float32);
        let along = |reduce: fn(&Array, &[isize], bool) -> Result<Array>, axes: &[isize]| {
            let apply = |x: &[Array]| Ok(vec![reduce(&x[0], axes, false)?]);
            let (_, tangents) = jvp(apply, from_ref(&x), from_ref(&tangent)).unwrap();
            values(&tangents[0])
        };
        assert_eq!(along(ops::max, &[]), [2.0]);
        assert_eq!(along(ops::min, &[]), [1.0]);
        assert_eq!(along(ops::max, &[0]), [8.0, 2.0, 4.0]);
        assert_eq!(along(ops::max, &[1]), [2.0, 8.0]);
        assert_eq!(along(ops::min, &[1]), [1.0, 16.0]);
    });
}

#[test]
fn derivatives_of_integers_stay_integers() {
    on_each_device(|_| {
        let ints = |x: &[i32]| Array::from_slice(x, &[x.len()]).unwrap();
        let along_tangent = |reduce: fn(&Array, &[isize], bool) -> Result<Array>| {
            let apply = |x: &[Array]| Ok(vec![reduce(&x[0], &[], false)?]);
            let (_, tangents) = jvp(apply, &[ints(&[0, 1, 2, 3])], &[ints(&[3, 2, 1, 0])]).unwrap();
            assert_eq!(tangents[0].dtype(), Dtype::Int32);
            values(&tangents[0])[0]
        };
        assert_eq!(along_tangent(ops::sum), 6.0);
        assert_eq!(along_tangent(ops::prod), 18.0);
        assert_eq!(along_tangent(ops::min), 3.0);
        assert_eq!(along_tangent(ops::max), 0.0);
    });
}

#[test]
fn derivatives_without_elements() {
    on_each_device(|_| {
        let x = ops::zeros(&[0, 3], Dtype::Float32).unwrap();
        for axes in [&[0][..], &[1], &[0, 1]] {
            for reduce in [ops::sum, ops::prod] {
                let apply = |x: &Array| reduce(x, axes, false);
                let cotangent = ops::ones_like(&apply(&x).unwrap()).unwrap();
                assert!(along(&cotangent, &x, apply).is_empty());
            }
        }
        let apply = |x: &Array| ops::max(x, &[1], false);
        assert!(along(&ops::zeros(&[0], Dtype::Float32).unwrap(), &x, apply).is_empty());
    });
}

#[test]
fn indices_have_no_derivative() {
    on_each_device(|_| {
        let fun = |x: &Array| {
            let index = ops::argmax(x, Some(0), true)?;
            ops::multiply(&ops::astype(&index, Dtype::Float32)?, x)
        };
        assert_eq!(gradient(&[1.0, 4.0, 2.0], fun), [1.0; 3]);
        let fun = |x: &Array| ops::multiply(&ops::astype(&ops::all(x, &[], false)?, x.dtype())?, x);
        assert_eq!(gradient(&[1.0, 4.0, 2.0], fun), [1.0; 3]);
    });
}

#[test]
fn mapped() {
    for axes in AXES {
        mapping::check_unary("sum", &[3, 2, 4], |x| ops::sum(x, axes, false));
        mapping::check_unary("prod", &[3, 2, 4], |x| ops::prod(x, axes, true));
        mapping::check_unary("max", &[3, 2, 4], |x| ops::max(x, axes, false));
        mapping::check_unary("any", &[3, 2, 4], |x| {
            ops::any(&ops::greater(x, 0.8f32)?, axes, true)
        });
        mapping::check_unary("var", &[3, 2, 4], |x| ops::var(x, axes, false, 0));
    }
    for axis in [None, Some(0), Some(1), Some(-1)] {
        mapping::check_unary("argmax", &[3, 2, 4], |x| ops::argmax(x, axis, false));
        mapping::check_unary("argmin", &[3, 2, 4], |x| ops::argmin(x, axis, true));
    }
}
