//! Decompositions of matrices by `faer`, computed in float64 whatever the dtype is: exact enough, and
//! compiled once for real and once for complex numbers.

use faer::{
    Mat, MatRef, Side, c64,
    linalg::solvers::DenseSolveCore,
    traits::{
        ComplexField,
        math_utils::{from_real, real as real_part},
    },
};
use mlx_vulkan_core::{
    Array, Complex, Dtype, Element, Error, Result, backend::Output, primitives::Linalg,
};

use crate::{
    encoder::{ElementsMut, Encoder, In, Out},
    rows::RowStarts,
};

/// An element type of matrices.
trait Entry: Element {
    /// What its decompositions are computed in.
    type Wide: ComplexField<Real = f64>;

    fn widen(self) -> Self::Wide;
    fn narrow(x: Self::Wide) -> Self;
}

macro_rules! entries {
    ($($t:ty => $wide:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl Entry for $t {
            type Wide = $wide;

            fn widen(self) -> $wide {
                let widen: fn($t) -> $wide = $widen;
                widen(self)
            }
            fn narrow(x: $wide) -> $t {
                let narrow: fn($wide) -> $t = $narrow;
                narrow(x)
            }
        }
    )*};
}

entries! {
    f32 => f64, |x| x.into(), |x| x as f32;
    f64 => f64, |x| x, |x| x;
    Complex => c64, |z| c64::new(z.re.into(), z.im.into()), |z| Complex::new(z.re as f32, z.im as f32);
}

/// Encodes a decomposition of every matrix.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    op: Linalg,
    a: &Array,
    outputs: &mut [Output],
) -> Result<()> {
    let outs = outputs.iter_mut().map(|o| enc.allocate(o)).collect::<Result<Vec<Out>>>()?;
    let a = In::from(a);
    enc.tasks.push(Box::new(move || match (a.dtype, op) {
        (_, Linalg::Svd { vectors }) => match a.dtype {
            Dtype::Float32 => svd::<f32, f32>(&a, &outs, vectors),
            Dtype::Float64 => svd::<f64, f64>(&a, &outs, vectors),
            _ => svd::<Complex, f32>(&a, &outs, vectors),
        },
        (_, Linalg::Eigh { upper, vectors }) => match a.dtype {
            Dtype::Float32 => eigh::<f32, f32>(&a, &outs, upper, vectors),
            Dtype::Float64 => eigh::<f64, f64>(&a, &outs, upper, vectors),
            _ => eigh::<Complex, f32>(&a, &outs, upper, vectors),
        },
        (Dtype::Complex64, Linalg::Eig { vectors }) => eig::<Complex>(&a, &outs, vectors),
        (Dtype::Float32, Linalg::Eig { vectors }) => eig::<f32>(&a, &outs, vectors),
        (_, Linalg::Eig { vectors }) => eig::<f64>(&a, &outs, vectors),
        (Dtype::Float32, _) => real::<f32>(op, &a, &outs),
        _ => real::<f64>(op, &a, &outs),
    }));
    Ok(())
}

/// The decompositions that take real matrices only.
fn real<T: Entry<Wide = f64>>(op: Linalg, a: &In, outs: &[Out]) -> Result<()> {
    match op {
        Linalg::Inverse => inverse::<T>(a, &outs[0]),
        Linalg::TriangularInverse { upper } => triangular_inverse::<T>(a, &outs[0], upper),
        Linalg::Cholesky { upper } => cholesky::<T>(a, &outs[0], upper),
        Linalg::Qr => qr::<T>(a, outs),
        Linalg::Lu => lu::<T>(a, outs),
        Linalg::Svd { .. } | Linalg::Eigh { .. } | Linalg::Eig { .. } => {
            unreachable!("takes complex matrices too")
        }
    }
}

fn failed(op: &'static str, message: impl Into<String>) -> Error {
    Error::runtime(op, message)
}

/// Matrices along the last two axes, read one at a time.
struct Matrices<'a> {
    input: &'a In,
    starts: RowStarts,
}

impl<'a> Matrices<'a> {
    fn new(input: &'a In) -> Self {
        Matrices { input, starts: RowStarts::new(input, 2) }
    }

    /// Calls `f` with each matrix and its number.
    fn each<T: Entry>(&self, mut f: impl FnMut(usize, Mat<T::Wide>) -> Result<()>) -> Result<()> {
        let [.., rows, columns] = self.input.shape[..] else { unreachable!("core checks it") };
        let [.., down, right] = self.input.layout.strides[..] else { unreachable!("as above") };
        let elements = self.input.read::<T>();
        for i in 0..self.starts.count {
            let first = self.starts.at(i);
            let at = |r: usize, c: usize| {
                let skip = r as isize * down + c as isize * right;
                elements.buffer()[first.wrapping_add_signed(skip)].widen()
            };
            f(i, Mat::from_fn(rows, columns, at))?;
        }
        Ok(())
    }
}

