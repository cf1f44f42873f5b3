//! Functions of several operations, as users differentiate and map them.

use mlx::{
    Array, Result, eval, ops,
    transforms::{jvp, vjp, vmap},
};
use mlx_tests::{on_each_device, values};

fn scalar(value: f32) -> Array {
    Array::scalar(value).unwrap()
}

/// The derivative of a function of one array by it.
fn derivative(fun: impl Fn(&Array) -> Result<Array>, at: &Array) -> Result<Array> {
    let (_, mut derivatives) =
        vjp(|x| Ok(vec![fun(&x[0])?]), std::slice::from_ref(at), &[scalar(1.0)])?;
    Ok(derivatives.remove(0))
}

#[test]
fn derivatives_of_derivatives() {
    on_each_device(|_| {
        let cube = |x: &Array| ops::multiply(x, &ops::square(x)?);
        let first = |x: &Array| derivative(cube, x);
        let second = |x: &Array| derivative(first, x);
        let third = derivative(second, &scalar(2.0)).unwrap();
        assert_eq!(values(&first(&scalar(2.0)).unwrap()), [12.0]);
        assert_eq!(values(&second(&scalar(2.0)).unwrap()), [12.0]);
        assert_eq!(values(&third), [6.0]);
    });
}

#[test]
fn an_evaluation_inside_keeps_what_the_derivative_needs() {
    on_each_device(|_| {
        let fun = |x: &Array| {
            let y = ops::exp(x)?;
            eval(&[&y])?;
            let z = ops::multiply(&y, x)?;
            eval(&[&z])?;
            ops::add(&z, 1.0f32)
        };
        let got = derivative(fun, &scalar(1.0)).unwrap();
        let want = 2.0 * 1f64.exp();
        assert!((values(&got)[0] - want).abs() < 1e-5);
    });
}

#[test]
fn no_derivative_goes_through_a_stop() {
    on_each_device(|_| {
        let fun = |x: &Array| ops::multiply(x, &ops::stop_gradient(&ops::square(x)?)?);
        assert_eq!(values(&derivative(fun, &scalar(3.0)).unwrap()), [9.0]);
        let (_, tangents) = jvp(|x| Ok(vec![fun(&x[0])?]), &[scalar(3.0)], &[scalar(1.0)]).unwrap();
        assert_eq!(values(&tangents[0]), [9.0]);
    });
}

#[test]
fn mapped_derivatives() {
    on_each_device(|_| {
        let fun = |x: &Array| derivative(|x| ops::multiply(x, &ops::square(x)?), x);
        let inputs = Array::from_slice(&[1.0f32, 2.0, 3.0], &[3]).unwrap();
        let mapped =
            vmap(|x| Ok(vec![fun(&x[0])?]), &[inputs], &[Some(0)], |n| Ok(vec![Some(0); n]));
        assert_eq!(values(&mapped.unwrap()[0]), [3.0, 12.0, 27.0]);
    });
}

#[test]
fn clipped_elements_have_no_derivative() {
    on_each_device(|_| {
        let x = Array::from_slice(&[-1.0f32, 0.5, 2.0], &[3]).unwrap();
        let clip = |x: &Array| ops::clip(x, Some(&scalar(0.0)), Some(&scalar(1.0)));
        let fun = |x: &Array| ops::sum(&ops::square(&clip(x)?)?, &[], false);
        assert_eq!(values(&derivative(fun, &x).unwrap()), [0.0, 1.0, 0.0]);
    });
}
