//! What upstream promises of functions that are mapped over axes.

mod indexing;
mod products;

use mlx::{
    Array, Dtype, Index, Result, ops,
    transforms::tree::{Axes, vmap},
};
use mlx_tests::{array, filled, noise, on_each_device, values};

pub(crate) fn random(shape: &[usize], seed: u64) -> Array {
    filled(shape, Dtype::Float32, noise(seed, 0.1, 0.9))
}

pub(crate) fn counted(shape: &[usize], dtype: Dtype) -> Array {
    filled(shape, dtype, |i| i as f64)
}

fn turned(a: &Array) -> Array {
    ops::transpose(a, &[]).unwrap()
}

#[track_caller]
pub(crate) fn assert_same(got: &Array, want: &Array) {
    assert_eq!((got.shape(), got.dtype()), (want.shape(), want.dtype()));
    let (got, want) = (values(got), values(want));
    let far = |(a, b): (&f64, &f64)| {
        !((a - b).abs() <= 1e-5 * b.abs().max(1.0) || a.is_nan() && b.is_nan())
    };
    assert!(!got.iter().zip(&want).any(far), "{got:?} not {want:?}");
}

/// A function of one array over `axis` is the function of each index.
#[track_caller]
fn assert_loop(fun: impl Fn(&Array) -> Result<Array>, a: &Array, axis: isize) {
    let each: Vec<Array> =
        ops::unstack(a, axis).unwrap().iter().map(|part| fun(part).unwrap()).collect();
    let want = ops::stack(&each.iter().collect::<Vec<_>>(), 0).unwrap();
    assert_same(&vmap(&fun, a, axis, 0).unwrap(), &want);
}

fn error(
    fun: impl Fn(&Array) -> Result<Array>,
    a: &Array,
    to: impl Into<Axes>,
    out: isize,
) -> String {
    vmap(fun, a, to, out).map(drop).unwrap_err().to_string()
}

#[test]
fn axes_that_arrays_do_not_have_are_refused() {
    on_each_device(|_| {
        let scalar = Array::scalar(1.0f32).unwrap();
        assert_eq!(
            error(ops::exp, &scalar, 0, 0),
            "[vmap] Cannot vmap an input with zero dimensions."
        );
        let row = random(&[2], 1);
        let input = "[vmap] Axis 2 invalid for input with 1 dimensions.";
        assert_eq!(error(ops::exp, &row, 2, 0), input);
        let output = "[vmap] Axis 2 invalid for output with 1 dimensions.";
        assert_eq!(error(ops::exp, &row, 0, 2), output);
        let sizes = |a: &[usize], b: &[usize], axes: [isize; 2]| {
            let both = [random(a, 1), random(b, 2)];
            let sum = |[a, b]: &[Array; 2]| ops::add(a, b);
            vmap(sum, &both, axes, 0).map(drop).unwrap_err().to_string()
        };
        let want = "[vmap] Inconsistent axis sizes: 10 and 1.";
        assert_eq!(sizes(&[10, 1], &[1, 1, 1, 5], [0, 0]), want);
        assert_eq!(sizes(&[10, 1], &[10, 5], [0, 1]), "[vmap] Inconsistent axis sizes: 10 and 5.");
    });
}

#[test]
fn functions_of_elements() {
    on_each_device(|_| {
        let unary = [
            ops::abs,
            ops::cos,
            ops::erf,
            ops::erfinv,
            ops::exp,
            ops::log,
            ops::log1p,
            ops::log2,
            ops::log10,
            ops::logical_not,
            ops::negative,
            ops::reciprocal,
            ops::rsqrt,
            ops::sigmoid,
            ops::sign,
            ops::sin,
            ops::sqrt,
            ops::square,
            ops::degrees,
            ops::radians,
        ];
        let a = random(&[2, 4], 1);
        for op in unary {
            let want = op(&a).unwrap();
            assert_same(&vmap(op, &a, 0, 0).unwrap(), &want);
            assert_same(&vmap(op, &a, 1, 1).unwrap(), &want);
            assert_same(&vmap(op, &a, -1, 0).unwrap(), &turned(&want));
            assert_same(&vmap(op, &random(&[5], 2), 0, 0).unwrap(), &op(&random(&[5], 2)).unwrap());
        }
    });
}

#[test]
fn functions_of_two_arrays() {
    on_each_device(|_| {
        type Binary = fn(&Array, &Array) -> Result<Array>;
        let binary: [Binary; 15] = [
            |a, b| ops::add(a, b),
            |a, b| ops::divide(a, b),
            |a, b| ops::equal(a, b),
            |a, b| ops::greater(a, b),
            |a, b| ops::greater_equal(a, b),
            |a, b| ops::less(a, b),
            |a, b| ops::less_equal(a, b),
            |a, b| ops::logaddexp(a, b),
            |a, b| ops::maximum(a, b),
            |a, b| ops::minimum(a, b),
            |a, b| ops::multiply(a, b),
            |a, b| ops::power(a, b),
            |a, b| ops::subtract(a, b),
            |a, b| ops::logical_or(a, b),
            |a, b| ops::logical_and(a, b),
        ];
        for op in binary {
            let fun = |[a, b]: &[Array; 2]| op(a, b);
            let both = [random(&[2, 4], 1), random(&[2, 4], 2)];
            assert_same(&vmap(fun, &both, 0, 0).unwrap(), &fun(&both).unwrap());
            let crossed = [both[0].clone(), turned(&both[1])];
            let want = fun(&both).unwrap();
            assert_same(&vmap(fun, &crossed, [0, 1], 0).unwrap(), &want);
            assert_same(&vmap(fun, &crossed, [0, 1], 1).unwrap(), &turned(&want));
        }
    });
}