/// Writes element (row, column) of matrix `i` of a dense output, for all of them.
fn put<T: Element>(
    out: &mut ElementsMut<'_, T>,
    i: usize,
    [rows, columns]: [usize; 2],
    at: impl Fn(usize, usize) -> T,
) {
    for r in 0..rows {
        let row = &mut out[(i * rows + r) * columns..][..columns];
        row.iter_mut().enumerate().for_each(|(c, x)| *x = at(r, c));
    }
}

fn put_matrix<T: Entry>(out: &mut ElementsMut<'_, T>, i: usize, m: MatRef<'_, T::Wide>) {
    put(out, i, [m.nrows(), m.ncols()], |r, c| T::narrow(m[(r, c)].clone()));
}

fn inverse<T: Entry<Wide = f64>>(a: &In, out: &Out) -> Result<()> {
    let mut out = out.write::<T>();
    Matrices::new(a).each::<T>(|i, a| {
        let lu = a.partial_piv_lu();
        if (0..a.nrows()).any(|k| lu.U()[(k, k)] == 0.0) {
            return Err(failed("linalg::inv", "The matrix is singular."));
        }
        put_matrix(&mut out, i, lu.inverse().as_ref());
        Ok(())
    })
}

fn triangular_inverse<T: Entry<Wide = f64>>(a: &In, out: &Out, upper: bool) -> Result<()> {
    let mut out = out.write::<T>();
    Matrices::new(a).each::<T>(|i, a| {
        if (0..a.nrows()).any(|k| a[(k, k)] == 0.0) {
            return Err(failed("linalg::inv", "The matrix is singular."));
        }
        let mut inverse = Mat::<f64>::identity(a.nrows(), a.nrows());
        match upper {
            true => a.solve_upper_triangular_in_place(inverse.as_mut()),
            false => a.solve_lower_triangular_in_place(inverse.as_mut()),
        }
        put_matrix(&mut out, i, inverse.as_ref());
        Ok(())
    })
}

/// As upstream's LAPACK routine, it looks at one triangle: at the one that it makes.
fn cholesky<T: Entry<Wide = f64>>(a: &In, out: &Out, upper: bool) -> Result<()> {
    let mut out = out.write::<T>();
    Matrices::new(a).each::<T>(|i, a| {
        let n = a.nrows();
        let side = if upper { Side::Upper } else { Side::Lower };
        let factor = match a.llt(side) {
            Ok(factor) => factor.L().to_owned(),
            Err(_) => semidefinite(n, |r, c| if upper { a[(c, r)] } else { a[(r, c)] }),
        };
        put(&mut out, i, [n, n], |r, c| {
            let (low, high) = if upper { (c, r) } else { (r, c) };
            T::narrow(if low < high { 0.0 } else { factor[(low, high)] })
        });
        Ok(())
    })
}

/// The factor of a matrix that is singular, of which `at` gives the lower triangle: pivots that are zero, but
/// for what float32 rounds, have a column of zeros. All is NaN for a matrix with negative pivots.
fn semidefinite(n: usize, at: impl Fn(usize, usize) -> f64) -> Mat<f64> {
    let mut factor = Mat::<f64>::zeros(n, n);
    for c in 0..n {
        let rest = |r: usize, factor: &Mat<f64>| {
            at(r, c) - (0..c).map(|k| factor[(r, k)] * factor[(c, k)]).sum::<f64>()
        };
        let pivot = rest(c, &factor);
        if pivot.abs() <= n as f64 * f64::from(f32::EPSILON) * at(c, c).abs() {
            continue;
        }
        if pivot.is_nan() || pivot < 0.0 {
            return Mat::from_fn(n, n, |_, _| f64::NAN);
        }
        for r in c..n {
            factor[(r, c)] = rest(r, &factor) / pivot.sqrt();
        }
    }
    factor
}

fn qr<T: Entry<Wide = f64>>(a: &In, outs: &[Out]) -> Result<()> {
    let (mut q, mut r) = (outs[0].write::<T>(), outs[1].write::<T>());
    Matrices::new(a).each::<T>(|i, a| {
        let factors = a.qr();
        put_matrix(&mut q, i, factors.compute_thin_Q().as_ref());
        let upper = factors.thin_R();
        put(&mut r, i, [upper.nrows(), upper.ncols()], |row, column| {
            T::narrow(if row <= column { upper[(row, column)] } else { 0.0 })
        });
        Ok(())
    })
}

fn lu<T: Entry<Wide = f64>>(a: &In, outs: &[Out]) -> Result<()> {
    let mut factors = outs[0].write::<T>();
    let (mut pivots, mut rows) = (outs[1].write::<u32>(), outs[2].write::<u32>());
    Matrices::new(a).each::<T>(|i, a| {
        let (m, n) = (a.nrows(), a.ncols());
        let lu = a.partial_piv_lu();
        put(&mut factors, i, [m, n], |r, c| {
            T::narrow(if r > c { lu.L()[(r, c)] } else { lu.U()[(r, c)] })
        });
        let (taken, ranks) = lu.P().arrays();
        put(&mut rows, i, [1, m], |_, r| ranks[r] as u32);
        let pivots = &mut pivots[i * m.min(n)..][..m.min(n)];
        pivots.iter_mut().zip(exchanges(taken)).for_each(|(to, row)| *to = row as u32);
        Ok(())
    })
}

