//! Derivatives of eigenvalues and singular values, and of their vectors (Giles, Collected matrix derivative
//! results, 2008). Vectors of equal values have no derivative: it is taken as zero within their space.

use smallvec::smallvec;

use super::{Decomposed, adjoint, product};
use crate::{
    Array, Dtype, Result,
    ops::{self, add, astype, subtract},
    primitives::Linalg,
    transforms::rules::Outputs,
};

use super::factors::{from_lower, to_lower};

impl Decomposed<'_> {
    /// With `c = vᴴ da v`, the derivatives of the values are its diagonal, and `dv` is `v` times the rest of
    /// it over the distances of the values.
    pub(super) fn eigh_jvp(&self, upper: bool, tangent: &Array) -> Result<Outputs> {
        let (values, vectors) = self.eigen(upper)?;
        let whole = from_lower(&adjoint_if(upper, tangent)?)?;
        let inner = product([&adjoint(&vectors)?, &whole, &vectors])?;
        let mut outputs: Outputs = smallvec![real(&ops::diagonal(&inner, 0, -2, -1)?)?];
        if self.outputs.len() > 1 {
            let turn = ops::multiply(&inner, &over_distances(&values)?)?;
            outputs.push(ops::matmul(&vectors, &turn)?);
        }
        Ok(outputs)
    }

    pub(super) fn eigh_vjp(&self, upper: bool, cotangents: &[Array]) -> Result<Array> {
        let (values, vectors) = self.eigen(upper)?;
        let (n, turned) = (values.dim(-1), adjoint(&vectors)?);
        let mut inner = astype(&diagonal_matrix(&cotangents[0], n, n)?, self.a.dtype())?;
        if let Some(by_vectors) = cotangents.get(1) {
            let turn =
                ops::multiply(&ops::matmul(&turned, by_vectors)?, &over_distances(&values)?)?;
            inner = add(&inner, &turn)?;
        }
        adjoint_if(upper, &to_lower(&product([&vectors, &inner, &turned])?)?)
    }

    /// Eigenvalues and vectors, which are computed if they are no outputs.
    fn eigen(&self, upper: bool) -> Result<(Array, Array)> {
        let [values, vectors] = match self.outputs {
            [values, vectors] => [values.clone(), vectors.clone()],
            _ => ops::nodes(Linalg::Eigh { upper, vectors: true }, [self.a.clone()])?,
        };
        Ok((values, vectors))
    }

    /// With `c = uᴴ da v`, the derivatives of the values are its diagonal. `u` and `v` turn as the
    /// eigenvectors of `a aᴴ` and `aᴴ a` do.
    pub(super) fn svd_jvp(&self, tangent: &Array) -> Result<Outputs> {
        let Singular { u, s, vt, sigma } = self.singular()?;
        let inner = product([&adjoint(&u)?, tangent, &adjoint(&vt)?])?;
        let values = real(&ops::diagonal(&inner, 0, -2, -1)?)?;
        if self.outputs.len() == 1 {
            return Ok(smallvec![values]);
        }
        let turned = adjoint(&sigma)?;
        let (left, right) = (ops::matmul(&inner, &turned)?, ops::matmul(&turned, &inner)?);
        let mut turn_u = ops::multiply(&with_adjoint(&left)?, &over_squares(&s, u.dim(-1))?)?;
        if let Some(phases) = phases(&s, &u)? {
            turn_u = add(&turn_u, &ops::multiply(&subtract(&left, &adjoint(&left)?)?, &phases)?)?;
        }
        let turn_v = ops::multiply(&with_adjoint(&right)?, &over_squares(&s, vt.dim(-1))?)?;
        let dvt = ops::negative(&ops::matmul(&turn_v, &vt)?)?;
        Ok(smallvec![ops::matmul(&u, &turn_u)?, values, dvt])
    }

    pub(super) fn svd_vjp(&self, cotangents: &[Array]) -> Result<Array> {
        let Singular { u, s, vt, sigma } = self.singular()?;
        let (m, n) = (u.dim(-1), vt.dim(-1));
        let by_values = if let [_, by_values, _] = cotangents { by_values } else { &cotangents[0] };
        let mut inner = astype(&diagonal_matrix(by_values, m, n)?, self.a.dtype())?;
        if let [by_u, _, by_vt] = cotangents {
            let by_turn = ops::matmul(&adjoint(&u)?, by_u)?;
            let mut left = with_adjoint(&ops::multiply(&by_turn, &over_squares(&s, m)?)?)?;
            if let Some(phases) = phases(&s, &u)? {
                let own = ops::multiply(&by_turn, &phases)?;
                left = add(&left, &subtract(&own, &adjoint(&own)?)?)?;
            }
            let by_turn = ops::negative(&ops::matmul(by_vt, &adjoint(&vt)?)?)?;
            let right = with_adjoint(&ops::multiply(&by_turn, &over_squares(&s, n)?)?)?;
            inner = add(&inner, &ops::matmul(&left, &sigma)?)?;
            inner = add(&inner, &ops::matmul(&sigma, &right)?)?;
        }
        product([&u, &inner, &vt])
    }

    /// The decomposition, which is computed if its vectors are no outputs.
    fn singular(&self) -> Result<Singular> {
        let [u, s, vt] = match self.outputs {
            [u, s, vt] => [u.clone(), s.clone(), vt.clone()],
            _ => ops::nodes(Linalg::Svd { vectors: true }, [self.a.clone()])?,
        };
        let sigma = astype(&diagonal_matrix(&s, u.dim(-1), vt.dim(-1))?, self.a.dtype())?;
        Ok(Singular { u, s, vt, sigma })
    }
}