#[test]
fn results_that_depend_on_nothing_are_repeated() {
    on_each_device(|_| {
        let both = [random(&[2, 3, 4], 1), random(&[4, 3], 2)];
        let constant = |_: &[Array; 2]| Array::scalar(2i32);
        let of = |axes: [Option<isize>; 2]| vmap(constant, &both, axes, 0);
        for (axes, size) in [([Some(0), None], 2), ([None, Some(0)], 4), ([Some(1), Some(1)], 3)] {
            assert_same(&of(axes).unwrap(), &array(&vec![2.0; size], &[size], Dtype::Int32));
        }
        let none = of([None, None]).map(drop).unwrap_err().to_string();
        assert_eq!(none, "[vmap] At least one of in_axes must be non-None.");
        let sizes = of([Some(0), Some(0)]).map(drop).unwrap_err().to_string();
        assert_eq!(sizes, "[vmap] Inconsistent axis sizes: 2 and 4.");
    });
}

#[test]
fn reductions_sorts_and_shapes() {
    on_each_device(|_| {
        let ones = ops::ones(&[5, 3, 2], Dtype::Int32).unwrap();
        for (axis, want) in [(0, [6.0; 5].to_vec()), (1, vec![10.0; 3]), (2, vec![15.0; 2])] {
            let sum = vmap(|x| ops::sum(x, &[0, 1], false), &ones, axis, 0).unwrap();
            assert_eq!(values(&sum), want);
        }
        let a = filled(&[2, 3, 4], Dtype::Float32, |i| (i * 7 % 24) as f64);
        for axis in 0..3 {
            assert_loop(|x| ops::sum(x, &[], true), &a, axis);
            assert_loop(|x| ops::mean(x, &[], false), &a, axis);
            assert_loop(|x| ops::argmin(x, None, false), &a, axis);
            assert_loop(|x| ops::argmax(x, Some(1), true), &a, axis);
            assert_loop(|x| ops::flatten(x, 0, 1), &a, axis);
            for inner in [0, 1, -1] {
                assert_loop(|x| ops::sort(x, inner), &a, axis);
                assert_loop(|x| ops::argsort(x, inner), &a, axis);
            }
            assert_loop(|x| ops::pad(x, &[(1, 2), (0, 1)], "constant", 5.0f32), &a, axis);
            assert_loop(|x| ops::roll(x, &[1], &[0]), &a, axis);
        }
        let inner = |x: &Array| vmap(|x| ops::mean(x, &[], false), x, 0, 0);
        assert_same(&vmap(inner, &a, 0, 0).unwrap(), &ops::mean(&a, &[2], false).unwrap());
    });
}

#[test]
fn values_around_padded_arrays_are_the_same_for_every_index() {
    on_each_device(|_| {
        let a = random(&[2, 3, 4], 0);
        let five = Array::scalar(5.0f32).unwrap();
        let padded = |x: &Array, value: &Array| ops::pad(x, &[(1, 1)], "constant", value);
        assert_loop(|x| padded(x, &five), &a, 1);
        let values = random(&[2], 1);
        let error = error(|value| padded(&a, value), &values, 0, 0);
        assert_eq!(error, "[Pad::vmap] Vmap over padding value is not supported.");
    });
}

#[test]
fn parts_of_partitions_are_those_of_each_index() {
    on_each_device(|_| {
        let a = filled(&[2, 3, 4], Dtype::Float32, |i| (i * 7 % 24) as f64);
        for axis in 0..3 {
            // Only the element at `kth` has a place of its own.
            for inner in [0, 1] {
                let nth = |x: &Array| {
                    let parts = ops::partition(x, 1, inner)?;
                    let chosen = ops::take_along_axis(x, &ops::argpartition(x, 1, inner)?, inner)?;
                    let at = |x: &Array| ops::slice_axis(x, inner, 1, 2);
                    ops::stack(&[&at(&parts)?, &at(&chosen)?], 0)
                };
                assert_loop(nth, &a, axis);
                assert_loop(|x| ops::sort(&ops::topk(x, 2, inner)?, inner), &a, axis);
            }
        }
    });
}

#[test]
fn concatenations_and_splits() {
    on_each_device(|_| {
        let a = random(&[2, 2, 2], 1);
        let join = |[a, b]: &[Array; 2]| ops::concatenate(&[a, b], 1);
        let each: Vec<Array> = (0..2)
            .map(|i: i32| {
                let first = a.get_item(&[i.into()]).unwrap();
                let last = a.get_item(&[Index::Ellipsis, i.into()]).unwrap();
                join(&[first, last]).unwrap()
            })
            .collect();
        let want = ops::stack(&[&each[0], &each[1]], 0).unwrap();
        assert_same(&vmap(join, &[a.clone(), a.clone()], [0, 2], 0).unwrap(), &want);
        let with_ones = |x: &Array| ops::concatenate(&[x, &ops::ones(&[2, 1], Dtype::Float32)?], 1);
        assert_loop(with_ones, &a, 0);
        let swapped = |x: &Array| {
            let parts = ops::split(x, 2, 1)?;
            ops::concatenate(&[&parts[1], &parts[0]], 1)
        };
        assert_loop(swapped, &random(&[5, 4, 6, 7], 2), 1);
    });
}
