//! What upstream promises of derivatives, for every primitive alike.

mod complex;
mod elements;
mod indexing;
mod scans;

use mlx::{
    Array, Dtype, Index, Result, eval, ops,
    transforms::{grad, jvp, tree, value_and_grad_of, vjp},
};
use mlx_tests::{array, filled, noise, on_each_device, values};

/// A function of one array.
pub(crate) type Function<'a> = &'a dyn Fn(&Array) -> Result<Array>;

pub(crate) fn scalar(value: f32) -> Array {
    Array::scalar(value).unwrap()
}

pub(crate) fn floats(values: &[f32]) -> Array {
    Array::from_slice(values, &[values.len()]).unwrap()
}

pub(crate) fn ints(values: &[i32]) -> Array {
    Array::from_slice(values, &[values.len()]).unwrap()
}

/// Numbers in a shape.
pub(crate) fn shaped(values: &[f64], shape: &[usize]) -> Array {
    array(values, shape, Dtype::Float32)
}

pub(crate) fn random(shape: &[usize], seed: u64) -> Array {
    filled(shape, Dtype::Float32, noise(seed, -1.0, 1.0))
}

#[track_caller]
pub(crate) fn assert_close(got: &Array, want: &[f64]) {
    let got = values(got);
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
    assert!(got.len() == want.len() && got.iter().zip(want).all(near), "{got:?} not {want:?}");
}

/// The gradient of the sum of what a function returns.
pub(crate) fn by(fun: impl FnOnce(&Array) -> Result<Array>, at: &Array) -> Array {
    grad(|x| ops::sum(&fun(x)?, &[], false), at).unwrap()
}

#[test]
fn derivatives_of_products() {
    on_each_device(|_| {
        let doubled = |x: &Array| ops::multiply(x, 2.0f32);
        let (out, tangent) = tree::jvp(doubled, &scalar(1.5), &scalar(2.0)).unwrap();
        assert_eq!((values(&out), values(&tangent)), (vec![3.0], vec![4.0]));
        let (out, by) = tree::vjp(doubled, &scalar(1.5), &scalar(2.0)).unwrap();
        assert_eq!((values(&out), values(&by)), (vec![3.0], vec![4.0]));
        let chain =
            |x: &[Array]| Ok(vec![ops::multiply(&x[0], &x[1])?, ops::multiply(&x[1], &x[2])?]);
        let at = [2.0, 3.0, 5.0].map(scalar);
        let (_, tangents) = jvp(chain, &at, &[1.0, 4.0, 2.0].map(scalar)).unwrap();
        assert_eq!(values(&tangents[0]), [3.0 * 1.0 + 2.0 * 4.0]);
        assert_eq!(values(&tangents[1]), [5.0 * 4.0 + 3.0 * 2.0]);
        let (_, by) = vjp(chain, &at, &[1.0, 4.0].map(scalar)).unwrap();
        let by: Vec<f64> = by.iter().flat_map(values).collect();
        assert_eq!(by, [3.0, 2.0 + 5.0 * 4.0, 3.0 * 4.0]);
    });
}

#[test]
fn gradients_are_by_the_arguments_asked_for() {
    on_each_device(|_| {
        let product = |x: &[Array]| Ok(vec![ops::multiply(&x[0], &x[1])?, ops::exp(&x[0])?]);
        let at = [2.0, 3.0].map(scalar);
        let of = |arguments: &[isize]| -> Vec<f64> {
            let (_, by) = value_and_grad_of(product, &at, arguments).unwrap();
            by.iter().flat_map(values).collect()
        };
        assert_eq!((of(&[0]), of(&[1]), of(&[-1])), (vec![3.0], vec![2.0], vec![2.0]));
        assert_eq!((of(&[0, 1]), of(&[1, 0])), (vec![3.0, 2.0], vec![2.0, 3.0]));
        let error = |arguments: &[isize]| {
            value_and_grad_of(product, &at, arguments).map(drop).unwrap_err().to_string()
        };
        assert_eq!(error(&[]), "[grad] Must specify at least one argument.");
        assert_eq!(error(&[1, -1]), "[grad] Repeat argument number not allowed in grad.");
        let invalid = "[grad] Invalid argument number for function with 2 inputs.";
        assert_eq!((error(&[2]), error(&[-3])), (invalid.into(), invalid.into()));
    });
}

