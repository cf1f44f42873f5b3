//! Functions in files: written, read and called again.

use std::{collections::BTreeSet, path::PathBuf};

use mlx::{
    Array, Device, Dtype, Error, Result,
    export::{Argument, Event, Exporter, export_function, import_function},
    io::Arrays,
    ops,
    primitives::Primitive,
    random,
};
use mlx_tests::{array, example_inputs, on_each_device, values};
use tempfile::TempDir;

use crate::common::row;

/// A file of a folder of its own.
pub(crate) fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fn.mlxfn");
    (folder, path)
}

pub(crate) fn named<const N: usize>(arrays: [(&str, &Array); N]) -> Arrays {
    arrays.map(|(name, array)| (name.into(), array.clone())).into()
}

/// The sum of all arguments.
fn sum(args: &[Array], kwargs: &Arrays) -> Result<Vec<Array>> {
    let mut all = args.iter().chain(kwargs.values());
    let first = all.next().expect("there is an argument").clone();
    Ok(vec![all.try_fold(first, |sum, next| ops::add(&sum, next))?])
}

/// The only result of a function.
fn one(results: Result<Vec<Array>>) -> Vec<f64> {
    values(&results.unwrap()[0])
}

#[test]
fn what_was_written_computes_the_same() {
    on_each_device(|_| {
        let (_folder, path) = file();
        let fun = |x: &[Array], _: &Arrays| Ok(vec![ops::abs(&ops::sin(&x[0])?)?]);
        let x = row(&[1.0, -2.0, 3.0]);
        export_function(&path, fun, std::slice::from_ref(&x), &Arrays::new(), false).unwrap();
        let imported = import_function(&path).unwrap();
        let expected = one(fun(std::slice::from_ref(&x), &Arrays::new()));
        assert_eq!(one(imported.call(&[x], &Arrays::new())), expected);
    });
}

/// How far results may be from those of a primitive that is written as a composition.
fn slack(dtype: Dtype) -> f64 {
    16.0 * mlx_tests::epsilon(dtype)
}

#[test]
fn every_primitive_can_be_written() {
    mlx_tests::init();
    let (_folder, path) = file();
    let none = Arrays::new();
    let mut refused = BTreeSet::new();
    for example in Primitive::examples() {
        let name = format!("{:?} of {}", example.primitive, example.dtype);
        let check = || {
            let inputs = example_inputs(&example, 1).unwrap();
            let fun = |x: &[Array], _: &Arrays| {
                Ok(mlx::graph::apply(example.primitive.clone(), x.into())?.into_vec())
            };
            if let Err(error) = export_function(&path, fun, &inputs, &none, false) {
                let words = format!("Unable to serialize primitive {}", example.primitive.name());
                assert_eq!(error.to_string(), format!("[export_function] {words}"));
                refused.insert(example.primitive.name());
                return;
            }
            let got = import_function(&path).unwrap().call(&inputs, &none).unwrap();
            let wanted = fun(&inputs, &none).unwrap();
            assert_eq!(got.len(), wanted.len(), "{name}");
            for (got, want) in got.iter().zip(&wanted) {
                assert_eq!(got.spec(), want.spec(), "{name}");
                if got.to_bytes().unwrap() != want.to_bytes().unwrap() {
                    let slack = slack(example.dtype);
                    for (got, want) in values(got).into_iter().zip(values(want)) {
                        let error = (got - want).abs();
                        assert!(error <= slack * want.abs().max(1.0), "{name}: {got}, not {want}");
                    }
                }
            }
        };
        mlx::with_device(Device::CPU, check).unwrap();
    }
    // Upstream has names for them, but nothing that writes them.
    assert_eq!(refused, BTreeSet::from(["LUF", "SegmentedMM"]));
}

#[test]
fn arguments_have_places_or_names() {
    on_each_device(|_| {
        let (_folder, path) = file();
        let none = Arrays::new();
        let (x, y) = (row(&[1.0, 2.0]), row(&[10.0, 20.0]));
        let difference =
            |_: &[Array], kwargs: &Arrays| Ok(vec![ops::subtract(&kwargs["x"], &kwargs["y"])?]);
        export_function(&path, difference, &[], &named([("y", &y), ("x", &x)]), false).unwrap();
        let imported = import_function(&path).unwrap();
        assert_eq!(one(imported.call(&[], &named([("x", &x), ("y", &y)]))), [-9.0, -18.0]);
        assert_eq!(one(imported.call(&[], &named([("x", &y), ("y", &x)]))), [9.0, 18.0]);
        for (args, kwargs) in [
            (vec![x.clone(), y.clone()], none.clone()),
            (vec![x.clone()], named([("y", &y)])),
            (vec![], named([("x", &x), ("z", &y)])),
        ] {
            assert!(matches!(imported.call(&args, &kwargs), Err(Error::Invalid { .. })));
        }
    });
}

