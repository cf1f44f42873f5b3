//! Transforms keep what they need, and let go of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use mlx::{
    Array, Dtype, Error, Result, async_eval, eval, memory, ops, synchronize,
    transforms::{checkpoint, custom_function, grad, jvp, tree, vjp, vmap},
};
use mlx_tests::{array, filled, in_child, noise, on_each_device, values};

fn scalar(value: f32) -> Array {
    Array::scalar(value).unwrap()
}

/// Sixteen kilobytes, which a leak shows.
fn large() -> Array {
    let large = filled(&[4096], Dtype::Float32, noise(1, -1.0, 1.0));
    eval(&[&large]).unwrap();
    large
}

/// A function with evaluations inside, and with something large.
fn evaluating(x: &Array) -> Result<Array> {
    let y = ops::multiply(&ops::sin(x)?, large())?;
    eval(&[&y])?;
    let z = ops::multiply(&ops::exp(&y)?, &y)?;
    eval(&[&z])?;
    ops::add(&z, &y)
}

fn last(x: &Array) -> Result<Array> {
    ops::squeeze(&ops::slice_axis(x, 0, 7, 8)?, &[0])
}

/// Something that happens in transforms, and what it is.
type Happening = (&'static str, Box<dyn Fn()>);

/// What may leave memory behind.
fn happenings() -> Vec<Happening> {
    let fail = |x: &Array| -> Result<Array> {
        let y = evaluating(x)?;
        eval(&[&y])?;
        Err(Error::invalid("test", "in the middle"))
    };
    let panic = |x: &Array| -> Result<Array> {
        let y = evaluating(x)?;
        eval(&[&y])?;
        panic!("in the middle")
    };
    vec![
        (
            "a gradient",
            Box::new(|| {
                let by = grad(|x| last(&evaluating(x)?), &large()).unwrap();
                eval(&[&by]).unwrap();
            }),
        ),
        (
            "a gradient that is not evaluated",
            Box::new(|| {
                grad(|x| last(&evaluating(x)?), &large()).unwrap();
            }),
        ),
        (
            "a gradient of a gradient",
            Box::new(|| {
                let first = |x: &Array| {
                    let by = grad(|x| last(&evaluating(x)?), x)?;
                    eval(&[&by])?;
                    last(&ops::square(&by)?)
                };
                let by = grad(first, &large()).unwrap();
                eval(&[&by]).unwrap();
            }),
        ),
        (
            "a derivative along a tangent of a mapped gradient",
            Box::new(|| {
                let first = |x: &Array| grad(|x| ops::multiply(x, &ops::exp(x)?), x);
                let mapped = |x: &Array| tree::vmap(first, x, 0, 0);
                let (_, along) = tree::jvp(mapped, &large(), &large()).unwrap();
                eval(&[&along]).unwrap();
            }),
        ),
        (
            "an error",
            Box::new(move || {
                let at = large();
                assert!(grad(fail, &at).is_err());
                assert!(grad(|x| last(&grad(|x| fail(x), x)?), &at).is_err());
                assert!(
                    vmap(|_| Err(Error::invalid("test", "")), &[at], &[Some(0)], |_| Ok(vec![]))
                        .is_err()
                );
            }),
        ),
        (
            "a panic",
            Box::new(move || {
                let at = large();
                let nested = || grad(|x| last(&grad(|x| panic(x), x)?), &at).map(drop);
                assert!(catch_unwind(AssertUnwindSafe(nested)).is_err());
                assert!(!ops::exp(&at).unwrap().is_tracer());
            }),
        ),
        (
            "a checkpoint",
            Box::new(|| {
                let captured = large();
                let fun = checkpoint(move |x: &Array| ops::multiply(&evaluating(x)?, &captured));
                let by = grad(|x| last(&fun(&fun(x)?)?), &large()).unwrap();
                eval(&[&by]).unwrap();
            }),
        ),
        (
            "a custom function",
            Box::new(|| {
                let captured = large();
                let fun =
                    custom_function(move |x: &Array| ops::multiply(&evaluating(x)?, &captured))
                        .vjp(|x, cotangent, y| ops::multiply(cotangent, &ops::multiply(x, y)?));
                let outer = |x: &Array| {
                    let y = fun.call(x)?;
                    eval(&[&y])?;
                    last(&y)
                };
                let by = grad(outer, &large()).unwrap();
                eval(&[&by]).unwrap();
            }),
        ),
        (
            "an array that outlives the trace",
            Box::new(|| {
                let mut kept = Vec::new();
                let fun = |x: &Array| {
                    let y = evaluating(x)?;
                    eval(&[&y])?;
                    kept.extend([x.clone(), y.clone(), ops::exp(&y)?]);
                    last(&y)
                };
                grad(fun, &large()).unwrap();
                kept.iter().for_each(|a| assert!(!a.is_tracer()));
                eval(&kept.iter().collect::<Vec<_>>()).unwrap();
            }),
        ),
    ]
}

/// Memory is counted for the whole process, so this has one to itself.
#[test]
fn memory_returns_to_its_start() {
    in_child("memory::memory_returns_to_its_start", &[], || {
        on_each_device(|_| {
            for (what, happen) in happenings() {
                // The first time also fills caches.
                happen();
                let settle = || mlx::current_stream().and_then(synchronize).unwrap();
                settle();
                let before = memory::active_memory();
                (0..3).for_each(|_| happen());
                settle();
                assert_eq!(memory::active_memory(), before, "{what}");
            }
        });
    });
}

#[test]
fn a_trace_that_is_over_keeps_no_inputs() {
    in_child("memory::a_trace_that_is_over_keeps_no_inputs", &[], || {
        on_each_device(|_| {
            let before = memory::active_memory();
            // With what is around an allocation, where guards are.
            let alone = ops::exp(&large()).unwrap();
            eval(&[&alone]).unwrap();
            mlx::current_stream().and_then(synchronize).unwrap();
            let of_one = memory::active_memory() - before;
            drop(alone);
            let mut kept = None;
            let fun = |x: &Array| {
                let y = ops::multiply(&ops::sin(x)?, 2.0f32)?;
                eval(&[&y])?;
                kept = Some(y.clone());
                last(&y)
            };
            grad(fun, &large()).unwrap();
            mlx::current_stream().and_then(synchronize).unwrap();
            let kept = kept.unwrap();
            let active = memory::active_memory() - before;
            assert_eq!(
                (active, kept.nbytes()),
                (of_one, large().nbytes()),
                "only what is kept is there"
            );
        });
    });
}

/// The gradient of a chain whose steps could all be computed in place, with evaluations before some of them.
fn chain(evaluated: u32) -> Vec<Array> {
    let x = [filled(&[1024], Dtype::Float32, noise(5, 0.5, 1.5))];
    let fun = |x: &[Array]| {
        let mut y = x[0].clone();
        for step in 0..12 {
            y = match step % 4 {
                0 => ops::exp(&ops::negative(&y)?)?,
                1 => ops::multiply(&y, &ops::sqrt(&y)?)?,
                2 => ops::sin(&ops::reshape(&y, &[32, 32])?)?,
                _ => ops::add(&ops::reshape(&y, &[1024])?, 1.0f32)?,
            };
            if evaluated & (1 << step) != 0 {
                eval(&[&y])?;
            }
        }
        Ok(vec![y])
    };
    let along = [filled(&[1024], Dtype::Float32, noise(6, -1.0, 1.0))];
    let (values, by) = vjp(fun, &x, &along).unwrap();
    let (_, along) = jvp(fun, &x, &along).unwrap();
    [values, by, along].concat()
}

/// Freed memory is poisoned, so a value that was overwritten too early shows.
#[test]
fn evaluations_inside_change_no_bit() {
    let variables = [("MLX_VK_POISON", "1")];
    in_child("memory::evaluations_inside_change_no_bit", &variables, || {
        on_each_device(|_| {
            let bits = |evaluated| {
                chain(evaluated).iter().map(|a| a.to_bytes().unwrap()).collect::<Vec<_>>()
            };
            let want = bits(0);
            for evaluated in [0xfff, 0x555, 0xaaa, 1, 0x800, 0x249] {
                assert_eq!(bits(evaluated), want, "{evaluated:#x}");
            }
        });
    });
}

/// Runs `body` on each device, on a thread with a megabyte of stack.
fn with_little_stack(body: impl Fn() + Send + 'static) {
    let run = move || on_each_device(|_| body());
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

const DEEP: usize = 100_000;

fn deep(x: &Array, custom: bool) -> Result<Array> {
    let same =
        custom_function(|x: &Array| Ok(x.clone())).vjp(|_, cotangent, _| Ok(cotangent.clone()));
    let mut y = x.clone();
    for step in 0..DEEP {
        y = match (step % 4, custom) {
            (0, true) => same.call(&y)?,
            (0 | 1, _) => ops::negative(&y)?,
            (2, _) => ops::add(&y, &y)?,
            _ => ops::multiply(&y, 0.5f32)?,
        };
    }
    Ok(y)
}

#[test]
fn deep_graphs_take_no_stack() {
    with_little_stack(|| {
        let x = [scalar(3.0)];
        for custom in [false, true] {
            let (y, by) = vjp(|x| Ok(vec![deep(&x[0], custom)?]), &x, &[scalar(1.0)]).unwrap();
            assert_eq!((values(&y[0])[0].abs(), values(&by[0])[0].abs()), (3.0, 1.0));
            // What is not evaluated is freed.
            vjp(|x| Ok(vec![deep(&x[0], custom)?]), &x, &[scalar(1.0)]).unwrap();
        }
        let (_, along) = jvp(|x| Ok(vec![deep(&x[0], false)?]), &x, &[scalar(1.0)]).unwrap();
        assert_eq!(values(&along[0])[0].abs(), 1.0);
        let rows = array(&[1.0, 2.0], &[2], Dtype::Float32);
        let mapped =
            vmap(|x| Ok(vec![deep(&x[0], false)?]), &[rows], &[Some(0)], |n| Ok(vec![Some(0); n]));
        let sizes: Vec<f64> = values(&mapped.unwrap()[0]).into_iter().map(f64::abs).collect();
        assert_eq!(sizes, [1.0, 2.0]);
    });
}

/// A graph that goes on in what functions capture.
#[test]
fn functions_that_capture_functions_results_take_no_stack() {
    with_little_stack(|| {
        let chain = || {
            let mut y = scalar(1.0);
            for _ in 0..DEEP {
                let captured = y;
                let negated = custom_function(move |x: &Array| ops::multiply(x, &captured))
                    .vjp(|_, cotangent, _| Ok(cotangent.clone()));
                y = negated.call(&scalar(-1.0)).unwrap();
            }
            y
        };
        drop(chain());
        assert_eq!(values(&chain()), [1.0]);
    });
}

#[test]
fn deep_graphs_that_are_evaluated_inside_take_no_stack() {
    with_little_stack(|| {
        let fun = |x: &[Array]| {
            let y = deep(&x[0], true)?;
            eval(&[&y])?;
            Ok(vec![ops::negative(&y)?])
        };
        let (_, by) = vjp(fun, &[scalar(3.0)], &[scalar(1.0)]).unwrap();
        assert_eq!(values(&by[0])[0].abs(), 1.0);
    });
}

#[test]
fn threads_trace_at_once() {
    on_each_device(|device| {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    let work = || {
                        for i in 0..50 {
                            let at = (thread * 50 + i) as f32 / 64.0;
                            let fun = |x: &Array| {
                                let y = ops::multiply(x, x)?;
                                if i % 3 == 0 {
                                    eval(&[&y])?;
                                }
                                ops::multiply(&y, x)
                            };
                            let by = grad(|x| grad(fun, x), &scalar(at)).unwrap();
                            assert_eq!(by.item::<f32>().unwrap(), 6.0 * at);
                        }
                    };
                    mlx::with_device(device, work).unwrap();
                });
            }
        });
    });
}

