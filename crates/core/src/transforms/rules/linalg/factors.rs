//! Derivatives of triangular factors (Murray, Differentiation of the Cholesky decomposition, 2016; Walter and
//! Lehmann, Algorithmic differentiation of linear algebra functions, 2010).

use smallvec::smallvec;

use super::{Decomposed, adjoint, product, transposed};
use crate::{
    Array, Result,
    ops::{self, add, subtract, tril, triu},
    primitives::Linalg,
    transforms::rules::Outputs,
};

impl Decomposed<'_> {
    /// As the decomposition does, it looks at one triangle of the matrix.
    pub(super) fn cholesky_jvp(&self, upper: bool, tangent: &Array) -> Result<Array> {
        let (l, inverse) = self.lower_factor(upper)?;
        let whole = from_lower(&turned_if(upper, tangent)?)?;
        let inner = product([&inverse, &whole, &transposed(&inverse)?])?;
        turned_if(upper, &ops::matmul(&l, &half_of_lower(&inner)?)?)
    }

    pub(super) fn cholesky_vjp(&self, upper: bool, cotangent: &Array) -> Result<Array> {
        let (l, inverse) = self.lower_factor(upper)?;
        let inner = ops::matmul(&transposed(&l)?, &turned_if(upper, cotangent)?)?;
        let whole = product([&transposed(&inverse)?, &half_of_lower(&inner)?, &inverse])?;
        turned_if(upper, &to_lower(&whole)?)
    }

    /// The lower Cholesky factor and its inverse.
    fn lower_factor(&self, upper: bool) -> Result<(Array, Array)> {
        let l = turned_if(upper, &self.outputs[0])?;
        let inverse = inverse(&l, false)?;
        Ok((l, inverse))
    }

    /// With `t = da r⁻¹` of the square part of `r`, `dq = t - q (qᵀ t - ω)` and `dr = qᵀ da - ω r`, where
    /// `ω = qᵀ dq` is the skew matrix that has the lower triangle of `qᵀ t`.
    pub(super) fn qr_jvp(&self, tangent: &Array) -> Result<Outputs> {
        let (q, r, inverse) = self.qr_factors()?;
        let qt = transposed(q)?;
        let t = ops::matmul(&ops::slice_axis(tangent, -1, 0, q.dim(-1) as isize)?, &inverse)?;
        let inner = ops::matmul(&qt, &t)?;
        let below = tril(&inner, -1)?;
        let skew = subtract(&below, &transposed(&below)?)?;
        let dq = subtract(&t, &ops::matmul(q, &subtract(&inner, &skew)?)?)?;
        let dr = subtract(&ops::matmul(&qt, tangent)?, &ops::matmul(&skew, r)?)?;
        Ok(smallvec![dq, triu(&dr, 0)?])
    }

    pub(super) fn qr_vjp(&self, cotangents: &[Array]) -> Result<Array> {
        let (q, r, inverse) = self.qr_factors()?;
        let (by_q, by_r) = (&cotangents[0], &triu(&cotangents[1], 0)?);
        let along = ops::matmul(&transposed(q)?, by_q)?;
        let by_skew = subtract(&along, &ops::matmul(by_r, &transposed(r)?)?)?;
        let below = tril(&subtract(&by_skew, &transposed(&by_skew)?)?, -1)?;
        let by_t = add(by_q, &ops::matmul(q, &subtract(&below, &along)?)?)?;
        let square = ops::matmul(&by_t, &transposed(&inverse)?)?;
        let mut rest = self.a.shape().to_vec();
        *rest.last_mut().expect("a matrix has columns") -= square.dim(-1);
        let rest = ops::zeros(&rest, self.a.dtype())?;
        add(&ops::matmul(q, by_r)?, &ops::concatenate(&[&square, &rest], -1)?)
    }

    /// Both factors, and the inverse of the square part of the second one.
    fn qr_factors(&self) -> Result<(&Array, &Array, Array)> {
        let (q, r) = (&self.outputs[0], &self.outputs[1]);
        let square = ops::slice_axis(r, -1, 0, q.dim(-1) as isize)?;
        Ok((q, r, inverse(&square, true)?))
    }

    /// With `x = l⁻¹ p da u⁻¹`, `dl` is `l` times what of `x` is below the diagonal, and `du` the rest of it
    /// times `u`. The rows that change places stay the same.
    pub(super) fn lu_jvp(&self, tangent: &Array) -> Result<Outputs> {
        let [l, u] = self.lu_factors()?;
        let order = ops::argsort(&self.outputs[2], -1)?;
        let permuted = ops::take_along_axis(tangent, &ops::expand_dims(&order, &[-1])?, -2)?;
        let x = product([&inverse(&l, false)?, &permuted, &inverse(&u, true)?])?;
        let (dl, du) = (ops::matmul(&l, &tril(&x, -1)?)?, ops::matmul(&triu(&x, 0)?, &u)?);
        let same = self.outputs[1..].iter().map(ops::zeros_like);
        std::iter::once(add(&dl, &du)).chain(same).collect()
    }

    pub(super) fn lu_vjp(&self, cotangent: &Array) -> Result<Array> {
        let [l, u] = self.lu_factors()?;
        let below = ops::matmul(&transposed(&l)?, &tril(cotangent, -1)?)?;
        let above = ops::matmul(&triu(cotangent, 0)?, &transposed(&u)?)?;
        let x = add(&tril(&below, -1)?, &triu(&above, 0)?)?;
        let (left, right) = (inverse(&l, false)?, inverse(&u, true)?);
        let permuted = product([&transposed(&left)?, &x, &transposed(&right)?])?;
        ops::take_along_axis(&permuted, &ops::expand_dims(&self.outputs[2], &[-1])?, -2)
    }

    /// The factors, which one array has; both are made square with rows or columns of the identity.
    fn lu_factors(&self) -> Result<[Array; 2]> {
        let both = &self.outputs[0];
        let (m, n, dtype) = (both.dim(-2), both.dim(-1), both.dtype());
        let k = m.min(n) as isize;
        let identity = ops::identity(m.max(n), dtype)?;
        let more = |rows: (isize, isize), columns: (isize, isize)| {
            let rows = ops::slice_axis(&identity, -2, rows.0, rows.1)?;
            let more = ops::slice_axis(&rows, -1, columns.0, columns.1)?;
            let batch = &both.shape()[..both.ndim() - 2];
            ops::broadcast_to(&more, &[batch, more.shape()].concat())
        };
        let (rows, columns) = (m as isize, n as isize);
        let left = tril(&ops::slice_axis(both, -1, 0, k)?, -1)?;
        let left = add(&left, &ops::eye(m, m.min(n), 0, dtype)?)?;
        let l = ops::concatenate(&[&left, &more((0, rows), (k, rows))?], -1)?;
        let above = triu(&ops::slice_axis(both, -2, 0, k)?, 0)?;
        let u = ops::concatenate(&[&above, &more((k, columns), (0, columns))?], -2)?;
        Ok([l, u])
    }
}

