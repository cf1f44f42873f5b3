//! Derivatives of functions of single elements.

use super::{Applied, Mapped, Outputs, Rules, mapping, one, sum};
use crate::{Array, Result, graph::Inputs, ops, primitives::Primitive};

/// A family of elementwise functions whose rules follow from their derivatives by each input.
pub(super) trait Elementwise: Copy + Into<Primitive> {
    /// The derivative of the output by input `i`.
    fn factor(self, node: &Applied<'_>, i: usize) -> Result<Factor>;
}

impl<T: Elementwise> Rules for T {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        vjp(node, &cotangents[0], wanted, |i| self.factor(node, i))
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        jvp(node, tangents, |i| self.factor(node, i))
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let (inputs, axis) = mapping::joined(inputs, axes)?;
        Mapped::one(ops::node(*self, inputs)?, axis)
    }
}

/// What an elementwise function's derivative by an input is.
pub(super) enum Factor {
    /// 0, or undefined.
    Zero,
    /// 1.
    One,
    /// -1.
    Minus,
    /// An array.
    Times(Array),
    /// Twice an array, which alone may be beyond its dtype.
    Twice(Array),
    /// The reciprocal of an array.
    Over(Array),
}

impl Factor {
    /// The factor of a tangent; `None` is zero.
    fn times(&self, tangent: &Array) -> Result<Option<Array>> {
        Ok(Some(match self {
            Factor::Zero => return Ok(None),
            Factor::One => tangent.clone(),
            Factor::Minus => ops::negative(tangent)?,
            Factor::Times(factor) => ops::multiply(tangent, factor)?,
            Factor::Twice(half) => ops::multiply(&ops::multiply(tangent, half)?, 2.0)?,
            Factor::Over(divisor) => ops::divide(tangent, divisor)?,
        }))
    }

    /// The conjugate, which is the factor of a cotangent.
    fn conjugate(self) -> Result<Self> {
        Ok(match self {
            Factor::Times(factor) => Factor::Times(ops::conjugate(&factor)?),
            Factor::Twice(half) => Factor::Twice(ops::conjugate(&half)?),
            Factor::Over(divisor) => Factor::Over(ops::conjugate(&divisor)?),
            real => real,
        })
    }
}

/// Derivatives of a function by each of the `wanted` inputs, of which it has `factor`.
pub(super) fn vjp(
    node: &Applied<'_>,
    cotangent: &Array,
    wanted: &[usize],
    factor: impl Fn(usize) -> Result<Factor>,
) -> Result<Inputs> {
    let derivative = |&i: &usize| match factor(i)?.conjugate()?.times(cotangent)? {
        Some(derivative) => Ok(derivative),
        None => ops::zeros_like(&node.inputs[i]),
    };
    wanted.iter().map(derivative).collect()
}

/// The derivative of a function along tangents of its inputs, by which it has `factor`.
pub(super) fn jvp(
    node: &Applied<'_>,
    tangents: &[Option<Array>],
    factor: impl Fn(usize) -> Result<Factor>,
) -> Result<Outputs> {
    let mut terms = Vec::new();
    for (i, tangent) in tangents.iter().enumerate() {
        if let Some(tangent) = tangent {
            terms.extend(factor(i)?.times(tangent)?);
        }
    }
    match terms.is_empty() {
        // What is true or false has tangents like its inputs': what reads them computes with them.
        true => {
            let dtype =
                tangents.iter().flatten().next().map_or(node.outputs[0].dtype(), Array::dtype);
            one(ops::zeros(node.outputs[0].shape(), dtype)?)
        }
        false => sum(terms.into_iter().map(|term| Ok(Some(term)))),
    }
}
