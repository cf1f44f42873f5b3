//! Sorting and searching along an axis. NaN sorts last.

use strum::{EnumDiscriminants, EnumIter, IntoEnumIterator};

use super::{Family, Input, SpecRef, Specs, spec::one};
use crate::Dtype;

/// Orders along an axis, and ranks in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumDiscriminants)]
#[strum_discriminants(name(Member), derive(EnumIter), vis(pub(super)))]
pub enum SortOp {
    /// Ascending order along an axis.
    Sort {
        /// The axis.
        axis: usize,
    },
    /// Indices (uint32) of the stable ascending order along an axis.
    ArgSort {
        /// The axis.
        axis: usize,
    },
    /// An order along an axis in which element `kth` has its sorted position.
    Partition {
        /// The index.
        kth: usize,
        /// The axis.
        axis: usize,
    },
    /// Indices (uint32) of such an order.
    ArgPartition {
        /// The index.
        kth: usize,
        /// The axis.
        axis: usize,
    },
    /// Indices (uint32) in the first input, which is sorted and has one axis, before which the
    /// second one's elements belong.
    SearchSorted {
        /// Behind equal elements instead of before them.
        right: bool,
    },
}

impl Family for SortOp {
    fn name(&self) -> &'static str {
        match self {
            Self::Sort { .. } => "Sort",
            Self::ArgSort { .. } => "ArgSort",
            Self::Partition { .. } => "Partition",
            Self::ArgPartition { .. } => "ArgPartition",
            Self::SearchSorted { .. } => "SearchSorted",
        }
    }

    fn is_view(&self) -> bool {
        match self {
            Self::Sort { .. }
            | Self::ArgSort { .. }
            | Self::Partition { .. }
            | Self::ArgPartition { .. }
            | Self::SearchSorted { .. } => false,
        }
    }

    fn takes(&self, _dtype: Dtype) -> bool {
        match self {
            Self::Sort { .. }
            | Self::ArgSort { .. }
            | Self::Partition { .. }
            | Self::ArgPartition { .. }
            | Self::SearchSorted { .. } => true,
        }
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        match (*self, inputs) {
            (Self::Sort { axis }, [a]) if axis < a.ndim() => one(a.shape, a.dtype),
            (Self::ArgSort { axis }, [a]) if axis < a.ndim() => one(a.shape, Dtype::Uint32),
            (Self::Partition { kth, axis }, [a]) if kth < *a.shape.get(axis)? => {
                one(a.shape, a.dtype)
            }
            (Self::ArgPartition { kth, axis }, [a]) if kth < *a.shape.get(axis)? => {
                one(a.shape, Dtype::Uint32)
            }
            (Self::SearchSorted { .. }, [sorted, values])
                if sorted.ndim() == 1 && sorted.dtype == values.dtype =>
            {
                one(values.shape, Dtype::Uint32)
            }
            _ => None,
        }
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let rows = Input::new(&[4, 6], dtype);
        let ascending = [0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 7.0];
        let example = |member| match member {
            Member::Sort => (Self::Sort { axis: 1 }, vec![rows.clone()]),
            Member::ArgSort => (Self::ArgSort { axis: 1 }, vec![rows.clone()]),
            Member::Partition => (Self::Partition { kth: 2, axis: 1 }, vec![rows.clone()]),
            Member::ArgPartition => (Self::ArgPartition { kth: 2, axis: 1 }, vec![rows.clone()]),
            Member::SearchSorted => {
                let sorted = Input::of(&ascending, &[9], dtype);
                (Self::SearchSorted { right: false }, vec![sorted, rows.clone()])
            }
        };
        Member::iter().map(example).collect()
    }
}
