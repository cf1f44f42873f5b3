//! Linear algebra: MLX's `mx.linalg`. Decompositions run on CPU streams only, as in MLX.

mod norm;
mod solve;

pub use norm::*;
pub use solve::*;

use crate::{
    Array, Dtype, Error, Result, ops,
    primitives::Linalg,
    stream::{self, DeviceType},
};

/// Refuses GPU streams.
fn check_cpu_stream(op: &'static str) -> Result<()> {
    match stream::current_stream()?.device.kind {
        DeviceType::Cpu => Ok(()),
        DeviceType::Gpu => Err(Error::invalid(
            op,
            "This op is not yet supported on the GPU. Explicitly pass a CPU stream to run it.",
        )),
    }
}

/// Checks dtype and number of axes of a decomposition's input.
fn check_matrix(op: &'static str, a: &Array, complex: bool) -> Result<()> {
    check_cpu_stream(op)?;
    let fits = match a.dtype() {
        Dtype::Float32 | Dtype::Float64 => true,
        Dtype::Complex64 => complex,
        _ => false,
    };
    if !fits {
        let names = if complex { "float32, float64 or complex64" } else { "float32 or float64" };
        let message =
            format!("Arrays must have type {names}. Received array with type {}.", a.dtype());
        return Err(Error::invalid(op, message));
    }
    if a.ndim() < 2 {
        let message = format!(
            "Arrays must have >= 2 dimensions. Received array with {} dimensions.",
            a.ndim()
        );
        return Err(Error::invalid(op, message));
    }
    Ok(())
}

fn check_square(op: &'static str, a: &Array, message: &str) -> Result<()> {
    match a.dim(-1) == a.dim(-2) {
        true => Ok(()),
        false => Err(Error::invalid(op, message)),
    }
}

fn one(a: &Array, linalg: Linalg) -> Result<Array> {
    ops::node(linalg, [a.clone()])
}

fn several<const N: usize>(a: &Array, linalg: Linalg) -> Result<[Array; N]> {
    ops::nodes(linalg, [a.clone()])
}

/// QR decomposition of (…, m, n) matrices: orthonormal `q` (…, m, k) and upper triangular `r`
/// (…, k, n) with `k = min(m, n)`. Signs are LAPACK's.
///
/// # Errors
/// On a GPU stream, or when the array is not float32 or float64 or has fewer than two axes.
pub fn qr(a: &Array) -> Result<(Array, Array)> {
    check_matrix("linalg::qr", a, false)?;
    let [q, r] = several(a, Linalg::Qr)?;
    Ok((q, r))
}

/// Singular value decomposition `a = u · diag(s) · vt` of (…, m, n) matrices: `u` (…, m, m), `s`
/// (…, min(m, n)) descending, `vt` (…, n, n).
///
/// # Errors
/// On a GPU stream, or when the array is not float32, float64 or complex64 or has fewer than two
/// axes.
pub fn svd(a: &Array) -> Result<(Array, Array, Array)> {
    check_matrix("linalg::svd", a, true)?;
    let [u, s, vt] = several(a, Linalg::Svd { vectors: true })?;
    Ok((u, s, vt))
}

/// The singular values alone: MLX's `svd(a, compute_uv=False)`.
///
/// # Errors
/// As [`svd`].
pub fn singular_values(a: &Array) -> Result<Array> {
    check_matrix("linalg::svd", a, true)?;
    one(a, Linalg::Svd { vectors: false })
}

fn inverse(a: &Array, linalg: Linalg) -> Result<Array> {
    let op = "linalg::inv";
    check_matrix(op, a, false)?;
    check_square(op, a, "Inverses are only defined for square matrices.")?;
    one(a, linalg)
}

/// Inverse of square matrices. A singular one is an error of the evaluation.
///
/// # Errors
/// On a GPU stream, or when the array is not float32 or float64 or no square matrix.
pub fn inv(a: &Array) -> Result<Array> {
    inverse(a, Linalg::Inverse)
}

/// Inverse of lower (or `upper`) triangular matrices; the other triangle is not looked at.
///
/// # Errors
/// As [`inv`].
pub fn tri_inv(a: &Array, upper: bool) -> Result<Array> {
    inverse(a, Linalg::TriangularInverse { upper })
}

/// Cholesky factor of positive definite matrices: lower triangular `l` with `a = l lᵀ`, or `upper`
/// triangular `u` with `a = uᵀ u`. NaN where a matrix is not positive definite.
///
/// # Errors
/// On a GPU stream, or when the array is not float32 or float64 or no square matrix.
pub fn cholesky(a: &Array, upper: bool) -> Result<Array> {
    let op = "linalg::cholesky";
    check_matrix(op, a, false)?;
    check_square(op, a, "Cholesky decomposition is only defined for square matrices.")?;
    one(a, Linalg::Cholesky { upper })
}

/// Inverse of the matrix whose Cholesky factor is given.
///
/// # Errors
/// As [`cholesky`].
pub fn cholesky_inv(l: &Array, upper: bool) -> Result<Array> {
    let op = "linalg::cholesky_inv";
    check_matrix(op, l, false)?;
    check_square(op, l, "Cholesky inverse is only defined for square matrices.")?;
    let inverse = tri_inv(l, upper)?;
    let turned = ops::swapaxes(&inverse, -1, -2)?;
    match upper {
        true => ops::matmul(&inverse, &turned),
        false => ops::matmul(&turned, &inverse),
    }
}

/// Which triangle of a self-adjoint matrix is looked at: MLX's `UPLO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Uplo {
    /// The lower one.
    #[default]
    L,
    /// The upper one.
    U,
}

impl std::str::FromStr for Uplo {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "L" => Ok(Uplo::L),
            "U" => Ok(Uplo::U),
            _ => Err(Error::invalid("linalg::eigh", format!("UPLO is 'L' or 'U', not '{name}'."))),
        }
    }
}

fn check_eigen(op: &'static str, a: &Array) -> Result<()> {
    check_matrix(op, a, true)?;
    check_square(op, a, "Only defined for square matrices.")
}

/// Eigenvalues, ascending, and eigenvectors (as columns) of self-adjoint matrices.
///
/// # Errors
/// On a GPU stream, or when the array is not float32, float64 or complex64 or no square matrix.
pub fn eigh(a: &Array, uplo: Uplo) -> Result<(Array, Array)> {
    check_eigen("linalg::eigh", a)?;
    let linalg = Linalg::Eigh { upper: uplo == Uplo::U, vectors: true };
    let [values, vectors] = several(a, linalg)?;
    Ok((values, vectors))
}

/// Eigenvalues of self-adjoint matrices, ascending.
///
/// # Errors
/// As [`eigh`].
pub fn eigvalsh(a: &Array, uplo: Uplo) -> Result<Array> {
    check_eigen("linalg::eigvalsh", a)?;
    let linalg = Linalg::Eigh { upper: uplo == Uplo::U, vectors: false };
    one(a, linalg)
}

/// Eigenvalues and eigenvectors (as columns, of norm 1) of square matrices, both complex64.
///
/// # Errors
/// As [`eigh`].
pub fn eig(a: &Array) -> Result<(Array, Array)> {
    check_eigen("linalg::eig", a)?;
    let [values, vectors] = several(a, Linalg::Eig { vectors: true })?;
    Ok((values, vectors))
}

/// Eigenvalues of square matrices, complex64.
///
/// # Errors
/// As [`eigh`].
pub fn eigvals(a: &Array) -> Result<Array> {
    check_eigen("linalg::eigvals", a)?;
    one(a, Linalg::Eig { vectors: false })
}
