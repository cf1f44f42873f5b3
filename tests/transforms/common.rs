//! What tests of several families share.

use mlx::{Array, Dtype, Result, ops, transforms::vjp};
use mlx_tests::{array, filled, noise, values};

use crate::derivatives;

/// Random float64 numbers between -1 and 1.
pub(crate) fn random(shape: &[usize], seed: u64) -> Array {
    filled(shape, Dtype::Float64, noise(seed, -1.0, 1.0))
}

/// A row of float32 numbers.
pub(crate) fn row(numbers: &[f64]) -> Array {
    array(numbers, &[numbers.len()], Dtype::Float32)
}

/// Checks the derivatives of a function of one float64 array.
pub(crate) fn check(name: &str, x: &Array, apply: impl Fn(&Array) -> Result<Array>) {
    derivatives::check_function(name, std::slice::from_ref(x), |x| Ok(vec![apply(&x[0])?]));
}

/// The derivative of a function of one array along a cotangent.
pub(crate) fn along(
    cotangent: &Array,
    x: &Array,
    apply: impl Fn(&Array) -> Result<Array>,
) -> Vec<f64> {
    let (_, derivatives) =
        vjp(|x| Ok(vec![apply(&x[0])?]), std::slice::from_ref(x), std::slice::from_ref(cotangent))
            .unwrap();
    assert_eq!(derivatives[0].spec(), x.spec());
    values(&derivatives[0])
}

pub(crate) fn gradient(x: &[f64], apply: impl Fn(&Array) -> Result<Array>) -> Vec<f64> {
    let one = Array::scalar(1.0f32).unwrap();
    along(&one, &row(x), |x| ops::sum(&apply(x)?, &[], false))
}
