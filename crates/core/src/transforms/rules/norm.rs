//! Normalization over the last axis.

use super::{Applied, Mapped, Outputs, Rules, mapping, one, shape::summed_to, sum};
use crate::{Array, Dtype, Result, graph::Inputs, ops, primitives::NormOp};

impl Rules for NormOp {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        let rows = Rows::new(*self, &node.inputs[0])?;
        let cotangent = ops::astype(&cotangents[0], rows.unit.dtype())?;
        let derivative = |&i: &usize| {
            let input = &node.inputs[i];
            let derivative = match i {
                0 => rows.along(&ops::multiply(&cotangent, &node.inputs[1])?)?,
                1 => summed_to(&ops::multiply(&cotangent, &rows.unit)?, input.shape())?,
                _ => summed_to(&cotangent, input.shape())?,
            };
            ops::astype(&derivative, input.dtype())
        };
        wanted.iter().map(derivative).collect()
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
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

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
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
}

impl NormOp {
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
        let unit = self.unit(&ops::astype(&x, wide)?)?;
        let scaled = ops::multiply(&unit, &parameter(1)?)?;
        let output = match self {
            Self::RmsNorm { .. } => scaled,
            Self::LayerNorm { .. } => ops::add(&scaled, &parameter(2)?)?,
        };
        ops::astype(&output, dtype)
    }

    /// The rows without weight and bias.
    fn unit(self, x: &Array) -> Result<Array> {
        let constant = |value| Array::scalar_of(value, x.dtype());
        match self {
            Self::RmsNorm { .. } => ops::node(self, [x.clone(), constant(1.0)?]),
            Self::LayerNorm { .. } => ops::node(self, [x.clone(), constant(1.0)?, constant(0.0)?]),
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
        let (NormOp::RmsNorm { eps } | NormOp::LayerNorm { eps }) = op;
        let centred = centred(op, &x)?;
        let square = mean(&ops::square(&centred)?)?;
        let scale = ops::rsqrt(&ops::add(&square, f64::from(eps.0))?)?;
        Ok(Rows { op, unit: ops::multiply(&centred, &scale)?, scale })
    }

    /// The derivative of the rows without weight, which is a symmetric matrix, times vectors.
    fn along(&self, vectors: &Array) -> Result<Array> {
        let radial = ops::multiply(&self.unit, &mean(&ops::multiply(&self.unit, vectors)?)?)?;
        ops::multiply(&ops::subtract(&centred(self.op, vectors)?, &radial)?, &self.scale)
    }
}

/// What is left of rows once the mean is taken off, where it is.
fn centred(op: NormOp, x: &Array) -> Result<Array> {
    match op {
        NormOp::RmsNorm { .. } => Ok(x.clone()),
        NormOp::LayerNorm { .. } => ops::subtract(x, &mean(x)?),
    }
}

/// The mean of each row.
fn mean(x: &Array) -> Result<Array> {
    ops::mean(x, &[-1], true)
}