fn inverse(triangular: &Array, upper: bool) -> Result<Array> {
    ops::node(Linalg::TriangularInverse { upper }, [triangular.clone()])
}

fn turned_if(turn: bool, a: &Array) -> Result<Array> {
    if turn { transposed(a) } else { Ok(a.clone()) }
}

/// The lower triangle with half of the diagonal.
fn half_of_lower(a: &Array) -> Result<Array> {
    ops::multiply(&add(&tril(a, 0)?, &tril(a, -1)?)?, 0.5)
}

/// The self-adjoint matrix that has this lower triangle.
pub(super) fn from_lower(a: &Array) -> Result<Array> {
    let both = add(&tril(a, -1)?, &adjoint(&tril(a, 0)?)?)?;
    // Of a complex diagonal only the real part counts.
    half_sum(&both)
}

/// The derivative by a lower triangle along one by the self-adjoint matrix that has it.
pub(super) fn to_lower(a: &Array) -> Result<Array> {
    let below = tril(&add(a, &adjoint(a)?)?, -1)?;
    let diagonal = subtract(&tril(a, 0)?, &tril(a, -1)?)?;
    add(&below, &half_sum(&diagonal)?)
}

/// The self-adjoint part.
fn half_sum(a: &Array) -> Result<Array> {
    ops::multiply(&add(a, &adjoint(a)?)?, 0.5)
}
