//! What is made of decompositions: linear systems, determinants, the pseudo-inverse.

use super::{
    Linalg, check_cpu_stream, check_matrix, check_square, norm::epsilon, several, svd, tri_inv,
};
use crate::{
    Array, Dtype, Error, Result,
    ops::{self, astype},
};

/// LU factors of (…, m, n) matrices with partial pivoting in one array, and the row that each row
/// was exchanged with (uint32).
///
/// # Errors
/// On a GPU stream, or when the array is not float32 or float64 or has fewer than two axes.
pub fn lu_factor(a: &Array) -> Result<(Array, Array)> {
    check_matrix("linalg::lu_factor", a, false)?;
    let [lu, pivots, _] = factors(a)?;
    Ok((lu, pivots))
}

fn factors(a: &Array) -> Result<[Array; 3]> {
    several(a, Linalg::Lu)
}

/// LU decomposition with partial pivoting: rows `p` (uint32), unit lower triangular `l` and upper
/// triangular `u`, so that `a = l[p, :] u`.
///
/// # Errors
/// As [`lu_factor`].
pub fn lu(a: &Array) -> Result<(Array, Array, Array)> {
    check_matrix("linalg::lu", a, false)?;
    let [lu, _, rows] = factors(a)?;
    let (m, n) = (a.dim(-2), a.dim(-1));
    let k = m.min(n);
    let left = ops::slice_axis(&lu, -1, 0, k as isize)?;
    let upper = ops::slice_axis(&lu, -2, 0, k as isize)?;
    let below = triangle(m, k, ops::greater)?;
    let diagonal = astype(&triangle(m, k, ops::equal)?, a.dtype())?;
    let zero = Array::scalar_of(0.0, a.dtype())?;
    let l = ops::add(&ops::where_(&below, &left, &zero)?, &diagonal)?;
    let u = ops::where_(&triangle(k, n, ops::less_equal)?, &upper, &zero)?;
    Ok((rows, l, u))
}

/// Where a comparison of row and column number holds.
fn triangle(
    rows: usize,
    columns: usize,
    compare: impl Fn(Array, Array) -> Result<Array>,
) -> Result<Array> {
    let count = |n: usize| ops::arange(0.0, n as f64, 1.0, Dtype::Int32);
    compare(ops::expand_dims(&count(rows)?, &[1])?, count(columns)?)
}

fn check_solve(op: &'static str, a: &Array, b: &Array) -> Result<()> {
    check_cpu_stream(op)?;
    let invalid = |message: String| Err(Error::invalid(op, message));
    if a.ndim() < 2 {
        return invalid(format!(
            "First input must have >= 2 dimensions. Received array with {} dimensions.",
            a.ndim()
        ));
    }
    if b.ndim() < 1 {
        return invalid(format!(
            "Second input must have >= 1 dimensions. Received array with {} dimensions.",
            b.ndim()
        ));
    }
    if a.dim(-1) != a.dim(-2) {
        return invalid(format!(
            "First input must be a square matrix. Received array with shape {:?}.",
            a.shape()
        ));
    }
    if a.dim(-1) != b.dim(if b.ndim() > 1 { -2 } else { -1 }) {
        return invalid(format!(
            "Last dimension of first input with shape {:?} must match second to last dimension of second \
             input with shape {:?}.",
            a.shape(),
            b.shape()
        ));
    }
    if !matches!(a.dtype(), Dtype::Float32 | Dtype::Float64) {
        return invalid(format!(
            "Arrays must have type float32 or float64. Received array with type {}.",
            a.dtype()
        ));
    }
    if !matches!(a.dtype().promote(b.dtype()), Dtype::Float32 | Dtype::Float64) {
        return invalid(format!(
            "Input arrays must promote to float32 or float64. Received arrays with type {} and {}.",
            a.dtype(),
            b.dtype()
        ));
    }
    Ok(())
}

/// Solution `x` of `a x = b`; `b` is a vector or has a right-hand side per column.
///
/// # Errors
/// On a GPU stream, or when shapes or dtypes do not fit.
pub fn solve(a: &Array, b: &Array) -> Result<Array> {
    check_solve("linalg::solve", a, b)?;
    let dtype = a.dtype().promote(b.dtype());
    let (rows, l, u) = lu(&astype(a, dtype)?)?;
    let mut order = ops::argsort(&rows, -1)?;
    let mut axis = -1;
    if b.ndim() > 1 {
        order = ops::expand_dims(&order, &[-1])?;
        axis = -2;
    }
    let permuted = ops::take_along_axis(&astype(b, dtype)?, &order, axis)?;
    solve_triangular(&u, &solve_triangular(&l, &permuted, false)?, true)
}

/// Solution of a system whose matrix is lower (or `upper`) triangular.
///
/// # Errors
/// As [`solve`].
pub fn solve_triangular(a: &Array, b: &Array, upper: bool) -> Result<Array> {
    check_solve("linalg::solve_triangular", a, b)?;
    let dtype = a.dtype().promote(b.dtype());
    ops::matmul(&tri_inv(&astype(a, dtype)?, upper)?, &astype(b, dtype)?)
}

