//! Compiled functions: what they compute, when they trace, and what their graphs look like.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use mlx::{
    Array, Dtype, Error, Result,
    compile::{Compiled, export_to_dot},
    default_stream,
    fft::{self, Norm},
    new_stream, ops, random,
    transforms::{checkpoint, grad, jvp, vjp, vmap},
    with_stream,
};
use mlx_tests::{filled, noise, on_each_device, values};

fn numbers(values: &[f32]) -> Array {
    Array::from_slice(values, &[values.len()]).unwrap()
}

fn scalar(value: f32) -> Array {
    Array::scalar(value).unwrap()
}

/// A compiled function with how often it was traced.
fn counted(
    fun: impl Fn(&[Array]) -> Result<Vec<Array>> + Send + Sync + 'static,
    shapeless: bool,
) -> (Compiled, Arc<AtomicUsize>) {
    let traced = Arc::new(AtomicUsize::new(0));
    let count = traced.clone();
    let counting = move |inputs: &[Array]| {
        count.fetch_add(1, Relaxed);
        fun(inputs)
    };
    (Compiled::new(counting, shapeless), traced)
}

/// What a function of one array gives.
fn call(fun: &Compiled, input: &Array) -> Vec<f64> {
    values(&fun.call(std::slice::from_ref(input)).unwrap()[0])
}

#[test]
fn a_function_is_traced_once_for_each_kind_of_arguments() {
    on_each_device(|device| {
        let (fun, traced) = counted(|x| Ok(vec![ops::add(&ops::exp(&x[0])?, 1.0f32)?]), false);
        assert_eq!(call(&fun, &numbers(&[0.0, 0.0])), [2.0, 2.0]);
        assert_eq!(call(&fun, &numbers(&[0.0, 0.0])), [2.0, 2.0]);
        assert_eq!(traced.load(Relaxed), 1);
        assert_eq!(call(&fun, &numbers(&[0.0])), [2.0]);
        assert_eq!(traced.load(Relaxed), 2, "another shape");
        assert_eq!(call(&fun, &ops::astype(&numbers(&[0.0]), Dtype::Float16).unwrap()), [2.0]);
        assert_eq!(traced.load(Relaxed), 3, "another dtype");
        for constant in [7, 8, 7] {
            fun.call_with(&[numbers(&[0.0])], &[constant]).unwrap();
        }
        assert_eq!(traced.load(Relaxed), 5, "other constants");
        for stream in [new_stream(device).unwrap(), default_stream(device).unwrap()] {
            with_stream(stream, || assert_eq!(call(&fun, &numbers(&[0.0])), [2.0]));
        }
        assert_eq!(traced.load(Relaxed), 6, "another stream");
    });
}

#[test]
fn a_shapeless_function_is_traced_once_for_all_sizes() {
    on_each_device(|_| {
        let fun = |x: &[Array]| {
            let sum = ops::sum(&x[0], &[0], true)?;
            Ok(vec![ops::exp(&ops::subtract(&sum, &sum)?)?])
        };
        let (fun, traced) = counted(fun, true);
        assert_eq!(call(&fun, &numbers(&[1.0, 2.0])), [1.0]);
        assert_eq!(call(&fun, &numbers(&[1.0, 2.0, 3.0])), [1.0]);
        assert_eq!(traced.load(Relaxed), 1);
        assert_eq!(call(&fun, &ops::reshape(&numbers(&[1.0, 2.0]), &[1, 2]).unwrap()), [1.0, 1.0]);
        assert_eq!(traced.load(Relaxed), 2, "another number of axes");
    });
}

#[test]
fn a_shapeless_function_refuses_what_has_the_sizes_of_its_trace() {
    on_each_device(|_| {
        let (fun, _) = counted(|x| Ok(vec![ops::slice_axis(&x[0], 0, 1, 3)?]), true);
        let error = fun.call(&[numbers(&[1.0, 2.0, 3.0])]).map(drop);
        let other = fun.call(&[numbers(&[1.0, 2.0, 3.0, 4.0])]).unwrap_err().to_string();
        assert!(error.is_ok());
        assert_eq!(other, "[Primitive::output_shapes] Slice cannot infer output shapes.");
    });
}

