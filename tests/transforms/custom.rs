//! Functions with transforms of their own, and those that are computed twice.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use mlx::{
    Array, Dtype, Result, eval, ops,
    transforms::{
        checkpoint, custom_function, grad,
        tree::{jvp, vjp, vmap},
    },
};
use mlx_tests::{array, on_each_device, values};

fn scalar(value: f32) -> Array {
    Array::scalar(value).unwrap()
}

fn product((x, y): &(Array, Array)) -> Result<Array> {
    ops::multiply(x, y)
}

#[test]
fn what_is_said_replaces_what_follows() {
    on_each_device(|_| {
        let fun = custom_function(product)
            .vjp(|(x, y), cotangent, output| {
                Ok((ops::add(x, output)?, ops::multiply(&ops::add(y, 1.0f32)?, cotangent)?))
            })
            .jvp(|_, tangents| match tangents {
                [Some(x), None] => ops::multiply(x, 10.0f32),
                [None, Some(y)] => ops::multiply(y, 100.0f32),
                other => panic!("{} tangents", other.len()),
            })
            .vmap(|(x, y), axes| {
                assert_eq!(axes, [Some(0), None]);
                Ok((ops::subtract(x, y)?, vec![Some(0)]))
            });
        let both = (scalar(2.0), scalar(3.0));
        assert_eq!(values(&fun.call(&both).unwrap()), [6.0]);
        let (output, by) = vjp(|p| fun.call(p), &both, &scalar(5.0)).unwrap();
        assert_eq!(
            (values(&output), values(&by.0), values(&by.1)),
            (vec![6.0], vec![8.0], vec![20.0])
        );
        let by_x = |x: &Array| fun.call(&(x.clone(), both.1.clone()));
        let by_y = |y: &Array| fun.call(&(both.0.clone(), y.clone()));
        assert_eq!(values(&jvp(by_x, &both.0, &scalar(1.0)).unwrap().1), [10.0]);
        assert_eq!(values(&jvp(by_y, &both.1, &scalar(1.0)).unwrap().1), [100.0]);
        let rows = array(&[1.0, 2.0], &[2], Dtype::Float32);
        let mapped = vmap(|p| fun.call(p), &(rows, scalar(3.0)), (0, None), 0).unwrap();
        assert_eq!(values(&mapped), [-2.0, -1.0]);
    });
}

#[test]
fn what_is_not_said_follows_from_the_operations() {
    on_each_device(|_| {
        let with_vjp = custom_function(product).vjp(|p, _, _| Ok(p.clone()));
        let with_jvp = custom_function(product).jvp(|(x, _), _| Ok(x.clone()));
        let with_none = custom_function(product);
        let both = (scalar(2.0), scalar(3.0));
        let ones = (scalar(1.0), scalar(1.0));
        for fun in [&with_jvp, &with_none] {
            let (_, by) = vjp(|p| fun.call(p), &both, &scalar(1.0)).unwrap();
            assert_eq!((values(&by.0), values(&by.1)), (vec![3.0], vec![2.0]));
        }
        for fun in [&with_vjp, &with_none] {
            assert_eq!(values(&jvp(|p| fun.call(p), &both, &ones).unwrap().1), [5.0]);
            let by_x = |x: &Array| fun.call(&(x.clone(), both.1.clone()));
            assert_eq!(values(&jvp(by_x, &both.0, &scalar(1.0)).unwrap().1), [3.0]);
        }
        let rows = array(&[1.0, 2.0, 4.0], &[3], Dtype::Float32);
        for fun in [&with_vjp, &with_jvp, &with_none] {
            let mapped = vmap(|p| fun.call(p), &(scalar(3.0), rows.clone()), (None, 0), 0);
            assert_eq!(values(&mapped.unwrap()), [3.0, 6.0, 12.0]);
        }
    });
}

