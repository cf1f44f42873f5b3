//! Derivatives of functions of elements, some of them constant.

use std::f64::consts::LN_2;

use mlx::{
    Array, Dtype, Result, ops,
    transforms::{grad, jvp, tree},
};
use mlx_tests::{filled, on_each_device, values};

use super::{Function, assert_close, by, floats, ints, scalar};

/// The derivative of a function along ones.
fn along(fun: impl FnOnce(&Array) -> Result<Array>, at: &Array) -> Array {
    tree::jvp(fun, at, &ops::ones_like(at).unwrap()).unwrap().1
}

#[test]
fn tangents_of_comparisons_have_the_dtype_of_their_inputs() {
    on_each_device(|_| {
        let x = floats(&[1.0, -2.0, 3.0]);
        let compare: [Function<'_>; 6] = [
            &|x| ops::greater(x, 0.0f32),
            &|x| ops::less(x, 0.0f32),
            &|x| ops::equal(x, 0.0f32),
            &|x| ops::greater_equal(x, 0.0f32),
            &|x| ops::less_equal(x, 0.0f32),
            &|x| ops::not_equal(x, 0.0f32),
        ];
        for fun in compare {
            let tangent = along(fun, &x);
            assert_eq!((tangent.dtype(), values(&tangent)), (Dtype::Float32, vec![0.0; 3]));
        }
    });
}

#[test]
fn squares_have_derivatives_where_twice_their_root_is_beyond_the_dtype() {
    on_each_device(|_| {
        let x = filled(&[1], Dtype::Float16, |_| 40_000.0);
        let scaled = |x: &Array| ops::sum(&ops::multiply(&ops::square(x)?, 0.0625f32)?, &[], false);
        assert_eq!(values(&grad(scaled, &x).unwrap()), [5000.0]);
    });
}