#[test]
fn random_bits_transforms_and_edges_have_the_sizes_of_their_trace() {
    on_each_device(|_| {
        type Case = (&'static str, fn(&Array) -> Result<Array>);
        let cases: [Case; 6] = [
            ("RandomBits", |x| {
                random::uniform(0.0, 1.0, x.shape(), Dtype::Float32, Some(&random::key(1)?))
            }),
            ("FFT", |x| fft::ifft(x, None, -1, Norm::Ortho)),
            ("FFT", |x| fft::rfft(x, None, -1, Norm::Forward)),
            ("Slice", |x| ops::pad(x, &[(1, 1)], "edge", 0)),
            ("Slice", |x| ops::pad(x, &[(1, 1)], "reflect", 0)),
            ("Slice", |x| ops::pad(x, &[(1, 1)], "symmetric", 0)),
        ];
        for (name, function) in cases {
            let (fun, _) = counted(
                move |x| Ok(vec![ops::multiply(&function(&x[0])?, ops::sum(&x[0], &[], false)?)?]),
                true,
            );
            for _ in 0..2 {
                assert!(fun.call(&[numbers(&[1.0, 2.0, 3.0])]).is_ok(), "{name}");
            }
            let error = fun.call(&[numbers(&[1.0; 4])]).unwrap_err().to_string();
            let words = format!("{name} cannot infer output shapes.");
            assert_eq!(error, format!("[Primitive::output_shapes] {words}"));
        }
    });
}

#[test]
fn a_shapeless_function_is_shapeless_within_what_does_not_trace_its_arguments() {
    on_each_device(|_| {
        let mean = |x: &[Array]| {
            let flat = ops::flatten(&x[0], 0, -1)?;
            Ok(vec![ops::add(&flat, &ops::mean(&x[0], &[], false)?)?])
        };
        let (first, other) = (matrix(2, 3), matrix(4, 5));
        let want = values(&mean(std::slice::from_ref(&other)).unwrap()[0]);
        let (fun, traced) = counted(mean, true);
        let call = |x: &Array| Ok::<_, Error>(fun.call(std::slice::from_ref(x))?.remove(0));
        let sum = |x: &Array| ops::multiply(&ops::sum(&call(&first)?, &[], false)?, x);
        assert_eq!(values(&grad(sum, &scalar(1.0)).unwrap()), [30.0]);
        assert_eq!(values(&call(&other).unwrap()), want);
        assert_eq!(traced.load(Relaxed), 1);
    });
}

#[test]
fn shapeless_functions_pad_by_nothing_and_keep_dtypes_of_tangents() {
    on_each_device(|_| {
        let (padded, _) = counted(|x| Ok(vec![ops::pad(&x[0], &[(0, 0)], "edge", 0)?]), true);
        let half = filled(&[1], Dtype::Float16, |_| 1.0);
        let broadcast = move |x: &[Array]| {
            let along = |y: &[Array]| Ok(vec![ops::broadcast_arrays(&[&y[0], &x[0]])?.remove(0)]);
            let half = std::slice::from_ref(&half);
            Ok(jvp(along, half, half)?.1)
        };
        let (tangent, _) = counted(broadcast, true);
        for n in [3, 5] {
            let x = filled(&[n], Dtype::Float32, |i| i as f64);
            assert_eq!(values(&padded.call(std::slice::from_ref(&x)).unwrap()[0]), values(&x));
            let tangent = &tangent.call(&[x]).unwrap()[0];
            assert_eq!((tangent.dtype(), values(tangent)), (Dtype::Float16, vec![1.0; n]));
        }
    });
}

#[test]
fn a_trace_that_fails_leaves_nothing() {
    on_each_device(|_| {
        let fails = Arc::new(AtomicUsize::new(1));
        let left = fails.clone();
        let fun = move |x: &[Array]| match left.swap(0, Relaxed) {
            1 => Err(Error::invalid("test", "not yet")),
            _ => Ok(vec![ops::negative(&x[0])?]),
        };
        let (fun, traced) = counted(fun, false);
        assert!(fun.call(&[scalar(1.0)]).is_err());
        assert_eq!(call(&fun, &scalar(1.0)), [-1.0]);
        assert_eq!(call(&fun, &scalar(2.0)), [-2.0]);
        assert_eq!(traced.load(Relaxed), 2);
    });
}

#[test]
fn an_argument_that_comes_another_way_is_refused() {
    on_each_device(|_| {
        let x = scalar(1.0);
        let hidden = x.clone();
        let (fun, _) = counted(move |_| Ok(vec![ops::exp(&hidden)?]), false);
        let error = fun.call(&[x]).unwrap_err().to_string();
        let words =
            "[compile] Attempting to compile a function with uncaptured inputs is not allowed.";
        assert_eq!(error, words);
    });
}

#[test]
fn arrays_of_closures_are_constants_or_computed() {
    on_each_device(|_| {
        let evaluated = numbers(&[1.0, 2.0]);
        let lazy = ops::exp(&numbers(&[0.0, 0.0])).unwrap();
        let sum = move |x: &[Array]| Ok(vec![ops::add(&ops::add(&x[0], &evaluated)?, &lazy)?]);
        let (fun, traced) = counted(sum, false);
        assert_eq!(call(&fun, &numbers(&[10.0, 20.0])), [12.0, 23.0]);
        assert_eq!(call(&fun, &numbers(&[20.0, 30.0])), [22.0, 33.0]);
        assert_eq!(traced.load(Relaxed), 1);
    });
}

#[test]
fn nothing_inside_of_a_trace_is_evaluated() {
    on_each_device(|_| {
        let (fun, _) = counted(|x| x[0].eval().map(|()| x.to_vec()), false);
        let words = "[eval] Attempting to eval an array during function transformations like compile or \
                     vmap is not allowed.";
        assert_eq!(fun.call(&[scalar(1.0)]).unwrap_err().to_string(), words);
    });
}

/// The names of the primitives of a compiled function's graph.
pub(crate) fn primitives(fun: &Compiled, inputs: &[Array]) -> Vec<String> {
    let dot = export_to_dot(&fun.call(inputs).unwrap(), &[]);
    let labels = dot.lines().filter_map(|line| line.split("label =\"").nth(1));
    labels.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn equal_computations_are_done_once() {
    on_each_device(|_| {
        let same = |x: &[Array]| {
            let twice = [ops::sort(&x[0], 0)?, ops::sort(&x[0], 0)?];
            let _unused = ops::argsort(&x[0], 0)?;
            Ok(vec![ops::concatenate(&[&twice[0], &ops::stop_gradient(&twice[1])?], 0)?])
        };
        let (fun, _) = counted(same, false);
        let input = numbers(&[2.0, 1.0]);
        assert_eq!(primitives(&fun, std::slice::from_ref(&input)), ["Sort", "Concatenate"]);
        assert_eq!(call(&fun, &input), [1.0, 2.0, 1.0, 2.0]);
    });
}

#[test]
fn results_stay_arrays_of_their_own() {
    on_each_device(|_| {
        let fun = |x: &[Array]| Ok(vec![ops::exp(&x[0])?, ops::exp(&x[0])?, x[0].clone()]);
        let (fun, _) = counted(fun, false);
        let results = fun.call(&[scalar(0.0)]).unwrap();
        assert!(!results[0].is_same(&results[1]));
        let results: Vec<f64> = results.iter().flat_map(values).collect();
        assert_eq!(results, [1.0, 1.0, 0.0]);
    });
}

#[test]
fn elementwise_operations_become_programs() {
    on_each_device(|_| {
        // What is broadcast is read by the sum, too, so it is done twice.
        let fun = |x: &[Array]| {
            let [a, b, c] = x else { unreachable!() };
            let wide = ops::broadcast_to(b, c.shape())?;
            let sum = ops::sum(&wide, &[], false)?;
            Ok(vec![ops::add(a, &ops::multiply(&wide, c)?)?, sum])
        };
        let (fun, _) = counted(fun, false);
        let matrix = |seed| filled(&[3, 4], Dtype::Float32, noise(seed, -1.0, 1.0));
        let inputs = [matrix(1), scalar(0.5), matrix(2)];
        let names = primitives(&fun, &inputs);
        assert!(names.contains(&"CompiledBroadcastMultiplyAdd".to_owned()), "{names:?}");
        let got = fun.call(&inputs).unwrap();
        let want = ops::add(&inputs[0], ops::multiply(&inputs[1], &inputs[2]).unwrap()).unwrap();
        assert_eq!(values(&got[0]), values(&want));
        assert_eq!(values(&got[1]), [6.0]);
    });
}

#[test]
fn programs_return_what_others_need() {
    on_each_device(|_| {
        let fun = |x: &[Array]| {
            let inner = ops::exp(&x[0])?;
            let outer = ops::negative(&ops::add(&inner, &x[0])?)?;
            Ok(vec![inner, outer])
        };
        for dropped in [None, Some(0), Some(1)] {
            let (fun, _) = counted(fun, false);
            let input = numbers(&[0.0, 1.0]);
            assert_eq!(primitives(&fun, std::slice::from_ref(&input)), ["CompiledExpAddNegative"]);
            let mut results = fun.call(std::slice::from_ref(&input)).unwrap();
            let e = 1f64.exp();
            let mut want = vec![[1.0, e], [-1.0, -(e + 1.0)]];
            if let Some(dropped) = dropped {
                results.remove(dropped);
                want.remove(dropped);
            }
            for (result, want) in results.iter().zip(want) {
                mlx_tests::assert_ulps("program", result, &want, 4.0);
            }
        }
    });
}

#[test]
fn transforms_see_the_function_itself() {
    on_each_device(|_| {
        let cube = |x: &[Array]| Ok(vec![ops::multiply(&x[0], &ops::square(&x[0])?)?]);
        let (fun, _) = counted(cube, false);
        let (_, derivatives) = vjp(|x| fun.call(x), &[scalar(2.0)], &[scalar(1.0)]).unwrap();
        assert_eq!(values(&derivatives[0]), [12.0]);
        let mapped =
            vmap(|x| fun.call(x), &[numbers(&[1.0, 2.0])], &[Some(0)], |n| Ok(vec![Some(0); n]));
        assert_eq!(values(&mapped.unwrap()[0]), [1.0, 8.0]);
        let derivative = move |x: &[Array]| Ok(vjp(cube, x, &[scalar(1.0)])?.1);
        let (fun, traced) = counted(derivative, false);
        assert_eq!(call(&fun, &scalar(2.0)), [12.0]);
        assert_eq!(call(&fun, &scalar(3.0)), [27.0]);
        assert_eq!(traced.load(Relaxed), 1);
    });
}

#[test]
fn threads_share_a_function() {
    on_each_device(|_| {
        let (fun, _) = counted(|x| Ok(vec![ops::exp(&ops::negative(&x[0])?)?]), false);
        let fun = Arc::new(fun);
        let threads = [1, 2, 3, 4].map(|size| {
            let fun = fun.clone();
            std::thread::spawn(move || {
                for _ in 0..50 {
                    let zeros = numbers(&vec![0.0; size]);
                    assert_eq!(call(&fun, &zeros), vec![1.0; size]);
                }
            })
        });
        drop(fun);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn long_chains_need_no_stack() {
    on_each_device(|_| {
        let chain = || {
            let fun = |x: &[Array]| {
                let mut y = x[0].clone();
                for i in 0..100_000 {
                    y = if i % 7 == 6 {
                        ops::cumsum(&y, Some(0), false, true, None)?
                    } else {
                        ops::negative(&y)?
                    };
                }
                Ok(vec![y])
            };
            let (fun, _) = counted(fun, false);
            drop(fun.call(&[numbers(&[1.0])]).unwrap());
        };
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(chain).unwrap();
        thread.join().unwrap();
    });
}

/// Compares a shapeless function with itself uncompiled, for several arguments of one kind; it must be traced
/// once.
fn assert_shapeless(
    fun: impl Fn(&[Array]) -> Result<Vec<Array>> + Send + Sync + Clone + 'static,
    calls: &[&[Array]],
) {
    let (compiled, traced) = counted(fun.clone(), true);
    for inputs in calls {
        let (got, want) = (compiled.call(inputs).unwrap(), fun(inputs).unwrap());
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(got.spec(), want.spec());
            assert_eq!(values(got), values(want));
        }
    }
    assert_eq!(traced.load(Relaxed), 1);
}

fn matrix(rows: usize, columns: usize) -> Array {
    filled(&[rows, columns], Dtype::Float32, |i| i as f64)
}

#[test]
fn shapeless_functions_broadcast_anew() {
    on_each_device(|_| {
        let product = |x: &[Array]| Ok(vec![ops::multiply(&x[0], &ops::exp(&x[1])?)?]);
        assert_shapeless(product, &[&[matrix(2, 2), matrix(1, 2)], &[matrix(3, 1), matrix(3, 4)]]);
        let choice = |x: &[Array]| Ok(vec![ops::where_(&x[0], &x[1], 0.0f32)?]);
        assert_shapeless(choice, &[&[matrix(1, 2), matrix(2, 2)], &[matrix(3, 4), matrix(3, 1)]]);
    });
}

#[test]
fn shapeless_functions_multiply_matrices_of_any_size() {
    on_each_device(|_| {
        let product = |x: &[Array]| Ok(vec![ops::matmul(&x[0], &x[1])?]);
        assert_shapeless(product, &[&[matrix(2, 3), matrix(3, 4)], &[matrix(1, 2), matrix(2, 5)]]);
        let sum = |x: &[Array]| Ok(vec![ops::addmm(&x[0], &x[1], &x[2], 2.0, 3.0)?]);
        let first = [matrix(2, 4), matrix(2, 3), matrix(3, 4)];
        assert_shapeless(sum, &[&first, &[matrix(1, 5), matrix(3, 6), matrix(6, 5)]]);
        let batch = |n| filled(&[n, 2, 3], Dtype::Float32, |i| i as f64);
        assert_shapeless(product, &[&[batch(1), matrix(3, 4)], &[batch(4), matrix(3, 2)]]);
    });
}

#[test]
fn shapeless_functions_map_products_of_matrices_of_any_size() {
    on_each_device(|_| {
        let mapped = |axes: [Option<isize>; 2]| {
            move |x: &[Array]| {
                let product = |x: &[Array]| Ok(vec![ops::matmul(&x[0], &x[1])?]);
                vmap(product, x, &axes, |n| Ok(vec![Some(0); n]))
            }
        };
        let a = |shape: &[usize]| filled(shape, Dtype::Float32, |i| i as f64);
        let first = [a(&[2, 3, 1, 4, 5]), a(&[1, 2, 5, 6])];
        let both = [a(&[3, 2, 1, 4, 5]), a(&[2, 3, 5, 6])];
        assert_shapeless(mapped([Some(0), Some(1)]), &[&first, &both]);
        let first = [a(&[2, 3, 1, 4, 5]), a(&[1, 2, 5, 6])];
        assert_shapeless(
            mapped([Some(0), None]),
            &[&first, &[a(&[2, 3, 1, 7, 2]), a(&[1, 2, 2, 3])]],
        );
    });
}

#[test]
fn shapeless_functions_reduce_axes_that_had_one_element() {
    on_each_device(|_| {
        let mean =
            |x: &[Array]| Ok(vec![ops::mean(&x[0], &[], false)?, ops::var(&x[0], &[0], true, 0)?]);
        assert_shapeless(mean, &[&[matrix(1, 1)], &[matrix(4, 2)], &[matrix(2, 4)]]);
        let largest = |x: &[Array]| Ok(vec![ops::max(&x[0], &[-1], true)?]);
        assert_shapeless(largest, &[&[matrix(1, 1)], &[matrix(2, 3)]]);
    });
}

#[test]
fn shapeless_functions_reshape_what_they_can() {
    on_each_device(|_| {
        let rows = |x: &[Array]| Ok(vec![ops::reshape(&x[0], &[2, -1])?]);
        assert_shapeless(rows, &[&[matrix(2, 3)], &[matrix(4, 3)]]);
        let flat = |x: &[Array]| Ok(vec![ops::flatten(&x[0], 0, -1)?]);
        assert_shapeless(flat, &[&[matrix(1, 3)], &[matrix(4, 3)]]);
        let split = |x: &[Array]| Ok(vec![ops::unflatten(&x[0], -1, &[2, -1])?]);
        assert_shapeless(split, &[&[matrix(2, 4)], &[matrix(3, 6)]]);
        let (fun, _) = counted(rows, true);
        fun.call(&[matrix(2, 2)]).unwrap();
        assert!(fun.call(&[matrix(3, 3)]).is_err());
    });
}

#[test]
fn shapeless_derivatives() {
    on_each_device(|_| {
        let derivative = |x: &[Array]| {
            let sum = |x: &[Array]| Ok(vec![ops::sum(&ops::matmul(&x[0], &x[1])?, &[], false)?]);
            Ok(vjp(sum, x, &[Array::scalar(1.0f32)?])?.1)
        };
        assert_shapeless(
            derivative,
            &[&[matrix(2, 3), matrix(3, 4)], &[matrix(1, 2), matrix(2, 5)]],
        );
        let of_product = |x: &[Array]| Ok(vec![grad(|x| ops::prod(x, &[], false), &x[0])?]);
        assert_shapeless(of_product, &[&[matrix(2, 3)], &[matrix(4, 2)], &[matrix(1, 1)]]);
    });
}

#[test]
fn shapeless_softmax_over_several_axes() {
    on_each_device(|_| {
        let softmax = |x: &[Array]| Ok(vec![ops::softmax(&x[0], &[0, 1], true)?]);
        let (compiled, traced) = counted(softmax, true);
        for (rows, columns) in [(2, 3), (4, 5), (1, 1)] {
            let input = [ops::multiply(matrix(rows, columns), 0.25f32).unwrap()];
            let (got, want) = (compiled.call(&input).unwrap(), softmax(&input).unwrap());
            mlx_tests::assert_ulps("softmax", &got[0], &values(&want[0]), 8.0);
        }
        assert_eq!(traced.load(Relaxed), 1);
    });
}

#[test]
fn gradients_of_checkpoints_are_compiled() {
    on_each_device(|_| {
        let weight = numbers(&[0.5, 1.0, 1.5, 2.0]);
        let fun = move |x: &[Array]| {
            let weight = weight.clone();
            let norm = move |x: &Array| mlx::fast::layer_norm(x, Some(&weight), None, 1e-3);
            let norm = checkpoint(norm);
            let sum = |x: &Array| ops::sum(&ops::square(&norm(x)?)?, &[], false);
            Ok(vec![grad(sum, &x[0])?])
        };
        let input = numbers(&[1.0, 2.0, 4.0, 8.0]);
        let (compiled, _) = counted(fun.clone(), false);
        let want = fun(std::slice::from_ref(&input)).unwrap();
        mlx_tests::assert_ulps(
            "gradient",
            &compiled.call(&[input]).unwrap()[0],
            &values(&want[0]),
            8.0,
        );
    });
}