#[test]
fn a_rule_is_differentiated_and_mapped_itself() {
    on_each_device(|_| {
        let cube = custom_function(|x: &Array| ops::multiply(x, &ops::square(x)?)).vjp(
            |x, cotangent, _| ops::multiply(cotangent, &ops::multiply(&ops::square(x)?, 7.0f32)?),
        );
        let first = |x: &Array| grad(|x| cube.call(x), x);
        assert_eq!(values(&first(&scalar(2.0)).unwrap()), [28.0]);
        assert_eq!(values(&grad(first, &scalar(2.0)).unwrap()), [28.0]);
        let rows = array(&[1.0, 2.0, 3.0], &[3], Dtype::Float32);
        assert_eq!(values(&vmap(first, &rows, 0, 0).unwrap()), [7.0, 28.0, 63.0]);
        let mapped = |x: &Array| {
            let all = vmap(|x| cube.call(x), x, 0, 0)?;
            ops::multiply(&ops::slice_axis(&all, 0, 1, 2)?, 1.0f32)
        };
        let (_, by) = vjp(mapped, &rows, &array(&[1.0], &[1], Dtype::Float32)).unwrap();
        // What maps the operations, as nothing else is said, is what derivatives see then.
        assert_eq!(values(&by), [0.0, 12.0, 0.0]);
    });
}

#[test]
fn captured_arrays_have_no_derivative() {
    on_each_device(|_| {
        let fun = |x: &Array| {
            let captured = ops::square(x)?;
            let times = custom_function(move |y: &Array| ops::multiply(&captured, y))
                .vjp(|_, cotangent, _| ops::multiply(cotangent, 5.0f32));
            times.call(&ops::multiply(x, 2.0f32)?)
        };
        assert_eq!(values(&fun(&scalar(3.0)).unwrap()), [54.0]);
        assert_eq!(values(&grad(fun, &scalar(3.0)).unwrap()), [10.0]);
    });
}

#[test]
fn several_outputs_have_their_cotangents() {
    on_each_device(|_| {
        let both = custom_function(|x: &Array| Ok([ops::square(x)?, ops::exp(x)?])).vjp(
            |_, [square, exp], [_, output]| {
                ops::add(&ops::multiply(square, 10.0f32)?, &ops::multiply(exp, output)?)
            },
        );
        let second = |x: &Array| ops::multiply(&both.call(x)?[1], 3.0f32);
        let (_, by) = vjp(second, &scalar(0.0), &scalar(1.0)).unwrap();
        assert_eq!(values(&by), [3.0]);
        let (_, by) = vjp(|x| both.call(x), &scalar(0.0), &[1.0, 2.0].map(scalar)).unwrap();
        assert_eq!(values(&by), [12.0]);
    });
}

#[test]
fn rules_that_return_too_few_arrays_are_refused() {
    on_each_device(|_| {
        type Rows = Vec<Array>;
        let fun = custom_function(|x: &Rows| Ok(x.clone()))
            .vjp(|_, _, _| Ok(Rows::new()))
            .jvp(|_, _| Ok(Rows::new()))
            .vmap(|x, _| Ok((x.clone(), Vec::new())));
        let x = vec![array(&[1.0], &[1], Dtype::Float32)];
        let error = vjp(|x| fun.call(x), &x, &x).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("[custom_function] The vjp must return 1"), "{error}");
        let error = jvp(|x| fun.call(x), &x, &x).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("[custom_function] The jvp must return 1"), "{error}");
        let error = vmap(|x| fun.call(x), &x, 0, 0).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("[custom_function] The vmap must return 1"), "{error}");
    });
}

#[test]
fn derivatives_too_many_are_left_out() {
    on_each_device(|_| {
        type Rows = Vec<Array>;
        let fun = custom_function(|x: &Rows| Ok(x.clone()))
            .vjp(|x, y, _| Ok(vec![ops::multiply(&y[0], 3.0f32)?, x[0].clone()]));
        let x = vec![array(&[2.0], &[1], Dtype::Float32)];
        let (_, by) = vjp(|x| fun.call(x), &x, &x).unwrap();
        assert_eq!(by.iter().map(values).collect::<Vec<_>>(), [[6.0]]);
    });
}

