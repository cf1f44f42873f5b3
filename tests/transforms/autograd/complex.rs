//! Derivatives of complex functions: those by an array are conjugated.

use mlx::{Array, Complex, Dtype, Result, ops, transforms::tree};
use mlx_tests::{complex_noise, complex_parts, on_each_device};

use super::{Function, by};

/// The real and imaginary parts, for a comparison up to roundings.
fn assert_same(got: &Array, want: &Array) {
    assert_eq!(got.dtype(), want.dtype());
    let (got, want) = (complex_parts(got), complex_parts(want));
    let far = |([a, b], [c, d]): (&[f64; 2], &[f64; 2])| {
        (a - c).hypot(b - d) > 1e-4 * c.hypot(*d).max(1.0)
    };
    assert!(got.len() == want.len() && !got.iter().zip(&want).any(far), "{got:?} not {want:?}");
}

fn conjugated(a: &Array) -> Array {
    ops::conjugate(a).unwrap()
}

/// The derivative of a function with one argument, times a cotangent of the same shape.
fn pulled(fun: impl Fn(&Array) -> Result<Array>, z: &Array, cotangent: &Array) -> Array {
    tree::vjp(fun, z, cotangent).unwrap().1
}

#[test]
fn parts_have_derivatives_along_their_axis() {
    on_each_device(|_| {
        let z =
            Array::from_slice(&[Complex::new(0.0, 1.0), Complex::new(0.5, -2.0)], &[2]).unwrap();
        let by_real = by(|z| ops::multiply(&ops::real(z)?, 2.0f32), &z);
        assert_eq!(complex_parts(&by_real), [[2.0, 0.0]; 2]);
        let by_imag = by(|z| ops::multiply(&ops::imag(z)?, 2.0f32), &z);
        assert_eq!(complex_parts(&by_imag), [[0.0, 2.0]; 2]);
    });
}

#[test]
fn derivatives_of_holomorphic_functions_are_conjugated() {
    on_each_device(|_| {
        let (z, cotangent) = (complex_noise(&[3, 5], 1), complex_noise(&[3, 5], 2));
        let reciprocal = |z: &Array| ops::divide(&ops::ones_like(z)?, z);
        let cases: [(Function<'_>, Function<'_>); 8] = [
            (&ops::exp, &ops::exp),
            (&ops::log, &reciprocal),
            (&ops::square, &|z| ops::add(z, z)),
            (&ops::sin, &ops::cos),
            (&ops::sinh, &ops::cosh),
            (&ops::cosh, &ops::sinh),
            (&ops::tan, &|z| reciprocal(&ops::square(&ops::cos(z)?)?)),
            (&ops::tanh, &|z| reciprocal(&ops::square(&ops::cosh(z)?)?)),
        ];
        for (fun, derivative) in cases {
            let want = ops::multiply(&cotangent, conjugated(&derivative(&z).unwrap())).unwrap();
            assert_same(&pulled(fun, &z, &cotangent), &want);
        }
    });
}

#[test]
fn magnitudes_are_real_and_so_are_their_tangents() {
    on_each_device(|_| {
        let (z, tangent) = (complex_noise(&[3, 5], 3), complex_noise(&[3, 5], 4));
        let (_, along) = tree::jvp(ops::abs, &z, &tangent).unwrap();
        let inner = ops::real(&ops::multiply(conjugated(&z), &tangent).unwrap()).unwrap();
        let want = ops::divide(&inner, ops::abs(&z).unwrap()).unwrap();
        assert_eq!(along.dtype(), Dtype::Float32);
        assert_same(
            &ops::astype(&along, Dtype::Complex64).unwrap(),
            &ops::astype(&want, Dtype::Complex64).unwrap(),
        );
        let cotangent = super::random(&[3, 5], 5);
        let unit = ops::divide(&z, ops::abs(&z).unwrap()).unwrap();
        assert_same(&pulled(ops::abs, &z, &cotangent), &ops::multiply(&unit, &cotangent).unwrap());
    });
}

#[test]
fn products_over_an_axis_are_products_of_factors() {
    on_each_device(|_| {
        let (z, cotangent) = (complex_noise(&[2, 20], 6), complex_noise(&[20], 7));
        let got = pulled(|z| ops::prod(z, &[0], false), &z, &cotangent);
        let factors = [0, 1].map(|i| z.get_item(&[i.into()]).unwrap());
        let (_, by) = tree::vjp(|[a, b]| ops::multiply(a, b), &factors, &cotangent).unwrap();
        assert_same(&got, &ops::stack(&[&by[0], &by[1]], 0).unwrap());
    });
}
