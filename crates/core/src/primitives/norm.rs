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
    /// The derivatives of [`NormOp::RmsNorm`] along a cotangent: inputs `x`, weight, cotangent. Outputs are
    /// that by `x` and, if it is asked for, that by the weight, each like its input. With `s = 1 /
    /// sqrt(mean(x²) + eps)`, `u = s x` and `v = weight * cotangent`, the transposed Jacobian gives
    /// `s (v - u mean(u v))`, and the sum of `cotangent * u` over all that an element of the weight meets.
    RmsNormVjp {
        /// Added to the mean square.
        eps: Exact<f32>,
        /// Whether the derivative by the weight is an output. It is a sum over all rows, and not asked for
        /// where weights are frozen. A flag and no other member, because the rest is the same.
        parameters: bool,
    },
    /// The derivatives of [`NormOp::LayerNorm`] along a cotangent: inputs `x`, weight, bias, cotangent.
    /// Outputs are that by `x` and, if they are asked for, those by weight and bias, each like its input.
    /// With `s = 1 / sqrt(var + eps)`, `u = s (x - mean)` and `v = weight * cotangent` these are
    /// `s (v - mean(v) - u mean(u v))`, the sum of `cotangent * u` and that of the cotangent.
    LayerNormVjp {
        /// Added to the variance.
        eps: Exact<f32>,
        /// Whether the derivatives by weight and bias are outputs.
        parameters: bool,
    },
}

impl Family for NormOp {
    fn name(&self) -> &'static str {
        match self {
            Self::RmsNorm { .. } => "RMSNorm",
            Self::LayerNorm { .. } => "LayerNorm",
            Self::RmsNormVjp { .. } => "RMSNormVJP",
            Self::LayerNormVjp { .. } => "LayerNormVJP",
        }
    }

    fn is_view(&self) -> bool {
        match self {
            Self::RmsNorm { .. }
            | Self::LayerNorm { .. }
            | Self::RmsNormVjp { .. }
            | Self::LayerNormVjp { .. } => false,
        }
    }

    fn takes(&self, dtype: Dtype) -> bool {
        match self {
            Self::RmsNorm { .. }
            | Self::LayerNorm { .. }
            | Self::RmsNormVjp { .. }
            | Self::LayerNormVjp { .. } => dtype.is_floating(),
        }
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        match *self {
            Self::RmsNorm { .. } => normalized(inputs, 1),
            Self::LayerNorm { .. } => normalized(inputs, 2),
            Self::RmsNormVjp { parameters, .. } => derived(inputs, 1, parameters),
            Self::LayerNormVjp { parameters, .. } => derived(inputs, 2, parameters),
        }
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let (x, parameter) = (Input::new(&[4, 6], dtype), Input::new(&[6], dtype));
        let eps = Exact(1e-5);
        let norm = vec![x.clone(), parameter.clone()];
        let layer = vec![x.clone(), parameter.clone(), parameter];
        let along = |inputs: &[Input]| [inputs, std::slice::from_ref(&x)].concat();
        let example = |member| match member {
            Member::RmsNorm => vec![(Self::RmsNorm { eps }, norm.clone())],
            Member::LayerNorm => vec![(Self::LayerNorm { eps }, layer.clone())],
            Member::RmsNormVjp => [true, false]
                .map(|parameters| (Self::RmsNormVjp { eps, parameters }, along(&norm)))
                .into(),
            Member::LayerNormVjp => [true, false]
                .map(|parameters| (Self::LayerNormVjp { eps, parameters }, along(&layer)))
                .into(),
        };
        Member::iter().flat_map(example).collect()
    }
}

/// The output of a norm with this number of parameters, each a vector of the axis' size or a scalar.
fn normalized(inputs: &[SpecRef<'_>], count: usize) -> Option<Specs> {
    let (x, parameters) = inputs.split_first()?;
    let [.., _] = x.shape else { return None };
    let last = &x.shape[x.ndim() - 1..];
    let fit = |p: &SpecRef<'_>| p.dtype == x.dtype && (p.shape.is_empty() || p.shape == last);
    let fits = parameters.len() == count && parameters.iter().all(fit);
    fits.then(|| one(x.shape, x.dtype))?
}

/// The derivatives of such a norm by its first input, and by its parameters if they are asked for.
fn derived(inputs: &[SpecRef<'_>], count: usize, parameters: bool) -> Option<Specs> {
    let (cotangent, primals) = inputs.split_last()?;
    let output = normalized(primals, count)?;
    let outputs = if parameters { primals } else { &primals[..1] };
    let fits = cotangent.is_like(output[0].as_ref());
    fits.then(|| outputs.iter().map(|primal| primal.to_spec()).collect())
}
