//! Softmax and its logarithm over the last axis.

use strum::{EnumDiscriminants, EnumIter, IntoEnumIterator};

use super::{
    Family, Input, SpecRef, Specs,
    spec::{one, with_last},
};
use crate::Dtype;

/// Functions of the rows of the last axis, of real floating point numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumDiscriminants)]
#[strum_discriminants(name(Member), derive(EnumIter), vis(pub(super)))]
pub enum SoftmaxOp {
    /// Softmax over the last axis.
    Softmax {
        /// Accumulate half precision in float32.
        precise: bool,
    },
    /// Log of the sum of exponentials over the last axis, which stays with size 1.
    LogSumExp,
}

impl Family for SoftmaxOp {
    fn name(&self) -> &'static str {
        match self {
            Self::Softmax { .. } => "Softmax",
            Self::LogSumExp => "LogSumExp",
        }
    }

    fn is_view(&self) -> bool {
        match self {
            Self::Softmax { .. } | Self::LogSumExp => false,
        }
    }

    fn takes(&self, dtype: Dtype) -> bool {
        match self {
            Self::Softmax { .. } | Self::LogSumExp => dtype.is_floating(),
        }
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        match (self, inputs) {
            (Self::Softmax { .. }, [a]) if a.ndim() > 0 => one(a.shape, a.dtype),
            (Self::LogSumExp, [a]) => one(with_last(a.shape, 1)?, a.dtype),
            _ => None,
        }
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let member = |member| match member {
            Member::Softmax => Self::Softmax { precise: false },
            Member::LogSumExp => Self::LogSumExp,
        };
        let inputs = || vec![Input::new(&[4, 6], dtype)];
        Member::iter().map(|m| (member(m), inputs())).collect()
    }
}
