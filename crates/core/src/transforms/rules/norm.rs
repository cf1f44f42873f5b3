//! Normalization over the last axis.

use super::{Applied, Mapped, Outputs, Rules, composed, mapping, one, shape::summed_to, sum};
use crate::{
    Array, Dtype, Result,
    graph::{self, Inputs},
    ops,
    primitives::NormOp,
};

impl Rules for NormOp {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        let parameters = wanted.iter().any(|&i| i > 0);
        let along = |derivatives: Self| {
            let inputs = node.inputs.iter().chain(cotangents).cloned().collect();
            let outputs = graph::apply(derivatives.into(), inputs)?;
            Ok(wanted.iter().map(|&i| outputs[i].clone()).collect())
        };
        match *self {
            Self::RmsNorm { eps } => along(Self::RmsNormVjp { eps, parameters }),
            Self::LayerNorm { eps } => along(Self::LayerNormVjp { eps, parameters }),
            Self::RmsNormVjp { .. } | Self::LayerNormVjp { .. } => {
                composed::vjp(node, cotangents, wanted, |inputs| self.derivatives(inputs))
            }
        }
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        match self {
            Self::RmsNorm { .. } | Self::LayerNorm { .. } => self.along(node, tangents),
            Self::RmsNormVjp { .. } | Self::LayerNormVjp { .. } => {
                composed::jvp(node, tangents, |inputs| self.derivatives(inputs))
            }
        }
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        match self {
            Self::RmsNorm { .. } | Self::LayerNorm { .. } => self.of_each(inputs, axes),
            Self::RmsNormVjp { .. } | Self::LayerNormVjp { .. } => {
                composed::vmap(inputs, axes, |inputs| self.derivatives(inputs))
            }
        }
    }
}

/// The norms.
impl NormOp {
    /// The derivative along tangents.
    fn along(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        let rows = Rows::new(*self, &node.inputs[0])?;
        let term = |i: usize, tangent: &Array| match i {
            0 => ops::multiply(
                &rows.along(&ops::astype(tangent, rows.unit.dtype())?)?,
                &node.inputs[1],
            ),
            1 => ops::multiply(&rows.unit, tangent),
            _ => ops::broadcast_like(&ops::astype(tangent, rows.unit.dtype())?, &rows.unit),
        };
        let terms = (0..).zip(tangents);
        let terms = terms.map(|(i, tangent)| tangent.as_ref().map(|t| term(i, t)).transpose());
        let derivative = sum(terms)?;
        one(ops::astype(&derivative[0], node.inputs[0].dtype())?)
    }

    /// The norm for every index of the mapped axes.
    fn of_each(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        match axes {
            &[Some(axis), None] | &[Some(axis), None, None] => {
                let (x, axis) = mapping::before_last(&inputs[0], axis)?;
                let parameters = inputs[1..].iter().cloned();
                let all = std::iter::once(x).chain(parameters).collect::<Inputs>();
                Mapped::one(ops::node(*self, all)?, axis)
            }
            _ => Mapped::one(self.with_each(inputs, axes)?, 0),
        }
    }