#[test]
fn tangents_of_joined_masks_have_one_dtype() {
    on_each_device(|_| {
        let x = floats(&[1.0, -2.0, 3.0]);
        let mask = ops::less(&x, 2.0f32).unwrap();
        let (first, picked) = (ops::slice_axis(&mask, 0, 0, 1).unwrap(), ints(&[1, 1]));
        let positive = |x: &Array| ops::greater(x, 0.0f32);
        let masked: [Function<'_>; 4] = [
            &|x| ops::concatenate(&[&positive(x)?, &mask], 0),
            &|x| ops::slice_update(&positive(x)?, &first, &[0], &[1], &[1]),
            &|x| ops::scatter(&positive(x)?, &[&ints(&[0])], &ops::reshape(&first, &[1, 1])?, &[0]),
            &|x| ops::put_along_axis(&positive(x)?, &ints(&[2]), &first, 0),
        ];
        for fun in masked {
            let tangent = along(fun, &x);
            let zeros = vec![0.0; fun(&x).unwrap().size()];
            assert_eq!((tangent.dtype(), values(&tangent)), (Dtype::Float32, zeros));
        }
        // A conversion passes tangents on, which are integers here and floats in the array.
        let whole = |x: &Array| ops::astype(x, Dtype::Int32);
        let joined = |x: &Array| {
            ops::concatenate(&[&whole(x)?, &ops::astype(&positive(x)?, Dtype::Int32)?], 0)
        };
        assert_eq!(values(&along(joined, &x)), [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
        let largest = |x: &Array| {
            let updates = ops::reshape(&ops::astype(&positive(x)?, Dtype::Int32)?, &[3, 1])?;
            ops::scatter_max(&whole(x)?, &[&ints(&[0, 1, 2])], &updates, &[0])
        };
        assert_eq!(values(&along(largest, &x)).len(), 3);
        let added = |x: &Array| {
            ops::scatter_add_axis(
                &ops::zeros(&[3], Dtype::Bool)?,
                &picked,
                &ops::slice_axis(&positive(x)?, 0, 0, 2)?,
                0,
            )
        };
        assert_eq!(along(added, &x).dtype(), Dtype::Float32);
    });
}

#[test]
fn tangents_of_choices_with_constants() {
    on_each_device(|_| {
        let square = |t: &Array| ops::square(&ops::add(t, 1.0f32)?);
        let greater = |t: &Array| ops::greater(&square(t)?, -1.0f32);
        let less = |t: &Array| ops::less(&square(t)?, -1.0f32);
        let constant =
            |value: bool| Array::from_slice(&[mlx::dtype::Bool8::from(value)], &[]).unwrap();
        let cases: [Function<'_>; 4] = [
            &|t| ops::where_(&greater(t)?, &square(t)?, 999.0f32),
            &|t| ops::where_(&less(t)?, 999.0f32, &square(t)?),
            &|t| ops::where_(&constant(true), &square(t)?, 999.0f32),
            &|t| ops::where_(&constant(false), 999.0f32, &square(t)?),
        ];
        for fun in cases {
            assert_eq!(values(&along(fun, &scalar(0.5))), [3.0]);
        }
        let chosen = |c: &Array| ops::where_(&ops::greater(c, 0.0f32)?, scalar(2.0), scalar(3.0));
        let tangent = along(chosen, &scalar(1.0));
        assert_eq!((tangent.dtype(), values(&tangent)), (Dtype::Float32, vec![0.0]));
    });
}

#[test]
fn tangents_of_functions_of_a_constant_and_a_variable() {
    on_each_device(|_| {
        assert_close(&along(|y| ops::arctan2(y, 2.0f32), &scalar(1.0)), &[0.4]);
        assert_close(&along(|x| ops::arctan2(scalar(2.0), x), &scalar(1.0)), &[-0.4]);
        assert_close(&along(|a| ops::power(a, 3.0f32), &scalar(2.0)), &[12.0]);
        assert_close(&along(|b| ops::power(scalar(2.0), b), &scalar(3.0)), &[8.0 * LN_2]);
        let power = |x: &[Array]| Ok(vec![ops::power(&x[0], &x[1])?]);
        let at = [2.0, 3.0].map(scalar);
        for (tangents, want) in
            [([1.0, 0.0], 12.0), ([0.0, 1.0], 8.0 * LN_2), ([1.0; 2], 12.0 + 8.0 * LN_2)]
        {
            assert_close(&jvp(power, &at, &tangents.map(scalar)).unwrap().1[0], &[want]);
        }
        let remainder = |x: &[Array]| {
            let (quotient, rest) = ops::divmod(&x[0], 3.0f32)?;
            Ok(vec![quotient, ops::negative(&rest)?])
        };
        let (_, tangents) = jvp(remainder, &[scalar(7.5)], &[scalar(1.0)]).unwrap();
        assert_eq!([values(&tangents[0]), values(&tangents[1])], [[0.0], [0.0]]);
    });
}

#[test]
fn derivatives_go_past_bits_and_truths() {
    on_each_device(|_| {
        let x = floats(&[0.0, 1.0, 2.0]);
        let and = |x: &Array| {
            let both = ops::bitwise_and(&ops::equal(x, 0.0f32)?, &ops::greater(x, -1.0f32)?)?;
            ops::add(x, &ops::astype(&both, Dtype::Float32)?)
        };
        assert_eq!(values(&along(and, &x)), [1.0; 3]);
        let or = |x: &Array| {
            let either = ops::bitwise_or(&ops::equal(x, 0.0f32)?, &ops::greater(x, 1.0f32)?)?;
            ops::multiply(x, &ops::astype(&either, Dtype::Float32)?)
        };
        assert_eq!(values(&along(or, &x)), [1.0, 0.0, 1.0]);
        assert_eq!(values(&by(or, &x)), [1.0, 0.0, 1.0]);
    });
}

#[test]
fn powers_of_zero_have_derivatives() {
    on_each_device(|_| {
        for exponent in [2.0f32, 1.5] {
            assert_eq!(values(&by(|x| ops::power(x, exponent), &scalar(0.0))), [0.0]);
        }
        let fun = |[x, y]: &[Array; 2]| ops::power(&ops::subtract(x, y)?, x);
        let [by_x, _] = grad(fun, &[scalar(1.0), scalar(1.0)]).unwrap();
        assert_eq!(values(&by_x), [1.0]);
    });
}