#[test]
fn a_file_has_a_function_for_each_signature() {
    on_each_device(|_| {
        let (_folder, path) = file();
        let none = Arrays::new();
        let constant = ops::zeros(&[16, 2048], Dtype::Float32).unwrap();
        constant.eval().unwrap();
        let fun = |args: &[Array], kwargs: &Arrays| {
            let added = match args {
                [] => Array::scalar(0.0f32)?,
                args => sum(args, kwargs)?.remove(0),
            };
            Ok(vec![ops::add(&constant, &added)?])
        };
        let ones = vec![Array::scalar(1.0f32).unwrap(); 4];
        let mut exporter = Exporter::new(&path, fun, false).with_metadata("{\"lr\": 0.1}");
        (0..5).for_each(|n| exporter.export(&ones[..n], &none).unwrap());
        exporter.export(&ones[..2], &named([("z", &ones[0])])).unwrap();
        let twice = exporter.export(&ones[..2], &none).unwrap_err();
        let words = "[export_function] Attempting to export a function twice with the same signature is not \
                     allowed.";
        assert!(matches!(twice, Error::Runtime { .. }));
        assert_eq!(twice.to_string(), words);
        exporter.close().unwrap();
        let closed = exporter.export(&ones[..1], &named([("y", &ones[0])])).unwrap_err();
        assert!(matches!(closed, Error::Runtime { .. }));
        let words = "[export_function] Attempting to write after exporting is closed.";
        assert_eq!(closed.to_string(), words);
        let imported = import_function(&path).unwrap();
        assert_eq!(imported.metadata(), "{\"lr\": 0.1}");
        for n in 0..5 {
            assert_eq!(one(imported.call(&ones[..n], &none))[0], n as f64);
        }
        assert_eq!(one(imported.call(&ones[..2], &named([("z", &ones[0])])))[0], 3.0);
        // The large constant is in the file once.
        let size = std::fs::metadata(&path).unwrap().len() as usize;
        assert!(size < constant.nbytes() + 8192, "{size}");
    });
}

#[test]
fn a_call_that_fits_no_function_is_told_which_there_are() {
    on_each_device(|_| {
        let (_folder, path) = file();
        let x = array(&[0.0; 6], &[2, 3], Dtype::Float32);
        export_function(&path, sum, std::slice::from_ref(&x), &named([("z", &x)]), false).unwrap();
        let imported = import_function(&path).unwrap();
        let error = imported.call(&[x, row(&[1.0])], &Arrays::new()).unwrap_err();
        let words = "[import_function::call] No imported function found which matches the given positional \
                     and keyword arguments. Possible functions include:\n \
                     1. Function with 1 positional inputs and 1 keyword inputs:\n   \
                     1: (2,3) float32\n   \
                     \"z\": (2,3) float32\n\n\
                     Called with 2 positional inputs and 0 keyword inputs:\n  \
                     1: (2,3) float32\n  \
                     2: (1) float32\n";
        assert_eq!(error.to_string(), words);
        assert!(matches!(error, Error::Invalid { .. }));
    });
}

#[test]
fn shapeless_functions_take_any_sizes() {
    on_each_device(|_| {
        let (_folder, path) = file();
        let none = Arrays::new();
        let fun = |x: &[Array], _: &Arrays| {
            let total = ops::sum(&ops::exp(&x[0])?, &[0], true)?;
            Ok(vec![ops::matmul(&ops::log(&total)?, &x[1])?])
        };
        let of = |shape: &[usize]| ops::ones(shape, Dtype::Float32).unwrap();
        export_function(&path, fun, &[of(&[2, 3]), of(&[3, 4])], &none, true).unwrap();
        let imported = import_function(&path).unwrap();
        assert!(imported.is_shapeless());
        for (rows, inner, columns) in [(2, 3, 4), (5, 1, 2), (1, 7, 1)] {
            let args = [of(&[rows, inner]), of(&[inner, columns])];
            let got = imported.call(&args, &none).unwrap().remove(0);
            assert_eq!(got.shape(), [1, columns]);
            let want = vec![inner as f64 * (1.0 + (rows as f64).ln()); columns];
            let close = |(got, want): (f64, &f64)| (got - want).abs() < 1e-5;
            assert!(values(&got).into_iter().zip(&want).all(close));
        }
        assert!(imported.call(&[of(&[3]), of(&[3, 4])], &none).is_err(), "another number of axes");
    });
}

