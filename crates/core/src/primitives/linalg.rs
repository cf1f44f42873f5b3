//! Decompositions of matrices.

use smallvec::smallvec;
use strum::{EnumDiscriminants, EnumIter, IntoEnumIterator};

use super::{
    Family, Input, Spec, SpecRef, Specs,
    operators::real,
    spec::{matrices, of_matrices, one, with_last},
};
use crate::{Dtype, Shape};

/// Decompositions of the matrices of the last two axes; they run on CPU streams only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumDiscriminants)]
#[strum_discriminants(name(Member), derive(EnumIter), vis(pub(super)))]
pub enum Linalg {
    /// Inverse of square matrices.
    Inverse,
    /// Inverse of triangular matrices.
    TriangularInverse {
        /// The upper triangle is meant.
        upper: bool,
    },
    /// Cholesky factor.
    Cholesky {
        /// The upper triangular one.
        upper: bool,
    },
    /// Outputs `q` (…, m, k) and `r` (…, k, n) with `k = min(m, n)`.
    Qr,
    /// Outputs `u`, singular values, `vᵀ`; without vectors the singular values alone.
    Svd {
        /// With singular vectors.
        vectors: bool,
    },
    /// Outputs eigenvalues and eigenvectors of self-adjoint matrices.
    Eigh {
        /// The upper triangle is looked at.
        upper: bool,
        /// With eigenvectors.
        vectors: bool,
    },
    /// Outputs eigenvalues and eigenvectors.
    Eig {
        /// With eigenvectors.
        vectors: bool,
    },
    /// Outputs the factors in one array, the pivots, and the rows that they exchange in all.
    Lu,
}

impl Family for Linalg {
    fn name(&self) -> &'static str {
        match self {
            Self::Inverse | Self::TriangularInverse { .. } => "Inverse",
            Self::Cholesky { .. } => "Cholesky",
            Self::Qr => "QRF",
            Self::Svd { .. } => "SVD",
            Self::Eigh { .. } => "Eigh",
            Self::Eig { .. } => "Eig",
            Self::Lu => "LUF",
        }
    }

    fn is_view(&self) -> bool {
        match self {
            Self::Inverse
            | Self::TriangularInverse { .. }
            | Self::Cholesky { .. }
            | Self::Qr
            | Self::Svd { .. }
            | Self::Eigh { .. }
            | Self::Eig { .. }
            | Self::Lu => false,
        }
    }

    fn takes(&self, dtype: Dtype) -> bool {
        match self {
            Self::Svd { .. } | Self::Eigh { .. } | Self::Eig { .. } => {
                matches!(dtype, Dtype::Float32 | Dtype::Float64 | Dtype::Complex64)
            }
            Self::Inverse
            | Self::TriangularInverse { .. }
            | Self::Cholesky { .. }
            | Self::Qr
            | Self::Lu => matches!(dtype, Dtype::Float32 | Dtype::Float64),
        }
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let [a] = inputs else { return None };
        let (batch, m, n) = matrices(a.shape)?;
        let (short, real) = (m.min(n), real(a.dtype));
        let spec = |shape: Shape, dtype: Dtype| Spec { shape, dtype };
        let matrix = |rows, columns, dtype| spec(of_matrices(batch, rows, columns), dtype);
        let vector = |size, dtype| Some(spec(with_last(&a.shape[..a.ndim() - 1], size)?, dtype));
        let square = (m == n).then_some(());
        Some(match *self {
            Self::Inverse | Self::TriangularInverse { .. } | Self::Cholesky { .. } => {
                square.and_then(|()| one(a.shape, a.dtype))?
            }
            Self::Qr => smallvec![matrix(m, short, a.dtype), matrix(short, n, a.dtype)],
            Self::Svd { vectors: false } => smallvec![vector(short, real)?],
            Self::Svd { vectors: true } => {
                smallvec![matrix(m, m, a.dtype), vector(short, real)?, matrix(n, n, a.dtype)]
            }
            Self::Eigh { vectors, .. } => {
                square?;
                with_vectors(vectors, vector(n, real)?, matrix(n, n, a.dtype))
            }
            Self::Eig { vectors } => {
                square?;
                let complex = Dtype::Complex64;
                with_vectors(vectors, vector(n, complex)?, matrix(n, n, complex))
            }
            Self::Lu => {
                let (pivots, rows) = (vector(short, Dtype::Uint32)?, vector(m, Dtype::Uint32)?);
                smallvec![matrix(m, n, a.dtype), pivots, rows]
            }
        })
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        // Positive definite, and the lower triangle can be inverted.
        #[rustfmt::skip]
        let values = [
            4.0, 1.0, 0.5, 0.25,
            1.0, 3.0, 0.75, 0.5,
            0.5, 0.75, 2.0, 0.125,
            0.25, 0.5, 0.125, 1.0,
        ];
        let decomposition = |member| match member {
            Member::Inverse => Self::Inverse,
            Member::TriangularInverse => Self::TriangularInverse { upper: false },
            Member::Cholesky => Self::Cholesky { upper: false },
            Member::Qr => Self::Qr,
            Member::Svd => Self::Svd { vectors: true },
            Member::Eigh => Self::Eigh { upper: false, vectors: true },
            Member::Eig => Self::Eig { vectors: true },
            Member::Lu => Self::Lu,
        };
        let inputs = || vec![Input::of(&values, &[4, 4], dtype)];
        Member::iter().map(|member| (decomposition(member), inputs())).collect()
    }
}

fn with_vectors(vectors: bool, values: Spec, matrix: Spec) -> Specs {
    if vectors { smallvec![values, matrix] } else { smallvec![values] }
}
