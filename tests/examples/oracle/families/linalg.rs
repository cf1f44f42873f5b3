//! Linear algebra. What runs on CPU streams only is asked for there, as MLX's users do.

use mlx::{
    Array, Device, Dtype, Result,
    linalg::{self, Order, Uplo},
    ops,
};

use super::{Table, one, two};
use crate::argument::{Args, Argument};

fn on_cpu<T>(make: impl FnOnce() -> Result<T>) -> Result<T> {
    mlx::with_device(Device::CPU, make)?
}

macro_rules! of_matrix {
    ($name:ident) => {
        |x| one(on_cpu(|| linalg::$name(&x.array(0)?)))
    };
    ($name:ident, $flag:literal) => {
        |x| one(on_cpu(|| linalg::$name(&x.array(0)?, x.at($flag).flag())))
    };
}

fn order(x: Argument<'_>) -> Result<Option<Order>> {
    x.given().map(|x| if x.is_text() { x.text().parse() } else { Ok(x.real().into()) }).transpose()
}

fn norm(x: &Args<'_>) -> Result<Array> {
    let axes = x.at("axis").given().map(Argument::ints);
    linalg::norm(&x.array(0)?, order(x.at(1))?, axes.as_deref(), x.at("keepdims").flag())
}

/// Eigenvalues, and what the eigenvectors make of them.
fn self_adjoint(x: &Args<'_>) -> Result<Vec<Array>> {
    let triangle: Uplo = x.at("UPLO").text().parse()?;
    let (values, vectors) = linalg::eigh(&x.array(0)?, triangle)?;
    let adjoint = ops::conjugate(&ops::swapaxes(&vectors, -1, -2)?)?;
    let scaled = ops::multiply(&vectors, &ops::expand_dims(&values, &[-2])?)?;
    let whole = ops::matmul(&scaled, &adjoint)?;
    Ok(vec![values, whole, ops::matmul(&adjoint, &vectors)?])
}

/// Eigenvalues in no order: their sorted parts and the sums of their powers.
fn in_any_order(values: &Array) -> Result<Vec<Array>> {
    let mut results =
        vec![ops::sort(&ops::real(values)?, -1)?, ops::sort(&ops::imag(values)?, -1)?];
    let eighth = ops::divide(values, 8.0f32)?;
    let mut power = eighth.clone();
    for _ in 0..3 {
        results.push(ops::sum(&power, &[-1], false)?);
        power = ops::multiply(&power, &eighth)?;
    }
    Ok(results)
}

/// Eigenvalues, what is left of the equation that the vectors fulfil, and the vectors' norms.
fn eigenpairs(a: &Array) -> Result<Vec<Array>> {
    let (values, vectors) = linalg::eig(a)?;
    let image = ops::matmul(&ops::astype(a, Dtype::Complex64)?, &vectors)?;
    let scaled = ops::multiply(&vectors, &ops::expand_dims(&values, &[-2])?)?;
    let mut results = in_any_order(&values)?;
    results.push(ops::abs(&ops::subtract(&image, &scaled)?)?);
    results.push(linalg::norm(&vectors, None, Some(&[-2]), false)?);
    Ok(results)
}

pub(super) const TABLE: Table = &[
    ("linalg.norm", |x| one(norm(x))),
    ("matrix_norm", |x| one(norm(x))),
    ("linalg.cross", |x| one(linalg::cross(&x.array(0)?, &x.array(1)?, -1))),
    ("linalg.inv", of_matrix!(inv)),
    ("linalg.pinv", of_matrix!(pinv)),
    ("linalg.det", of_matrix!(det)),
    ("linalg.slogdet", |x| two(on_cpu(|| linalg::slogdet(&x.array(0)?)))),
    ("linalg.svd", of_matrix!(singular_values)),
    ("linalg.cholesky", of_matrix!(cholesky, "upper")),
    ("linalg.cholesky_inv", of_matrix!(cholesky_inv, "upper")),
    ("linalg.tri_inv", of_matrix!(tri_inv, "upper")),
    ("linalg.eigvalsh", |x| {
        let triangle: Uplo = x.at("UPLO").text().parse()?;
        one(on_cpu(|| linalg::eigvalsh(&x.array(0)?, triangle)))
    }),
    ("linalg.solve", |x| one(on_cpu(|| linalg::solve(&x.array(0)?, &x.array(1)?)))),
    ("linalg.solve_triangular", |x| {
        let upper = x.at("upper").flag();
        one(on_cpu(|| linalg::solve_triangular(&x.array(0)?, &x.array(1)?, upper)))
    }),
    ("linalg.lu_factor", |x| two(on_cpu(|| linalg::lu_factor(&x.array(0)?)))),
    ("linalg.lu", |x| on_cpu(|| linalg::lu(&x.array(0)?)).map(|(rows, l, u)| vec![rows, l, u])),
    ("linalg.qr", |x| two(on_cpu(|| linalg::qr(&x.array(0)?)))),
    ("linalg.eigh", |x| on_cpu(|| self_adjoint(x))),
    ("linalg.eigvals", |x| on_cpu(|| in_any_order(&linalg::eigvals(&x.array(0)?)?))),
    ("linalg.eig", |x| on_cpu(|| eigenpairs(&x.array(0)?))),
];
