//! Derivatives of decompositions of matrices of any shape, and of what is made of them; decompositions mapped
//! over batches.

use mlx::{
    Array, Device, Dtype, Result,
    linalg::{self, Order, Uplo},
    ops,
};
use mlx_tests::{complex_noise, filled, noise};

use crate::{derivatives::check_function, mapping};

/// A function of one array.
type Function = fn(&Array) -> Result<Vec<Array>>;

fn random(shape: &[usize], seed: u64) -> Array {
    filled(shape, Dtype::Float64, noise(seed, -1.0, 1.0))
}

/// Square matrices far from singular ones, whose triangles are as well.
fn regular(shape: &[usize], dtype: Dtype, seed: u64) -> Array {
    let n = shape[shape.len() - 1];
    let noise = noise(seed, -1.0, 1.0);
    filled(shape, dtype, |i| noise(i) + if i / n % n == i % n { 3.0 } else { 0.0 })
}

fn check(name: &str, input: Array, fun: Function) {
    check_function(&format!("{name} {:?}", input.shape()), &[input], |x| fun(&x[0]));
}

#[test]
fn inverses() {
    let inverses: [(&str, Function); 3] = [
        ("inv", |a| Ok(vec![linalg::inv(a)?])),
        ("tri_inv lower", |a| Ok(vec![linalg::tri_inv(a, false)?])),
        ("tri_inv upper", |a| Ok(vec![linalg::tri_inv(a, true)?])),
    ];
    for (name, fun) in inverses {
        for shape in [&[1, 1][..], &[4, 4], &[2, 2, 3, 3]] {
            check(name, regular(shape, Dtype::Float64, 1), fun);
        }
    }
}

#[test]
fn cholesky() {
    let factors: [(&str, Function); 3] = [
        ("lower", |a| Ok(vec![linalg::cholesky(a, false)?])),
        ("upper", |a| Ok(vec![linalg::cholesky(a, true)?])),
        ("inverse", |l| Ok(vec![linalg::cholesky_inv(l, false)?])),
    ];
    for (name, fun) in factors {
        for shape in [&[1, 1][..], &[4, 4], &[2, 3, 3]] {
            check(name, regular(shape, Dtype::Float64, 1), fun);
        }
    }
}

#[test]
fn qr() {
    for shape in [&[3, 3][..], &[5, 3], &[3, 5], &[2, 4, 2], &[2, 1, 3]] {
        check("qr", random(shape, 1), |a| {
            let (q, r) = linalg::qr(a)?;
            Ok(vec![q, r])
        });
    }
}

#[test]
fn lu() {
    for shape in [&[1, 1][..], &[4, 4], &[2, 3, 3], &[4, 2], &[2, 2, 3]] {
        check("lu", random(shape, 3), |a| {
            let (_, l, u) = linalg::lu(a)?;
            Ok(vec![l, u])
        });
    }
}

/// What vectors, which are columns, make up with a factor of each; then it does not matter which sign or
/// phase each has.
fn combined(left: &Array, right: &Array) -> Result<Array> {
    let count = left.dim(-1).min(right.dim(-1)) as isize;
    let factors = ops::arange(1.0, 1.0 + count as f64, 1.0, Dtype::Float32)?;
    let left = ops::multiply(&ops::slice_axis(left, -1, 0, count)?, &factors)?;
    ops::matmul(&left, &adjoint(&ops::slice_axis(right, -1, 0, count)?)?)
}

fn adjoint(a: &Array) -> Result<Array> {
    let turned = ops::swapaxes(a, -1, -2)?;
    if a.dtype() == Dtype::Complex64 { ops::conjugate(&turned) } else { Ok(turned) }
}

fn eigen(a: &Array, uplo: Uplo) -> Result<Vec<Array>> {
    let (values, vectors) = linalg::eigh(a, uplo)?;
    Ok(vec![values, combined(&vectors, &vectors)?])
}

fn singular(a: &Array) -> Result<Vec<Array>> {
    let (u, s, vt) = linalg::svd(a)?;
    let (k, v) = (s.dim(-1) as isize, adjoint(&vt)?);
    // Vectors without a value are any that are orthogonal to the others.
    let (u, v) = (ops::slice_axis(&u, -1, 0, k)?, ops::slice_axis(&v, -1, 0, k)?);
    Ok(vec![s, combined(&u, &u)?, combined(&v, &v)?, combined(&u, &v)?])
}

#[test]
fn eigh() {
    let inputs =
        [random(&[1, 1], 1), random(&[4, 4], 1), random(&[2, 3, 3], 1), complex_noise(&[3, 3], 1)];
    for input in inputs {
        check("lower", input.clone(), |a| eigen(a, Uplo::L));
        check("upper", input.clone(), |a| eigen(a, Uplo::U));
        check("values", input, |a| Ok(vec![linalg::eigvalsh(a, Uplo::L)?]));
    }
}