#[test]
fn what_cannot_be_evaluated_says_why() {
    on_each_device(|_| {
        let rows = array(&[1.0, 2.0], &[2], Dtype::Float32);
        let eval_inside = |x: &[Array]| {
            eval(&[&ops::exp(&x[0])?])?;
            Ok(x.to_vec())
        };
        let error =
            vmap(eval_inside, std::slice::from_ref(&rows), &[Some(0)], |n| Ok(vec![Some(0); n]));
        assert_eq!(
            error.map(drop).unwrap_err().to_string(),
            "[eval] Attempting to eval an array during function transformations like compile or vmap is \
             not allowed."
        );
        let start_inside = |x: &Array| {
            let y = ops::square(x)?;
            async_eval(&[&y])?;
            Ok(y)
        };
        let error = grad(start_inside, &scalar(1.0)).map(drop).unwrap_err();
        assert_eq!(error.to_string(), "[async_eval] Not allowed inside a graph transformation.");
        // What is not traced may be.
        let start_other = |x: &Array| {
            async_eval(&[&ops::square(&rows)?])?;
            ops::square(x)
        };
        assert_eq!(values(&grad(start_other, &scalar(1.0)).unwrap()), [2.0]);
        // Nor is a placeholder anything when the trace is over.
        let mut kept = None;
        let keep = |x: &[Array]| {
            kept = Some(x[0].clone());
            Ok(x.to_vec())
        };
        vmap(keep, &[rows], &[Some(0)], |n| Ok(vec![Some(0); n])).unwrap();
        let error = eval(&[&kept.unwrap()]).unwrap_err().to_string();
        assert!(
            error.starts_with("[eval] Attempting to eval an array without a primitive."),
            "{error}"
        );
    });
}