/// Moore–Penrose inverse of (…, m, n) matrices; singular values below `10 max(m, n) ε` of the
/// largest count as zero.
///
/// # Errors
/// On a GPU stream, or when the array is not float32 or float64 or has fewer than two axes.
pub fn pinv(a: &Array) -> Result<Array> {
    check_matrix("linalg::pinv", a, false)?;
    let (m, n) = (a.dim(-2), a.dim(-1));
    if a.size() == 0 {
        let batch = &a.shape()[..a.ndim() - 2];
        return ops::zeros(&[batch, &[n, m]].concat(), a.dtype());
    }
    let k = m.min(n) as isize;
    let (u, s, vt) = svd(a)?;
    let ut = ops::swapaxes(&ops::slice_axis(&u, -1, 0, k)?, -1, -2)?;
    let v = ops::swapaxes(&ops::slice_axis(&vt, -2, 0, k)?, -1, -2)?;
    let s = ops::expand_dims(&s, &[-2])?;
    let cutoff =
        ops::multiply(&ops::max(&s, &[-1], true)?, 10.0 * m.max(n) as f64 * epsilon(a.dtype()))?;
    let zero = Array::scalar_of(0.0, a.dtype())?;
    let inverse =
        ops::where_(&ops::greater(&s, &cutoff)?, &ops::divide(&ops::ones_like(&s)?, &s)?, &zero)?;
    ops::matmul(&ops::multiply(&v, &inverse)?, &ut)
}

fn check_det(op: &'static str, a: &Array) -> Result<Array> {
    check_cpu_stream(op)?;
    if a.dtype() == Dtype::Complex64 {
        return Err(Error::invalid(op, "Complex inputs are not supported."));
    }
    if a.ndim() < 2 {
        let message = format!(
            "Arrays must have >= 2 dimensions. Received array with {} dimensions.",
            a.ndim()
        );
        return Err(Error::invalid(op, message));
    }
    check_square(op, a, "Only defined for square matrices.")?;
    astype(a, a.dtype().at_least_float())
}

/// Determinant of matrices of at most three rows.
fn small_det(a: &Array) -> Result<Array> {
    let n = a.dim(-1);
    let at = |i: isize, j: isize| {
        let row = ops::slice_axis(a, -2, i, i + 1)?;
        ops::squeeze(&ops::slice_axis(&row, -1, j, j + 1)?, &[-2, -1])
    };
    let minor = |rows: [isize; 2], columns: [isize; 2]| {
        let main = ops::multiply(&at(rows[0], columns[0])?, &at(rows[1], columns[1])?)?;
        ops::subtract(&main, &ops::multiply(&at(rows[0], columns[1])?, &at(rows[1], columns[0])?)?)
    };
    match n {
        0 => ops::ones(&a.shape()[..a.ndim() - 2], a.dtype()),
        1 => at(0, 0),
        2 => minor([0, 1], [0, 1]),
        _ => {
            let first = ops::multiply(&at(0, 0)?, &minor([1, 2], [1, 2])?)?;
            let second = ops::multiply(&at(0, 1)?, &minor([1, 2], [0, 2])?)?;
            let third = ops::multiply(&at(0, 2)?, &minor([1, 2], [0, 1])?)?;
            ops::add(&ops::subtract(&first, &second)?, &third)
        }
    }
}

fn sign_and_log(a: &Array) -> Result<(Array, Array)> {
    if a.dim(-1) <= 3 {
        let det = small_det(a)?;
        return Ok((ops::sign(&det)?, ops::log(&ops::abs(&det)?)?));
    }
    let (n, dtype) = (a.dim(-1), a.dtype());
    let [lu, pivots, _] = factors(a)?;
    let diagonal = ops::where_(&triangle(n, n, ops::equal)?, &lu, &Array::scalar_of(0.0, dtype)?)?;
    let diagonal = ops::sum(&diagonal, &[-1], false)?;
    let zero = Array::scalar_of(0.0, dtype)?;
    let rows = ops::arange(0.0, n as f64, 1.0, Dtype::Uint32)?;
    let exchanged = ops::sum(&ops::not_equal(&pivots, &rows)?, &[-1], false)?;
    let negative = ops::sum(&ops::less(&diagonal, &zero)?, &[-1], false)?;
    let odd = ops::remainder(&ops::add(&exchanged, &negative)?, 2)?;
    let sign = astype(&ops::subtract(1, &ops::multiply(&odd, 2)?)?, dtype)?;
    let singular = ops::any(&ops::equal(&diagonal, &zero)?, &[-1], false)?;
    let log = ops::sum(&ops::log(&ops::abs(&diagonal)?)?, &[-1], false)?;
    let nothing = Array::scalar_of(f64::NEG_INFINITY, dtype)?;
    Ok((ops::where_(&singular, &zero, &sign)?, ops::where_(&singular, &nothing, &log)?))
}

/// Sign and logarithm of the modulus of the determinant of square matrices.
///
/// # Errors
/// On a GPU stream, or when the array is complex or no square matrix.
pub fn slogdet(a: &Array) -> Result<(Array, Array)> {
    sign_and_log(&check_det("linalg::slogdet", a)?)
}

/// Determinant of square matrices.
///
/// # Errors
/// As [`slogdet`].
pub fn det(a: &Array) -> Result<Array> {
    let a = check_det("linalg::det", a)?;
    if a.dim(-1) <= 3 {
        return small_det(&a);
    }
    let (sign, log) = sign_and_log(&a)?;
    ops::multiply(&sign, &ops::exp(&log)?)
}
