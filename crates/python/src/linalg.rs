//! `mlx.core.linalg`.

use mlx::linalg::{self, Order, Uplo};
use pyo3::{
    prelude::*,
    types::{PyModule, PyString},
};

use crate::{
    arguments::{ArrayArg, Axes},
    array::{PyArray, apply},
    error::OrRaise,
    functions,
    stream::Target,
};

/// Two arrays.
type Pair = (PyArray, PyArray);
/// Three arrays.
type Triple = (PyArray, PyArray, PyArray);

pub(crate) fn register(core: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = &PyModule::new(core.py(), "mlx.core.linalg")?;
    functions!(module: norm qr svd inv tri_inv cholesky cholesky_inv pinv cross eigvalsh eigh eigvals eig lu
        lu_factor solve solve_triangular det slogdet);
    core.add("linalg", module)
}

/// Order of a norm: a number or a name.
struct PyOrder(Order);

impl<'a, 'py> FromPyObject<'a, 'py> for PyOrder {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.cast::<PyString>() {
            Ok(name) => name.to_str()?.parse::<Order>().map(PyOrder).or_raise(),
            Err(_) => Ok(PyOrder(Order::P(object.extract()?))),
        }
    }
}

/// Norm of vectors or matrices.
///
/// Args:
///     a (array): Input array.
///     ord (int, float or str, optional): The order: ``p`` of a vector; of a matrix ``1`` or ``-1`` (sums of
///       columns), ``2`` or ``-2`` (singular values), ``inf`` or ``-inf`` (sums of rows), ``"fro"`` or
///       ``"nuc"``. Default: the square root of the sum of squares.
///     axis (int or list(int), optional): One axis for vectors, two for matrices. Default: all.
///     keepdims (bool, optional): Keep reduced axes as axes of size 1. Default: ``False``.
///
/// Returns:
///     array: The norms.
///
/// Example:
///     >>> mx.linalg.norm(mx.array([3.0, 4.0]))
///     array(5, dtype=None)
#[pyfunction]
#[pyo3(signature = (a, /, ord=None, axis=None, keepdims=false, *, stream=None))]
fn norm(
    a: ArrayArg,
    ord: Option<PyOrder>,
    axis: Option<Axes>,
    keepdims: bool,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let (order, axes) = (ord.map(|order| order.0), axis.as_ref().map(Axes::as_slice));
    apply(stream, || linalg::norm(&a, order, axes, keepdims))
}

/// QR factorization of matrices.
///
/// Args:
///     a (array): Matrices.
///
/// Returns:
///     tuple(array, array): Orthonormal columns, and upper triangular matrices.
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn qr(a: ArrayArg, stream: Option<Target>) -> PyResult<Pair> {
    apply(stream, || linalg::qr(&a))
}

/// Singular value decomposition of matrices.
///
/// Args:
///     a (array): Matrices.
///     compute_uv (bool, optional): Return the vectors as well. Default: ``True``.
///
/// Returns:
///     tuple(array, array, array): ``u``, ``s`` and ``vt`` with ``a = u @ diag(s) @ vt``; without vectors
///     ``s`` alone.
#[pyfunction]
#[pyo3(signature = (a, compute_uv=true, *, stream=None))]
fn svd(
    py: Python<'_>,
    a: ArrayArg,
    compute_uv: bool,
    stream: Option<Target>,
) -> PyResult<Bound<'_, PyAny>> {
    match compute_uv {
        true => {
            let all: Triple = apply(stream, || linalg::svd(&a))?;
            Ok(all.into_pyobject(py)?.into_any())
        }
        false => {
            let values = apply(stream, || linalg::singular_values(&a))?;
            Ok(Bound::new(py, values)?.into_any())
        }
    }
}

/// Inverses of square matrices.
///
/// Args:
///     a (array): Matrices.
///
/// Returns:
///     array: Their inverses.
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn inv(a: ArrayArg, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || linalg::inv(&a))
}

/// Inverses of triangular matrices.
///
/// Args:
///     a (array): Matrices; the other triangle is not looked at.
///     upper (bool, optional): Whether they are upper triangular. Default: ``False``.
///
/// Returns:
///     array: Their inverses.
#[pyfunction]
#[pyo3(signature = (a, upper=false, *, stream=None))]
fn tri_inv(a: ArrayArg, upper: bool, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || linalg::tri_inv(&a, upper))
}

/// Cholesky factors of positive definite matrices.
///
/// Args:
///     a (array): Matrices.
///     upper (bool, optional): Return the upper triangular factor instead of the lower one. Default:
///       ``False``.
///
/// Returns:
///     array: The factors.
#[pyfunction]
#[pyo3(signature = (a, upper=false, *, stream=None))]
fn cholesky(a: ArrayArg, upper: bool, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || linalg::cholesky(&a, upper))
}

/// Inverses of matrices whose Cholesky factors are given.
///
/// Args:
///     a (array): The factors.
///     upper (bool, optional): Whether they are the upper triangular ones. Default: ``False``.
///
/// Returns:
///     array: Inverses of the matrices that were factored.
#[pyfunction]
#[pyo3(signature = (a, upper=false, *, stream=None))]
fn cholesky_inv(a: ArrayArg, upper: bool, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || linalg::cholesky_inv(&a, upper))
}