#[test]
fn svd() {
    for shape in [&[1, 1][..], &[4, 4], &[2, 3, 3], &[4, 2], &[2, 2, 4], &[1, 3]] {
        check("svd", random(shape, 1), singular);
        check("values", random(shape, 1), |a| Ok(vec![linalg::singular_values(a)?]));
    }
    check("svd", complex_noise(&[3, 3], 1), singular);
    check("svd", complex_noise(&[2, 3], 1), singular);
}

#[test]
fn equal_values() {
    let derivative = |fun: fn(&Array) -> Result<Array>| {
        let identity = ops::identity(3, Dtype::Float64)?;
        let fun = |x: &[Array]| Ok(vec![ops::sum(&fun(&x[0])?, &[], false)?]);
        let one = Array::scalar(1.0f64)?;
        let (_, got) = mlx::transforms::vjp(fun, std::slice::from_ref(&identity), &[one])?;
        mlx_tests::values(&ops::subtract(&got[0], &identity)?)
            .iter()
            .for_each(|x| assert!(x.abs() < 1e-12));
        Ok::<_, mlx::Error>(())
    };
    mlx_tests::init();
    mlx::with_device(Device::CPU, || {
        derivative(|a| Ok(linalg::eigh(a, Uplo::L)?.0)).unwrap();
        derivative(linalg::singular_values).unwrap();
    })
    .unwrap();
}

#[test]
fn compositions() {
    let functions: [(&str, Function); 7] = [
        ("solve", |a| {
            let b = random(&[4, 2], 7);
            Ok(vec![
                linalg::solve(a, &b)?,
                linalg::solve(a, &ops::flatten(&ops::slice_axis(&b, 1, 0, 1)?, 0, -1)?)?,
            ])
        }),
        ("solve_triangular", |a| Ok(vec![linalg::solve_triangular(a, &random(&[4, 2], 7), true)?])),
        ("det", |a| Ok(vec![linalg::det(a)?])),
        ("slogdet", |a| Ok(vec![linalg::slogdet(a)?.1])),
        ("pinv", |a| Ok(vec![linalg::pinv(a)?])),
        ("norm 2", |a| Ok(vec![linalg::norm(a, Some(Order::P(2.0)), Some(&[0, 1]), false)?])),
        ("norm nuc", |a| Ok(vec![linalg::norm(a, Some(Order::Nuc), None, true)?])),
    ];
    for (name, fun) in functions {
        check(name, regular(&[4, 4], Dtype::Float64, 5), fun);
    }
    check("pinv", random(&[4, 2], 1), |a| Ok(vec![linalg::pinv(a)?]));
    check("pinv", random(&[2, 4], 1), |a| Ok(vec![linalg::pinv(a)?]));
    check("det", random(&[2, 3, 3], 1), |a| Ok(vec![linalg::det(a)?]));
    check_function("solve for b", &[random(&[4, 2], 1)], |b| {
        Ok(vec![linalg::solve(&regular(&[4, 4], Dtype::Float64, 5), &b[0])?])
    });
}

#[test]
fn norms() {
    let orders =
        [None, Some(1.0), Some(2.0), Some(3.0), Some(f64::INFINITY), Some(f64::NEG_INFINITY)];
    for order in orders {
        let order = order.map(Order::P);
        check_function(&format!("{order:?}"), &[random(&[3, 4], 1)], |x| {
            Ok(vec![linalg::norm(&x[0], order, Some(&[1]), false)?])
        });
        check_function(&format!("matrix {order:?}"), &[random(&[3, 4], 1)], |x| {
            let order = if order == Some(Order::P(3.0)) { Some(Order::Fro) } else { order };
            Ok(vec![linalg::norm(&x[0], order, Some(&[0, 1]), false)?])
        });
    }
    check_function("cross", &[random(&[2, 3], 1), random(&[2, 3], 2)], |x| {
        Ok(vec![linalg::cross(&x[0], &x[1], -1)?])
    });
}

#[test]
fn mapped() {
    let functions: [(&str, Function); 6] = [
        ("solve", |a| Ok(vec![linalg::solve(a, &ops::square(a)?)?])),
        ("det", |a| Ok(vec![linalg::det(a)?])),
        ("slogdet", |a| {
            let (sign, log) = linalg::slogdet(a)?;
            Ok(vec![sign, log])
        }),
        ("pinv", |a| Ok(vec![linalg::pinv(a)?])),
        ("eigvalsh", |a| Ok(vec![linalg::eigvalsh(a, Uplo::U)?])),
        ("singular_values", |a| Ok(vec![linalg::singular_values(a)?])),
    ];
    for (name, fun) in functions {
        for shape in [&[2, 3, 3][..], &[4, 4]] {
            let inputs = |seed| vec![regular(shape, Dtype::Float32, seed)];
            mapping::check_function(name, inputs, |x| {
                mlx::with_device(Device::CPU, || fun(&x[0]))?
            });
        }
    }
}
