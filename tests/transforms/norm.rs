//! Derivatives and mapping of normalization.

use mlx::{
    Array, Device, Dtype, Result,
    export::{Event, Exporter, export_function, import_function},
    fast, graph,
    io::Arrays,
    primitives::{NormOp, Primitive},
    transforms::vjp,
};
use mlx_tests::{array, filled, noise, on_each_device, values};

use crate::{
    common::{check, random},
    derivatives,
    export::file,
    mapping,
};

const EPS: f32 = 1e-5;

fn norms(scalar: bool) -> Vec<Array> {
    let parameter: &[usize] = if scalar { &[] } else { &[4] };
    vec![random(&[2, 3, 4], 1), random(parameter, 2), random(parameter, 3)]
}

/// Root-mean-square normalization of the inputs with a weight and layer normalization with both.
fn both(x: &[Array]) -> Result<Vec<Array>> {
    let eps = EPS.into();
    let rms = graph::apply(NormOp::RmsNorm { eps }.into(), x[..2].into())?;
    let layer = graph::apply(NormOp::LayerNorm { eps }.into(), x.into())?;
    Ok(rms.into_iter().chain(layer).collect())
}

#[test]
fn derivatives_by_rows_and_parameters() {
    derivatives::check_function("vectors", &norms(false), both);
    derivatives::check_function("scalars", &norms(true), both);
    let x = random(&[3, 4], 1);
    check("rms_norm", &x, |x| fast::rms_norm(x, None, EPS));
    check("layer_norm", &x, |x| fast::layer_norm(x, None, None, EPS));
    check("a bias alone", &random(&[4], 2), |bias| fast::layer_norm(&x, None, Some(bias), EPS));
    check("one row", &random(&[4], 3), |x| fast::rms_norm(x, None, EPS));
    check("one element", &random(&[3, 1], 4), |x| fast::rms_norm(x, None, EPS));
}

#[test]
fn derivatives_of_halves_are_computed_in_single_precision() {
    on_each_device(|_| {
        // The square of the smallest would be zero, the sum of squares infinite.
        let numbers = [300.0, 1e-4, -200.0, 150.0];
        let derivative = |dtype| {
            let inputs = [array(&numbers, &[1, 4], dtype), array(&[1.0; 4], &[4], dtype)];
            let cotangent = array(&[0.5, 1.0, -0.25, 2.0], &[1, 4], dtype);
            let norm = |x: &[Array]| Ok(vec![fast::rms_norm(&x[0], Some(&x[1]), EPS)?]);
            let (_, derivatives) = vjp(norm, &inputs, &[cotangent]).unwrap();
            assert!(derivatives.iter().all(|d| d.dtype() == dtype));
            derivatives.iter().flat_map(values).collect::<Vec<f64>>()
        };
        let want = derivative(Dtype::Float32);
        for (got, want) in derivative(Dtype::Float16).iter().zip(want) {
            assert!((got - want).abs() < 1e-3 * want.abs() + 1e-6, "{got} instead of {want}");
        }
    });
}

/// What is not asked for is not summed.
#[test]
fn derivatives_by_parameters_are_made_for_who_asks() {
    let of = |shape: &[usize], seed| filled(shape, Dtype::Float32, noise(seed, -1.0, 1.0));
    let x = [of(&[2, 3, 4], 1), of(&[4], 2), of(&[4], 3)];
    let (cotangent, eps) = (of(&[2, 3, 4], 4), EPS.into());
    on_each_device(|_| {
        let primitive = |wanted: &[usize]| {
            let primals: Vec<Array> = wanted.iter().map(|&i| x[i].clone()).collect();
            let norm = |given: &[Array]| {
                let mut all = x.clone();
                wanted.iter().zip(given).for_each(|(&i, given)| all[i] = given.clone());
                Ok(vec![fast::layer_norm(&all[0], Some(&all[1]), Some(&all[2]), EPS)?])
            };
            let (_, derivatives) = vjp(norm, &primals, std::slice::from_ref(&cotangent)).unwrap();
            derivatives[0].node().unwrap().primitive.clone()
        };
        let with = |parameters| Primitive::from(NormOp::LayerNormVjp { eps, parameters });
        assert_eq!(primitive(&[0]), with(false));
        assert_eq!(primitive(&[0, 1, 2]), with(true));
        assert_eq!(primitive(&[2]), with(true));
    });
}

/// By upstream's names where its kernels compute the same, and always to the same numbers.
#[test]
fn derivatives_are_written_and_read() {
    on_each_device(|device| {
        let (_folder, path) = file();
        let none = Arrays::new();
        for (scalars, parameters) in [(false, true), (true, true), (false, false)] {
            let op = NormOp::LayerNormVjp { eps: EPS.into(), parameters };
            let fun = |x: &[Array], _: &Arrays| Ok(graph::apply(op.into(), x.into())?.into_vec());
            let parameter: &[usize] = if scalars { &[] } else { &[4] };
            let shapes = [&[3, 4], parameter, parameter, &[3, 4]];
            let of = |(shape, seed): (&[usize], u64)| {
                filled(shape, Dtype::Float32, noise(seed, -1.0, 1.0))
            };
            let inputs: Vec<Array> = shapes.into_iter().zip(1..).map(of).collect();
            let mut names = Vec::new();
            let callback = |event: Event<'_>| {
                if let Event::Primitive { name, .. } = event {
                    names.push(name.to_owned());
                }
                Ok(())
            };
            Exporter::to_callback(callback, fun, false).export(&inputs, &none).unwrap();
            let has_kernel = device != Device::CPU && parameters && !scalars;
            assert_eq!(names == ["LayerNormVJP"], has_kernel, "{names:?} on {device}");
            export_function(&path, fun, &inputs, &none, false).unwrap();
            let got = import_function(&path).unwrap().call(&inputs, &none).unwrap();
            let want = fun(&inputs, &none).unwrap();
            assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().flat_map(values).zip(want.iter().flat_map(values)) {
                assert!((got - want).abs() < 1e-5, "{got} instead of {want} on {device}");
            }
        }
    });
}

#[test]
fn mapped() {
    for dtype in [Dtype::Float32, Dtype::Float16] {
        for shape in [&[3, 4][..], &[4]] {
            for parameter in [&[4][..], &[]] {
                let inputs = |seed| {
                    let of = |shape, i| filled(shape, dtype, noise(3 * seed + i, 0.1, 0.9));
                    vec![of(shape, 0), of(parameter, 1), of(parameter, 2)]
                };
                mapping::check_function("norms", inputs, both);
            }
        }
    }
}