#[test]
fn sizes_of_shapeless_functions_follow_from_the_arguments() {
    on_each_device(|_| {
        let (_folder, path) = file();
        let none = Arrays::new();
        let fun = |x: &[Array], _: &Arrays| {
            let centered = ops::subtract(&x[0], &ops::mean(&x[0], &[-1], true)?)?;
            let flat = ops::flatten(&ops::multiply(&centered, &x[1])?, 0, -1)?;
            Ok(vec![ops::unflatten(&flat, 0, &[-1, 2])?, ops::var(&x[0], &[], false, 0)?])
        };
        let of = |shape: &[usize]| mlx_tests::filled(shape, Dtype::Float32, |i| (i * i) as f64);
        export_function(&path, fun, &[of(&[2, 3]), of(&[3])], &none, true).unwrap();
        let imported = import_function(&path).unwrap();
        for (rows, columns) in [(2, 3), (4, 5), (1, 8)] {
            let args = [of(&[rows, columns]), of(&[columns])];
            let (got, want) = (imported.call(&args, &none).unwrap(), fun(&args, &none).unwrap());
            for (got, want) in got.iter().zip(&want) {
                assert_eq!((got.shape(), values(got)), (want.shape(), values(want)));
            }
        }
    });
}

#[test]
fn what_holds_sizes_does_not_fit_others() {
    on_each_device(|_| {
        let (_folder, path) = file();
        let none = Arrays::new();
        let fun = |x: &[Array], _: &Arrays| Ok(vec![ops::slice_axis(&x[0], 0, 1, 3)?]);
        export_function(&path, fun, &[row(&[1.0, 2.0, 3.0])], &none, true).unwrap();
        let imported = import_function(&path).unwrap();
        assert_eq!(one(imported.call(&[row(&[4.0, 5.0, 6.0])], &none)), [5.0, 6.0]);
        let error = imported.call(&[row(&[1.0; 4])], &none).unwrap_err().to_string();
        assert_eq!(error, "[Primitive::output_shapes] Slice cannot infer output shapes.");
    });
}

#[test]
fn a_copy_that_strides_ask_for_is_written() {
    on_each_device(|_| {
        let (_folder, path) = file();
        let none = Arrays::new();
        let a = mlx_tests::filled(&[3, 4], Dtype::Float32, |i| i as f64);
        let strided = |x: &Array| ops::as_strided(x, &[2, 3], &[1, 2], 0);
        let cases: [fn(&Array) -> Result<Array>; 3] = [
            |x| ops::transpose(x, &[]),
            |x| ops::slice(x, &[0, 1], &[3, 3], &[1, 1]),
            |x| ops::broadcast_to(&ops::slice(x, &[1, 1], &[2, 2], &[1, 1])?, &[2, 4]),
        ];
        for view in cases {
            let fun = |x: &[Array], _: &Arrays| Ok(vec![strided(&view(&x[0])?)?]);
            export_function(&path, fun, std::slice::from_ref(&a), &none, false).unwrap();
            let got = import_function(&path).unwrap().call(std::slice::from_ref(&a), &none);
            assert_eq!(one(got), one(fun(std::slice::from_ref(&a), &none)));
        }
    });
}

#[test]
fn random_numbers_have_the_shape_of_the_trace() {
    on_each_device(|_| {
        let (_folder, path) = file();
        let none = Arrays::new();
        let fun = |x: &[Array], _: &Arrays| {
            let noise = random::bits(x[0].shape(), 4, Some(&random::key(5)?))?;
            Ok(vec![ops::sum(&noise, &[], false)?, ops::square(&x[0])?])
        };
        export_function(&path, fun, &[row(&[1.0, 2.0, 3.0])], &none, true).unwrap();
        let imported = import_function(&path).unwrap();
        assert!(imported.call(&[row(&[4.0, 5.0, 6.0])], &none).is_ok());
        let error = imported.call(&[row(&[1.0; 4])], &none).unwrap_err().to_string();
        assert_eq!(error, "[Primitive::output_shapes] RandomBits cannot infer output shapes.");
    });
}

#[test]
fn random_numbers_have_the_key_of_the_trace() {
    on_each_device(|_| {
        let (_folder, path) = file();
        let none = Arrays::new();
        let fun = |_: &[Array], _: &Arrays| {
            let key = random::key(5)?;
            let (first, second) = random::split(&key)?;
            Ok(vec![
                random::bits(&[3], 4, Some(&first))?,
                random::normal(&[4], Dtype::Float32, 0.0, 1.0, Some(&second))?,
            ])
        };
        export_function(&path, fun, &[], &none, false).unwrap();
        let got = import_function(&path).unwrap().call(&[], &none).unwrap();
        for (got, want) in got.iter().zip(fun(&[], &none).unwrap()) {
            assert_eq!(values(got), values(&want));
        }
    });
}