struct Singular {
    u: Array,
    s: Array,
    vt: Array,
    /// The matrix that has the singular values on its diagonal.
    sigma: Array,
}

fn real(a: &Array) -> Result<Array> {
    if a.dtype() == Dtype::Complex64 { ops::real(a) } else { Ok(a.clone()) }
}

fn adjoint_if(turn: bool, a: &Array) -> Result<Array> {
    if turn { adjoint(a) } else { Ok(a.clone()) }
}

fn with_adjoint(a: &Array) -> Result<Array> {
    add(a, &adjoint(a)?)
}

/// Vectors with zeros at the end, as rows.
fn padded(values: &Array, size: usize) -> Result<Array> {
    let mut rest = values.shape().to_vec();
    *rest.last_mut().expect("they are vectors") = size - values.dim(-1);
    let zeros = ops::zeros(&rest, values.dtype())?;
    ops::expand_dims(&ops::concatenate(&[values, &zeros], -1)?, &[-2])
}

/// Matrices with these diagonals.
fn diagonal_matrix(values: &Array, rows: usize, columns: usize) -> Result<Array> {
    let on = ops::eye(rows, columns, 0, values.dtype())?;
    ops::multiply(&on, &padded(values, columns)?)
}

/// `1 / (values[j] - values[i])`, and 0 where they are equal.
fn over_distances(values: &Array) -> Result<Array> {
    let columns = ops::expand_dims(values, &[-2])?;
    over(&subtract(&columns, &ops::expand_dims(values, &[-1])?)?)
}

/// The same of squares of singular values, of which there are as many as an axis has elements: the others
/// are 0.
fn over_squares(s: &Array, size: usize) -> Result<Array> {
    over_distances(&ops::squeeze(&padded(&ops::square(s)?, size)?, &[-2])?)
}

/// The reciprocal, and 0 of 0.
fn over(a: &Array) -> Result<Array> {
    let zero = Array::scalar_of(0.0, a.dtype())?;
    let divisor = ops::where_(&ops::equal(a, &zero)?, f64::INFINITY, a)?;
    ops::divide(&ops::ones_like(a)?, &divisor)
}

/// Factors of what turns the phases of `u`, while those of `v` stay: `1 / 2s²` on the diagonal.
fn phases(s: &Array, u: &Array) -> Result<Option<Array>> {
    if u.dtype() != Dtype::Complex64 {
        return Ok(None);
    }
    let factors = over(&ops::multiply(&ops::square(s)?, 2.0)?)?;
    diagonal_matrix(&factors, u.dim(-1), u.dim(-1)).map(Some)
}