#[test]
fn what_is_captured_is_constant() {
    on_each_device(|_| {
        let a = scalar(5.0);
        let cases: [(Function<'_>, f64); 3] =
            [(&|x| ops::add(&a, x), 1.0), (&|_| ops::add(&a, &a), 0.0), (&|x| ops::add(x, x), 2.0)];
        for (fun, want) in cases {
            assert_eq!(values(&grad(fun, &a).unwrap()), [want]);
            assert_eq!(values(&grad(|x| grad(fun, x), &a).unwrap()), [0.0]);
        }
    });
}

#[test]
fn no_derivative_passes_a_stop() {
    on_each_device(|_| {
        let (w, x) = (random(&[4, 4], 1), random(&[4, 4], 2));
        let fun = |(w, x): &(Array, Array)| {
            let stopped = ops::stop_gradient(&ops::multiply(x, 2.0f32)?)?;
            ops::matmul(w, &ops::multiply(&stopped, 3.0f32)?)
        };
        let ones = ops::ones_like(&w).unwrap();
        let (_, by) = tree::vjp(fun, &(w.clone(), x.clone()), &ones).unwrap();
        let sums = ops::multiply(ops::sum(&x, &[1], false).unwrap(), 6.0f32).unwrap();
        assert_close(&by.0, &values(&sums).repeat(4));
        assert_eq!(values(&by.1), [0.0; 16]);
        let (_, by) = tree::vjp(|x| fun(&(w.clone(), x.clone())), &x, &ones).unwrap();
        assert_eq!(values(&by), [0.0; 16]);
    });
}

#[test]
fn what_a_function_leaves_behind_can_be_evaluated() {
    on_each_device(|_| {
        let mut state = ops::zeros(&[2], Dtype::Float32).unwrap();
        let x = floats(&[2.0, 3.0]);
        let fun = |y: &Array| {
            let x = ops::multiply(y, &x)?;
            state = ops::add(&state, &x)?;
            ops::sum(&x, &[], false)
        };
        grad(fun, &floats(&[4.0])).unwrap();
        assert_eq!(values(&state), [8.0, 12.0]);
    });
}

#[test]
fn evaluations_inside_change_no_derivative() {
    on_each_device(|_| {
        let read = |x: &Array| {
            let x = ops::add(x, floats(&[2.0, 2.0]))?;
            ops::less(&x, 1.0f32)?.eval()?;
            ops::square(&x)
        };
        assert_eq!(values(&by(read, &floats(&[1.0]))), [12.0]);
        let evaluated = |x: &Array| {
            let x = ops::add(x, floats(&[1.0, 1.0]))?;
            eval(&[&x])?;
            ops::square(&x)
        };
        assert_eq!(values(&by(evaluated, &floats(&[1.0]))), [8.0]);
    });
}

#[test]
fn derivatives_have_the_dtypes_of_the_arguments() {
    on_each_device(|_| {
        for dtype in [Dtype::Float16, Dtype::Bfloat16, Dtype::Float32] {
            let x = array(&[1.0], &[], dtype);
            let same = grad(|x: &Array| Ok(x.clone()), &x).unwrap();
            let sum = by(|x| ops::add(x, array(&[1.0], &[], dtype)), &x);
            assert_eq!([same.dtype(), sum.dtype()], [dtype; 2]);
        }
        let join = |(x, y): &(Array, Array)| ops::concatenate(&[x, y], 0);
        let at = (floats(&[1.0, 2.0, 3.0]), array(&[4.0, 5.0], &[2], Dtype::Float16));
        let (_, by) = tree::vjp(join, &at, &floats(&[1.0, 2.0, 3.0, 4.0, 5.0])).unwrap();
        assert_eq!((by.0.dtype(), values(&by.0)), (Dtype::Float32, vec![1.0, 2.0, 3.0]));
        assert_eq!((by.1.dtype(), values(&by.1)), (Dtype::Float16, vec![4.0, 5.0]));
    });
}

#[test]
fn a_split_has_the_derivative_of_its_slices() {
    on_each_device(|_| {
        let x = random(&[10, 30], 3);
        let split = |x: &Array| {
            let parts = ops::split(x, 3, -1)?;
            ops::multiply(&parts[0], &parts[2])
        };
        let sliced = |x: &Array| {
            ops::multiply(&ops::slice_axis(x, 1, 0, 10)?, &ops::slice_axis(x, 1, -10, 30)?)
        };
        assert_close(&by(split, &x), &values(&by(sliced, &x)));
    });
}

#[test]
fn slices_and_updates_have_derivatives() {
    on_each_device(|_| {
        let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        let cotangent = floats(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        let reversed = |x: &Array| ops::slice(x, &[5], &[-6], &[-1]);
        let (_, by) = tree::vjp(reversed, &x, &cotangent).unwrap();
        assert_eq!(values(&by), [5.0, 4.0, 3.0, 2.0, 1.0]);
        assert_eq!(
            values(&tree::jvp(reversed, &x, &cotangent).unwrap().1),
            [5.0, 4.0, 3.0, 2.0, 1.0]
        );
        let update = |(a, b): &(Array, Array)| {
            let mut a = a.clone();
            a.set_item(&[mlx::Slice::new(4, -5, -2).into()], b)?;
            Ok(a)
        };
        let at = (floats(&[1.0; 4]), floats(&[0.0; 2]));
        let (_, by) = tree::vjp(update, &at, &floats(&[1.0, 2.0, 3.0, 4.0])).unwrap();
        assert_eq!((values(&by.0), values(&by.1)), (vec![1.0, 0.0, 3.0, 0.0], vec![4.0, 2.0]));
        let tangents = (floats(&[1.0, 2.0, 3.0, 4.0]), floats(&[5.0, 6.0]));
        assert_eq!(values(&tree::jvp(update, &at, &tangents).unwrap().1), [1.0, 6.0, 3.0, 5.0]);
    });
}

#[test]
fn shapes_come_back() {
    on_each_device(|_| {
        let x = random(&[4, 2, 3], 4);
        assert_eq!(by(|x| ops::flatten(x, 0, 2), &x).shape(), [4, 2, 3]);
        assert_eq!(by(|x| ops::unflatten(x, 0, &[2, 2]), &x).shape(), [4, 2, 3]);
        assert_eq!(by(|x| x.get_item(&[Index::NewAxis, 1.into()]), &x).shape(), [4, 2, 3]);
    });
}

#[test]
fn tangents_of_matrix_products() {
    on_each_device(|_| {
        let [a, b, c, x, y, z] = [1, 2, 3, 4, 5, 6].map(|seed| random(&[4, 4], seed));
        let product = |a: &Array, b: &Array| ops::matmul(a, b).unwrap();
        let (_, tangent) = tree::jvp(|a| ops::matmul(a, &b), &a, &x).unwrap();
        assert_close(&tangent, &values(&product(&x, &b)));
        let (_, tangent) = tree::jvp(|b| ops::matmul(&a, b), &b, &y).unwrap();
        assert_close(&tangent, &values(&product(&a, &y)));
        let sum = ops::add(product(&x, &b), product(&a, &y)).unwrap();
        let (_, tangent) =
            tree::jvp(|[a, b]| ops::matmul(a, b), &[a.clone(), b.clone()], &[x.clone(), y.clone()])
                .unwrap();
        assert_close(&tangent, &values(&sum));
        let added = |[a, b, c]: &[Array; 3]| ops::addmm(c, a, b, 1.0, 1.0);
        let (_, tangent) =
            tree::jvp(added, &[a.clone(), b.clone(), c.clone()], &[x, y, z.clone()]).unwrap();
        assert_close(&tangent, &values(&ops::add(&sum, &z).unwrap()));
        let (_, tangent) = tree::jvp(|c| ops::addmm(c, &a, &b, 1.0, 1.0), &c, &z).unwrap();
        assert_close(&tangent, &values(&z));
    });
}
