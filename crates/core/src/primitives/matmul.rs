//! Matrix products.

use strum::{EnumDiscriminants, EnumIter, IntoEnumIterator};

use super::{
    Exact, Family, Input, SpecRef, Specs,
    spec::{matrices, of_matrices, one},
};
use crate::Dtype;

/// Products of the matrices of the last two axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumDiscriminants)]
#[strum_discriminants(name(Member), derive(EnumIter), vis(pub(super)))]
pub enum MatmulOp {
    /// `a @ b`; the batch axes match.
    Matmul,
    /// `alpha * (a @ b) + beta * c`; inputs `a`, `b`, `c`, where `c` has the output's shape.
    AddMm {
        /// Factor of the product.
        alpha: Exact<f32>,
        /// Factor of `c`.
        beta: Exact<f32>,
    },
    /// Products of matrices picked from both operands: inputs `a`, `b`, and uint32 indices of their
    /// matrices, which have the batch axes of the output.
    GatherMm {
        /// The indices of `a` ascend.
        left_sorted: bool,
        /// The indices of `b` ascend.
        right_sorted: bool,
    },
    /// `a[:, start..end] @ b[start..end, :]` for uint32 pairs: inputs `a`, `b`, segments (…, 2).
    SegmentedMm,
}

impl Family for MatmulOp {
    fn name(&self) -> &'static str {
        match self {
            Self::Matmul => "Matmul",
            Self::AddMm { .. } => "AddMM",
            Self::GatherMm { .. } => "GatherMM",
            Self::SegmentedMm => "SegmentedMM",
        }
    }

    fn is_view(&self) -> bool {
        match self {
            Self::Matmul | Self::AddMm { .. } | Self::GatherMm { .. } | Self::SegmentedMm => false,
        }
    }

    fn takes(&self, dtype: Dtype) -> bool {
        match self {
            Self::Matmul | Self::AddMm { .. } => dtype.is_inexact(),
            Self::GatherMm { .. } | Self::SegmentedMm => dtype.is_floating(),
        }
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let [a, b, rest @ ..] = inputs else { return None };
        let ((batch, rows, inner), (others, b_rows, columns)) =
            (matrices(a.shape)?, matrices(b.shape)?);
        if a.dtype != b.dtype || inner != b_rows {
            return None;
        }
        let shape = match (self, rest) {
            (Self::Matmul, []) if batch == others => of_matrices(batch, rows, columns),
            (Self::AddMm { .. }, [c]) if batch == others => {
                let shape = of_matrices(batch, rows, columns);
                (c.dtype == a.dtype && c.shape == shape.as_slice()).then_some(shape)?
            }
            (Self::GatherMm { .. }, [left, right])
                if left.is_like(*right) && left.dtype == Dtype::Uint32 =>
            {
                of_matrices(left.shape, rows, columns)
            }
            (Self::SegmentedMm, [segments])
                if segments.dtype == Dtype::Uint32 && a.ndim() == 2 && b.ndim() == 2 =>
            {
                let [count @ .., 2] = segments.shape else { return None };
                of_matrices(count, rows, columns)
            }
            _ => return None,
        };
        one(shape, a.dtype)
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let operand = |shape: &[usize]| Input::new(shape, dtype);
        let uints = |values: &[f64], shape: &[usize]| Input::of(values, shape, Dtype::Uint32);
        let (a, b) = (operand(&[4, 6]), operand(&[6, 5]));
        let example = |member| match member {
            Member::Matmul => (Self::Matmul, vec![a.clone(), b.clone()]),
            Member::AddMm => {
                let factors = Self::AddMm { alpha: Exact(2.0), beta: Exact(0.5) };
                (factors, vec![a.clone(), b.clone(), operand(&[4, 5])])
            }
            Member::GatherMm => {
                let picks = [uints(&[2.0, 0.0], &[2]), uints(&[1.0, 1.0], &[2])];
                let stacks = [operand(&[3, 4, 6]), operand(&[2, 6, 5])];
                let unsorted = Self::GatherMm { left_sorted: false, right_sorted: false };
                (unsorted, stacks.into_iter().chain(picks).collect())
            }
            Member::SegmentedMm => {
                let segments = uints(&[0.0, 2.0, 2.0, 6.0], &[2, 2]);
                (Self::SegmentedMm, vec![a.clone(), b.clone(), segments])
            }
        };
        Member::iter().map(example).collect()
    }
}
