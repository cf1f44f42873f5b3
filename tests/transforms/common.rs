//! What tests of several families share.

use mlx::{Array, Dtype, Result, ops, transforms::vjp};
use mlx_tests::{Layout, array, filled, noise, values};

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

/// The array in another layout: the same elements, but those of a broadcast one are the first of each axis's.
pub(crate) fn laid_out(a: &Array, layout: Layout) -> Array {
    let Some(last) = a.ndim().checked_sub(1) else { return a.clone() };
    if a.size() == 0 {
        return a.clone();
    }
    let evaluated = |a: Array| {
        mlx::eval(&[&a]).unwrap();
        a
    };
    let dense = |a: Result<Array>| evaluated(ops::contiguous(&a.unwrap(), false).unwrap());
    let view = match layout {
        Layout::Transposed => {
            let reversed: Vec<isize> = (0..a.ndim() as isize).rev().collect();
            ops::transpose(&dense(ops::transpose(a, &reversed)), &reversed)
        }
        Layout::Broadcast => {
            let axis = (last / 2) as isize;
            ops::broadcast_to(&dense(ops::slice_axis(a, axis, 0, 1)), a.shape())
        }
        Layout::Sliced => {
            let stop: Vec<isize> = a.shape().iter().map(|&d| d as isize).collect();
            let (mut start, mut steps) = (vec![0; a.ndim()], vec![1; a.ndim()]);
            let mut wide = stop.clone();
            (start[last], wide[last], steps[last]) = (1, 2 * stop[last], 2);
            ops::slice(&dense(ops::repeat(a, 2, Some(-1))), &start, &wide, &steps)
        }
        Layout::Reversed => ops::flip(&dense(ops::flip(a, &[0, -1])), &[0, -1]),
        Layout::Contiguous | Layout::Empty | Layout::Scalar => Ok(a.clone()),
    };
    evaluated(view.unwrap())
}