#[test]
fn what_a_rule_does_not_map_goes_on_for_all_indices() {
    on_each_device(|_| {
        let constant = array(&[5.0, 6.0], &[2], Dtype::Float32);
        let same = constant.clone();
        let fun = custom_function(|x: &Array| ops::multiply(x, 2.0f32))
            .vmap(move |_, _| Ok((same.clone(), vec![None])));
        let rows = array(&[1.0, 2.0, 3.0, 4.0], &[2, 2], Dtype::Float32);
        let mapped =
            |fun: &dyn Fn(&Array) -> Result<Array>| values(&vmap(fun, &rows, 0, 0).unwrap());
        let sum = |x: &Array| ops::sum(x, &[0], true);
        assert_eq!(mapped(&|x| fun.call(x)), [5.0, 6.0, 5.0, 6.0]);
        assert_eq!(mapped(&|x| sum(&fun.call(x)?)), [11.0, 11.0]);
        assert_eq!(mapped(&|x| fun.call(&sum(&fun.call(x)?)?)), [22.0, 22.0]);
        let both = mapped(&|x| ops::concatenate(&[&sum(&fun.call(x)?)?, x], 0));
        assert_eq!(both, [11.0, 1.0, 2.0, 11.0, 3.0, 4.0]);
        let after = |x: &Array| Ok::<_, mlx::Error>(ops::depends(&[&constant], &[x])?.remove(0));
        assert_eq!(mapped(&|x| sum(&after(x)?)), [11.0, 11.0]);
        assert_eq!(mapped(&|x| ops::add(&sum(&after(x)?)?, x)), [12.0, 13.0, 14.0, 15.0]);
    });
}

#[test]
fn a_checkpoint_computes_again() {
    on_each_device(|_| {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let fun = checkpoint(move |[x, y]: &[Array; 2]| {
            counted.fetch_add(1, SeqCst);
            ops::multiply(&ops::sin(x)?, &ops::exp(y)?)
        });
        let at = [0.5, 0.25].map(scalar);
        let want = [0.5f64.cos() * 0.25f64.exp(), 0.5f64.sin() * 0.25f64.exp()];
        let by = grad(|p| fun(p), &at).unwrap();
        assert_eq!(calls.load(SeqCst), 2, "once forward, once for the gradient");
        for (by, want) in by.iter().zip(want) {
            assert!((values(by)[0] - want).abs() < 1e-6);
        }
        let by_x = |x: &Array| Ok(grad(|p| fun(p), &[x.clone(), at[1].clone()])?[0].clone());
        let second = values(&grad(by_x, &at[0]).unwrap())[0];
        assert!((second + 0.5f64.sin() * 0.25f64.exp()).abs() < 1e-6);
        let (_, along) = jvp(|p| fun(p), &at, &[1.0, 0.0].map(scalar)).unwrap();
        assert!((values(&along)[0] - want[0]).abs() < 1e-6);
    });
}

#[test]
fn a_checkpoint_passes_results_without_derivative() {
    on_each_device(|_| {
        let fun = checkpoint(|x: &Array| Ok([ops::stop_gradient(&ops::exp(x)?)?, ops::square(x)?]));
        let (_, by) = vjp(|x| fun(x), &scalar(3.0), &[1.0, 10.0].map(scalar)).unwrap();
        assert_eq!(values(&by), [60.0]);
    });
}

/// Evaluates when it is dropped.
struct Evaluates(Array, Arc<AtomicUsize>);

impl Drop for Evaluates {
    fn drop(&mut self) {
        let more = ops::add(&self.0, 1.0f32).unwrap();
        assert_eq!(values(&more), [2.0]);
        self.1.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_function_may_evaluate_when_it_is_dropped() {
    on_each_device(|_| {
        let dropped = Arc::new(AtomicUsize::new(0));
        for evaluates_inside in [false, true] {
            let held = Evaluates(scalar(1.0), dropped.clone());
            let fun = custom_function(move |x: &Array| ops::multiply(x, &held.0))
                .vjp(|_, cotangent, _| Ok(cotangent.clone()));
            let by = |x: &Array| {
                let y = fun.call(x)?;
                if evaluates_inside {
                    eval(&[&y])?;
                }
                ops::square(&y)
            };
            let gradient = grad(by, &scalar(2.0)).unwrap();
            drop(fun);
            assert_eq!(values(&gradient), [4.0]);
        }
        // What is put off while an evaluation holds something runs before it ends.
        assert_eq!(dropped.load(SeqCst), 2);
        dropped.store(0, SeqCst);
    });
}
