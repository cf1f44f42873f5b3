//! Decompositions of matrices. Upstream differentiates none of them.

mod factors;
mod spectra;

use smallvec::smallvec;

use super::{Applied, Mapped, Outputs, Rules, Transform, mapping, one, only, refused};
use crate::{Array, Dtype, Result, graph::Inputs, ops, primitives::Linalg};

/// The only input, and the outputs of a decomposition.
struct Decomposed<'a> {
    a: &'a Array,
    outputs: &'a [Array],
}

impl Rules for Linalg {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], _wanted: &[usize]) -> Result<Inputs> {
        let of = Decomposed { a: &node.inputs[0], outputs: node.outputs };
        let (b, cotangent) = (&of.outputs[0], &cotangents[0]);
        let derivative = match *self {
            Self::Inverse => of_inverse(&transposed(b)?, cotangent)?,
            Self::TriangularInverse { upper } => {
                triangle(&of_inverse(&transposed(b)?, cotangent)?, upper)?
            }
            Self::Cholesky { upper } => of.cholesky_vjp(upper, cotangent)?,
            Self::Qr => of.qr_vjp(cotangents)?,
            Self::Svd { .. } => of.svd_vjp(cotangents)?,
            Self::Eigh { upper, .. } => of.eigh_vjp(upper, cotangents)?,
            Self::Lu => of.lu_vjp(cotangent)?,
            // Eigenvectors that are not orthogonal need the inverse of complex matrices, which there is none
            // of.
            Self::Eig { .. } => refused(Transform::Vjp, *self)?,
        };
        Ok(smallvec![derivative])
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        let tangent = only(tangents);
        let of = Decomposed { a: &node.inputs[0], outputs: node.outputs };
        let b = &of.outputs[0];
        match *self {
            Self::Inverse => one(of_inverse(b, tangent)?),
            Self::TriangularInverse { upper } => one(of_inverse(b, &triangle(tangent, upper)?)?),
            Self::Cholesky { upper } => one(of.cholesky_jvp(upper, tangent)?),
            Self::Qr => of.qr_jvp(tangent),
            Self::Svd { .. } => of.svd_jvp(tangent),
            Self::Eigh { upper, .. } => of.eigh_jvp(upper, tangent),
            Self::Lu => of.lu_jvp(tangent),
            Self::Eig { .. } => refused(Transform::Jvp, *self),
        }
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let (input, axis) = mapping::only(inputs, axes);
        // The last two axes are the matrices.
        let (input, axis) = match axis + 2 < input.ndim() {
            true => (input.clone(), axis),
            false => (ops::moveaxis(input, axis as isize, 0)?, 0),
        };
        Mapped::all(crate::graph::apply((*self).into(), smallvec![input])?, axis)
    }
}

/// The derivative of an inverse `b` along a tangent: `-b t b`.
fn of_inverse(b: &Array, tangent: &Array) -> Result<Array> {
    ops::negative(&product([b, tangent, b])?)
}

fn product<const N: usize>(factors: [&Array; N]) -> Result<Array> {
    let (first, others) = factors.split_first().expect("there are factors");
    others.iter().try_fold((*first).clone(), |product, factor| ops::matmul(&product, factor))
}

fn transposed(a: &Array) -> Result<Array> {
    ops::swapaxes(a, -1, -2)
}

/// The conjugate transpose.
fn adjoint(a: &Array) -> Result<Array> {
    match a.dtype() {
        Dtype::Complex64 => ops::conjugate(&transposed(a)?),
        _ => transposed(a),
    }
}

/// The lower triangle, or the upper one, with the diagonal.
fn triangle(a: &Array, upper: bool) -> Result<Array> {
    if upper { ops::triu(a, 0) } else { ops::tril(a, 0) }
}
