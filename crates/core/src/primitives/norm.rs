//! Normalization over the last axis.

use strum::{EnumDiscriminants, EnumIter, IntoEnumIterator};

use super::{Exact, Family, Input, SpecRef, Specs, spec::one};
use crate::Dtype;

/// Normalization over the last axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumDiscriminants)]
#[strum_discriminants(name(Member), derive(EnumIter), vis(pub(super)))]
pub enum NormOp {
    /// `x / sqrt(mean(x²) + eps) * weight`: inputs `x`, weight of the axis' size or a scalar one.
    RmsNorm {
        /// Added to the mean square.
        eps: Exact<f32>,
    },
    /// `(x - mean) / sqrt(var + eps) * weight + bias`: inputs `x`, weight, bias, each of the axis'
    /// size or scalar.
    LayerNorm {
        /// Added to the variance.
        eps: Exact<f32>,
    },
}

impl Family for NormOp {
    fn name(&self) -> &'static str {
        match self {
            Self::RmsNorm { .. } => "RMSNorm",
            Self::LayerNorm { .. } => "LayerNorm",
        }
    }

    fn is_view(&self) -> bool {
        match self {
            Self::RmsNorm { .. } | Self::LayerNorm { .. } => false,
        }
    }

    fn takes(&self, dtype: Dtype) -> bool {
        match self {
            Self::RmsNorm { .. } | Self::LayerNorm { .. } => dtype.is_floating(),
        }
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let (x, parameters) = inputs.split_first()?;
        let expected = match self {
            Self::RmsNorm { .. } => 1,
            Self::LayerNorm { .. } => 2,
        };
        let [.., _] = x.shape else { return None };
        let last = &x.shape[x.ndim() - 1..];
        let fit = |p: &SpecRef<'_>| p.dtype == x.dtype && (p.shape.is_empty() || p.shape == last);
        let fits = parameters.len() == expected && parameters.iter().all(fit);
        fits.then(|| one(x.shape, x.dtype))?
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let (x, parameter) = (Input::new(&[4, 6], dtype), Input::new(&[6], dtype));
        let eps = Exact(1e-5);
        let example = |member| match member {
            Member::RmsNorm => (Self::RmsNorm { eps }, vec![x.clone(), parameter.clone()]),
            Member::LayerNorm => {
                (Self::LayerNorm { eps }, vec![x.clone(), parameter.clone(), parameter.clone()])
            }
        };
        Member::iter().map(example).collect()
    }
}
