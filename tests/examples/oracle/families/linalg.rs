//! Linear algebra. What runs on CPU streams only is asked for there, as MLX's users do.

use mlx::{
    Array, Device, Result,
    linalg::{self, Order, Uplo},
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
];
