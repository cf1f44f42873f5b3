//! Derivatives and mapping of normalization.

use mlx::{Array, Dtype, Result, fast, graph, primitives::NormOp, transforms::vjp};
use mlx_tests::{array, filled, noise, on_each_device, values};

use crate::{
    common::{check, random},
    derivatives, mapping,
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
