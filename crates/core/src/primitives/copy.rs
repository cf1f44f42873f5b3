//! Conversions and copies.

use strum::{EnumDiscriminants, EnumIter, IntoEnumIterator};

use super::{
    Family, Input, SpecRef, Specs,
    spec::{one, with_last},
};
use crate::Dtype;

/// Conversions and copies of one array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumDiscriminants)]
#[strum_discriminants(name(Member), derive(EnumIter), vis(pub(super)))]
pub enum CopyOp {
    /// Conversion to a dtype.
    AsType {
        /// The dtype of the output.
        dtype: Dtype,
    },
    /// The same bytes as another dtype; the last axis grows or shrinks by the ratio of the sizes.
    View {
        /// The dtype of the output.
        dtype: Dtype,
    },
    /// A dense array of the elements of an input, which is mostly a value that was broadcast.
    Full,
    /// A dense copy; the input itself where it is dense already.
    Contiguous {
        /// Column-major counts as dense too.
        allow_col_major: bool,
    },
}

impl Family for CopyOp {
    fn name(&self) -> &'static str {
        match self {
            Self::AsType { .. } => "AsType",
            Self::View { .. } => "View",
            Self::Full => "Full",
            Self::Contiguous { .. } => "Contiguous",
        }
    }

    fn is_view(&self) -> bool {
        match self {
            Self::AsType { .. } | Self::View { .. } | Self::Full | Self::Contiguous { .. } => false,
        }
    }

    fn takes(&self, _dtype: Dtype) -> bool {
        true
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let &[a] = inputs else { return None };
        match *self {
            Self::AsType { dtype } => one(a.shape, dtype),
            Self::View { dtype } if dtype.size() == a.dtype.size() => one(a.shape, dtype),
            Self::View { dtype } => {
                let bytes = a.shape.last()?.checked_mul(a.dtype.size())?;
                let fits = bytes.is_multiple_of(dtype.size());
                fits.then(|| one(with_last(a.shape, bytes / dtype.size())?, dtype))?
            }
            Self::Full | Self::Contiguous { .. } => one(a.shape, a.dtype),
        }
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let other = if dtype == Dtype::Float32 { Dtype::Int32 } else { Dtype::Float32 };
        let (dense, transposed) =
            (Input::new(&[4, 6], dtype), Input::new(&[4, 6], dtype).transposed());
        let example = |member| match member {
            Member::AsType => (Self::AsType { dtype: other }, vec![dense.clone()]),
            Member::View => (Self::View { dtype: Dtype::Uint8 }, vec![transposed.clone()]),
            Member::Full => (Self::Full, vec![dense.clone()]),
            Member::Contiguous => {
                (Self::Contiguous { allow_col_major: false }, vec![transposed.clone()])
            }
        };
        Member::iter().map(example).collect()
    }
}