/// Moore-Penrose inverses of matrices.
///
/// Args:
///     a (array): Matrices.
///
/// Returns:
///     array: Their inverses.
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn pinv(a: ArrayArg, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || linalg::pinv(&a))
}

/// Cross product of vectors with 2 or 3 elements.
///
/// Args:
///     a (array): Vectors.
///     b (array): Vectors; both broadcast.
///     axis (int, optional): The axis of the vectors. Default: the last one.
///
/// Returns:
///     array: The products.
#[pyfunction]
#[pyo3(
    signature = (a, b, axis=-1, *, stream=None),
    text_signature = "(a, b, axis=-1, *, stream=None)"
)]
fn cross(a: ArrayArg, b: ArrayArg, axis: isize, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || linalg::cross(&a, &b, axis))
}

/// Eigenvalues of self-adjoint matrices.
///
/// Args:
///     a (array): Matrices.
///     UPLO (str, optional): Which triangle is looked at: ``"L"`` or ``"U"``. Default: ``"L"``.
///
/// Returns:
///     array: The eigenvalues, ascending.
#[pyfunction]
#[pyo3(signature = (a, UPLO="L", *, stream=None))]
#[expect(non_snake_case, reason = "upstream's keyword")]
fn eigvalsh(a: ArrayArg, UPLO: &str, stream: Option<Target>) -> PyResult<PyArray> {
    let triangle = UPLO.parse::<Uplo>().or_raise()?;
    apply(stream, || linalg::eigvalsh(&a, triangle))
}

/// Eigenvalues and eigenvectors of self-adjoint matrices.
///
/// Args:
///     a (array): Matrices.
///     UPLO (str, optional): Which triangle is looked at: ``"L"`` or ``"U"``. Default: ``"L"``.
///
/// Returns:
///     tuple(array, array): The eigenvalues, ascending, and the eigenvectors as columns.
#[pyfunction]
#[pyo3(signature = (a, UPLO="L", *, stream=None))]
#[expect(non_snake_case, reason = "upstream's keyword")]
fn eigh(a: ArrayArg, UPLO: &str, stream: Option<Target>) -> PyResult<Pair> {
    let triangle = UPLO.parse::<Uplo>().or_raise()?;
    apply(stream, || linalg::eigh(&a, triangle))
}

/// Eigenvalues of square matrices.
///
/// Args:
///     a (array): Matrices.
///
/// Returns:
///     array: The eigenvalues, complex64.
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn eigvals(a: ArrayArg, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || linalg::eigvals(&a))
}

/// Eigenvalues and eigenvectors of square matrices.
///
/// Args:
///     a (array): Matrices.
///
/// Returns:
///     tuple(array, array): The eigenvalues, and the eigenvectors as columns, complex64.
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn eig(a: ArrayArg, stream: Option<Target>) -> PyResult<Pair> {
    apply(stream, || linalg::eig(&a))
}

/// LU factorization of matrices with partial pivoting.
///
/// Args:
///     a (array): Matrices.
///
/// Returns:
///     tuple(array, array, array): Rows ``p``, lower triangular ``l`` and upper triangular ``u`` with
///     ``a = l[p] @ u``.
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn lu(a: ArrayArg, stream: Option<Target>) -> PyResult<Triple> {
    apply(stream, || linalg::lu(&a))
}

/// LU factorization in one matrix.
///
/// Args:
///     a (array): Matrices.
///
/// Returns:
///     tuple(array, array): Both triangles in one matrix, and the pivots.
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn lu_factor(a: ArrayArg, stream: Option<Target>) -> PyResult<Pair> {
    apply(stream, || linalg::lu_factor(&a))
}

/// Solves ``a @ x = b``.
///
/// Args:
///     a (array): Square matrices.
///     b (array): Right-hand sides: matrices, or a vector.
///
/// Returns:
///     array: The solutions ``x``.
#[pyfunction]
#[pyo3(signature = (a, b, *, stream=None))]
fn solve(a: ArrayArg, b: ArrayArg, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || linalg::solve(&a, &b))
}

/// Solves ``a @ x = b`` for triangular matrices.
///
/// Args:
///     a (array): Triangular matrices.
///     b (array): Right-hand sides: matrices, or a vector.
///     upper (bool, optional): Whether they are upper triangular. Default: ``False``.
///
/// Returns:
///     array: The solutions ``x``.
#[pyfunction]
#[pyo3(signature = (a, b, *, upper=false, stream=None))]
fn solve_triangular(
    a: ArrayArg,
    b: ArrayArg,
    upper: bool,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || linalg::solve_triangular(&a, &b, upper))
}

/// Determinants of square matrices.
///
/// Args:
///     a (array): Matrices.
///
/// Returns:
///     array: Their determinants.
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn det(a: ArrayArg, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || linalg::det(&a))
}

/// Signs of determinants, and the logarithms of their absolute values.
///
/// Args:
///     a (array): Matrices.
///
/// Returns:
///     tuple(array, array): Signs and logarithms.
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn slogdet(a: ArrayArg, stream: Option<Target>) -> PyResult<Pair> {
    apply(stream, || linalg::slogdet(&a))
}