#[test]
fn results_may_be_arguments_constants_and_the_same_twice() {
    on_each_device(|_| {
        let (_folder, path) = file();
        let none = Arrays::new();
        let constant = row(&[7.0]);
        let fun = |x: &[Array], _: &Arrays| {
            let doubled = ops::add(&x[0], &x[0])?;
            let waiting = ops::depends(&[&doubled, &x[0]], &[&constant])?;
            let [first, second] = waiting.try_into().expect("there are two");
            Ok(vec![x[0].clone(), constant.clone(), doubled.clone(), doubled, first, second])
        };
        let x = row(&[1.5]);
        export_function(&path, fun, std::slice::from_ref(&x), &none, false).unwrap();
        let got = import_function(&path).unwrap().call(&[x], &none).unwrap();
        let got: Vec<f64> = got.iter().map(|a| values(a)[0]).collect();
        assert_eq!(got, [1.5, 7.0, 3.0, 3.0, 3.0, 1.5]);
    });
}

#[test]
fn imported_functions_are_transformed_like_others() {
    on_each_device(|_| {
        let (_folder, path) = file();
        let none = Arrays::new();
        let fun = |x: &[Array], _: &Arrays| Ok(vec![ops::sum(&ops::square(&x[0])?, &[], false)?]);
        let x = row(&[1.0, 2.0, 3.0]);
        export_function(&path, fun, std::slice::from_ref(&x), &none, false).unwrap();
        let imported = import_function(&path).unwrap();
        let one = Array::scalar(1.0f32).unwrap();
        let call = |x: &[Array]| imported.call(x, &none);
        let (_, gradient) = mlx::transforms::vjp(call, &[x], &[one]).unwrap();
        assert_eq!(values(&gradient[0]), [2.0, 4.0, 6.0]);
    });
}

#[test]
fn a_callback_is_told_what_would_be_written() {
    on_each_device(|_| {
        let fun = |args: &[Array], kwargs: &Arrays| {
            let difference = ops::abs(&ops::subtract(&args[0], &kwargs["y"])?)?;
            let scaled = ops::multiply(&ops::log(&difference)?, row(&[2.0]))?;
            Ok(vec![ops::astype(&scaled, Dtype::Int32)?])
        };
        let mut told = Vec::new();
        let mut primitives = Vec::new();
        let callback = |event: Event<'_>| {
            match event {
                Event::Inputs(values) => told.push(format!("{} inputs", values.len())),
                Event::KeywordInputs(names) => told.push(format!("{names:?}")),
                Event::Outputs(values) => told.push(format!("{} outputs", values.len())),
                Event::Constants(constants) => told.push(format!("{} constants", constants.len())),
                Event::Primitive { name, arguments, inputs, outputs } => {
                    let names = inputs.iter().chain(outputs).map(|value| value.name.as_str());
                    primitives.push((
                        name.to_owned(),
                        arguments.to_vec(),
                        names.collect::<Vec<_>>().join(" "),
                    ));
                }
                _ => {}
            }
            Ok(())
        };
        let (x, y) = (row(&[1.0]), row(&[3.0]));
        let mut exporter = Exporter::to_callback(callback, fun, false);
        exporter.export(std::slice::from_ref(&x), &named([("y", &y)])).unwrap();
        drop(exporter);
        assert_eq!(told, ["2 inputs", "[(\"y\", \"B\")]", "1 outputs", "1 constants"]);
        let step = |name: &str, arguments: &[Argument], arrays: &str| {
            (name.to_owned(), arguments.to_vec(), arrays.to_owned())
        };
        let expected = [
            step("Subtract", &[], "A B E"),
            step("Abs", &[], "E F"),
            step("Log", &[Argument::Int(2)], "F G"),
            step("Multiply", &[], "G D H"),
            step("AsType", &[Argument::Dtype(Dtype::Int32)], "H C"),
        ];
        assert_eq!(primitives, expected);
    });
}

#[test]
fn what_cannot_be_exported_leaves_the_file_as_it_was() {
    on_each_device(|_| {
        let (_folder, path) = file();
        std::fs::write(&path, "before").unwrap();
        let x = row(&[1.0]);
        let fails = |_: &[Array], _: &Arrays| Err(Error::invalid("test", "no"));
        let error = export_function(&path, fails, std::slice::from_ref(&x), &Arrays::new(), false);
        assert_eq!(error.unwrap_err().to_string(), "[test] no");
        let hidden = x.clone();
        let captures = move |_: &[Array], _: &Arrays| Ok(vec![ops::exp(&hidden)?]);
        let error = export_function(&path, captures, &[x], &Arrays::new(), false);
        assert!(error.unwrap_err().to_string().contains("uncaptured inputs"));
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        assert!(
            export_function("/nowhere/fn.mlxfn", sum, &[row(&[1.0])], &Arrays::new(), false)
                .is_err()
        );
    });
}