    /// With other parameters for each index, which becomes the first axis.
    fn with_each(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Array> {
        let dtype = inputs[0].dtype();
        let wide = dtype.promote(Dtype::Float32);
        let ndim = inputs[0].ndim() - usize::from(axes[0].is_some());
        let x = mapping::to_front(&inputs[0], axes[0])?;
        // Broadcast against the rows of its index.
        let parameter = |i: usize| {
            let front = mapping::to_front(&inputs[i], axes[i])?;
            let new = if axes[i].is_some() { ndim + 1 - front.ndim() } else { 0 };
            ops::expand_dims(&front, &(1..=new as isize).collect::<Vec<_>>())
        };
        let unit = self.unit(&ops::astype(&x, wide)?, inputs.len() - 1)?;
        let scaled = ops::multiply(&unit, &parameter(1)?)?;
        let output = match inputs.get(2) {
            None => scaled,
            Some(_) => ops::add(&scaled, &parameter(2)?)?,
        };
        ops::astype(&output, dtype)
    }

    /// The rows with a weight of one and a bias of zero, as many of both as it takes.
    fn unit(self, x: &Array, parameters: usize) -> Result<Array> {
        let constants = [1.0, 0.0].into_iter().take(parameters);
        let constants = constants.map(|value| Array::scalar_of(value, x.dtype()));
        let inputs = std::iter::once(Ok(x.clone())).chain(constants);
        ops::node(self, inputs.collect::<Result<Inputs>>()?)
    }
}

/// The derivatives of norms.
impl NormOp {
    /// What they are composed of; inputs and outputs are the primitive's.
    pub(crate) fn derivatives(&self, inputs: &[Array]) -> Result<Outputs> {
        let (cotangent, primals) = inputs.split_last().expect("the last one is the cotangent");
        let rows = Rows::new(*self, &primals[0])?;
        let cotangent = ops::astype(cotangent, rows.unit.dtype())?;
        let derivative = |(i, primal): (usize, &Array)| {
            let derivative = match i {
                0 => rows.along(&ops::multiply(&cotangent, &primals[1])?)?,
                1 => summed_to(&ops::multiply(&cotangent, &rows.unit)?, primal.shape())?,
                _ => summed_to(&cotangent, primal.shape())?,
            };
            ops::astype(&derivative, primal.dtype())
        };
        primals.iter().enumerate().take(self.outputs()).map(derivative).collect()
    }

    /// How many outputs there are.
    fn outputs(self) -> usize {
        match self {
            Self::RmsNormVjp { parameters: true, .. } => 2,
            Self::LayerNormVjp { parameters: true, .. } => 3,
            Self::RmsNorm { .. }
            | Self::LayerNorm { .. }
            | Self::RmsNormVjp { parameters: false, .. }
            | Self::LayerNormVjp { parameters: false, .. } => 1,
        }
    }
}

/// Normalized rows, of halves in float32.
struct Rows {
    op: NormOp,
    /// The rows without weight and bias.
    unit: Array,
    /// What their elements were multiplied by.
    scale: Array,
}

impl Rows {
    fn new(op: NormOp, x: &Array) -> Result<Self> {
        let x = ops::astype(x, x.dtype().promote(Dtype::Float32))?;
        let (NormOp::RmsNorm { eps }
        | NormOp::LayerNorm { eps }
        | NormOp::RmsNormVjp { eps, .. }
        | NormOp::LayerNormVjp { eps, .. }) = op;
        let centred = centred(op, &x)?;
        let square = mean(&ops::square(&centred)?)?;
        let scale = ops::rsqrt(&ops::add(&square, f64::from(eps.0))?)?;
        Ok(Rows { op, unit: ops::multiply(&centred, &scale)?, scale })
    }

    /// The derivative of the rows without weight, which is a symmetric matrix, times vectors.
    fn along(&self, vectors: &Array) -> Result<Array> {
        // Along what is centred itself, an error of the rows' mean counts for nothing.
        let vectors = centred(self.op, vectors)?;
        let radial = ops::multiply(&self.unit, &mean(&ops::multiply(&self.unit, &vectors)?)?)?;
        ops::multiply(&ops::subtract(&vectors, &radial)?, &self.scale)
    }
}

/// What is left of rows once the mean is taken off, where it is.
fn centred(op: NormOp, x: &Array) -> Result<Array> {
    match op {
        NormOp::RmsNorm { .. } | NormOp::RmsNormVjp { .. } => Ok(x.clone()),
        NormOp::LayerNorm { .. } | NormOp::LayerNormVjp { .. } => ops::subtract(x, &mean(x)?),
    }
}

/// The mean of each row.
fn mean(x: &Array) -> Result<Array> {
    ops::mean(x, &[-1], true)
}