/// The rows that each row is exchanged with, one after the other, to bring row `order[i]` to `i`.
fn exchanges(order: &[usize]) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..order.len()).collect();
    let mut now_at = rows.clone();
    (0..order.len())
        .map(|i| {
            let from = now_at[order[i]];
            rows.swap(i, from);
            (now_at[rows[i]], now_at[rows[from]]) = (i, from);
            from
        })
        .collect()
}

fn no_convergence(op: &'static str) -> impl Fn() -> Error {
    move || failed(op, "The iteration did not converge.")
}

fn svd<T: Entry, S: Entry<Wide = f64>>(a: &In, outs: &[Out], vectors: bool) -> Result<()> {
    let diverged = no_convergence("linalg::svd");
    if !vectors {
        let mut s = outs[0].write::<S>();
        return Matrices::new(a).each::<T>(|i, a| {
            let values = a.singular_values().map_err(|_| diverged())?;
            put(&mut s, i, [1, values.len()], |_, k| S::narrow(values[k]));
            Ok(())
        });
    }
    let (mut u, mut vt) = (outs[0].write::<T>(), outs[2].write::<T>());
    let mut s = outs[1].write::<S>();
    Matrices::new(a).each::<T>(|i, a| {
        let svd = a.svd().map_err(|_| diverged())?;
        put_matrix(&mut u, i, svd.U());
        put_matrix(&mut vt, i, svd.V().adjoint().to_owned().as_ref());
        let values = svd.S().column_vector();
        put(&mut s, i, [1, values.nrows()], |_, k| S::narrow(real_part(&values[k])));
        Ok(())
    })
}

fn eigh<T: Entry, S: Entry<Wide = f64>>(
    a: &In,
    outs: &[Out],
    upper: bool,
    vectors: bool,
) -> Result<()> {
    let diverged = no_convergence("linalg::eigh");
    let mut values = outs[0].write::<S>();
    let mut columns = vectors.then(|| outs[1].write::<T>());
    Matrices::new(a).each::<T>(|i, a| {
        let mut a = if upper { a.adjoint().to_owned() } else { a };
        let n = a.nrows();
        // A self-adjoint matrix has a real diagonal: LAPACK, and so MLX, reads nothing else of it.
        (0..n).for_each(|k| a[(k, k)] = from_real(&real_part(&a[(k, k)])));
        let Some(columns) = &mut columns else {
            let found = a.self_adjoint_eigenvalues(Side::Lower).map_err(|_| diverged())?;
            put(&mut values, i, [1, n], |_, k| S::narrow(found[k]));
            return Ok(());
        };
        let found = a.self_adjoint_eigen(Side::Lower).map_err(|_| diverged())?;
        put(&mut values, i, [1, n], |_, k| S::narrow(real_part(&found.S().column_vector()[k])));
        put_matrix(columns, i, found.U());
        Ok(())
    })
}

fn eig<T: Entry>(a: &In, outs: &[Out], vectors: bool) -> Result<()> {
    let diverged = no_convergence("linalg::eig");
    Matrices::new(a).each::<T>(|i, a| {
        if !vectors {
            let values = a.eigenvalues().map_err(|_| diverged())?;
            put_eigen(outs, i, &values, None);
            return Ok(());
        }
        let found = a.eigen().map_err(|_| diverged())?;
        let values: Vec<c64> = found.S().column_vector().iter().copied().collect();
        put_eigen(outs, i, &values, Some(found.U()));
        Ok(())
    })
}

/// Writes eigenvalues, and eigenvectors as LAPACK scales them: of norm 1, the largest element real.
fn put_eigen(outs: &[Out], i: usize, values: &[c64], vectors: Option<MatRef<'_, c64>>) {
    let n = values.len();
    put(&mut outs[0].write::<Complex>(), i, [1, n], |_, k| Complex::narrow(values[k]));
    let Some(vectors) = vectors else { return };
    let factor = |column: usize| {
        let elements = || (0..n).map(|r| vectors[(r, column)]);
        let norm = elements().map(|z| z.norm_sqr()).sum::<f64>().sqrt();
        let largest = elements().fold(c64::new(0.0, 0.0), |best, z| {
            if z.norm_sqr() > best.norm_sqr() { z } else { best }
        });
        match values[column].im == 0.0 || largest.norm() == 0.0 {
            true => c64::new(1.0 / norm, 0.0),
            false => largest.conj() / (largest.norm() * norm),
        }
    };
    let factors: Vec<c64> = (0..n).map(factor).collect();
    let mut out = outs[1].write::<Complex>();
    put(&mut out, i, [n, n], |r, c| Complex::narrow(vectors[(r, c)] * factors[c]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_make_the_order() {
        for order in [vec![2, 0, 1, 3], vec![0, 1, 2], vec![3, 2, 1, 0], vec![1, 2, 3, 4, 0]] {
            let mut rows: Vec<usize> = (0..order.len()).collect();
            for (i, from) in exchanges(&order).into_iter().enumerate() {
                assert!(from >= i, "pivots are looked for below");
                rows.swap(i, from);
            }
            assert_eq!(rows, order);
        }
    }
}
