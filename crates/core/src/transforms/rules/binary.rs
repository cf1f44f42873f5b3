//! Elementwise functions of two arrays.

use super::{
    Applied, Mapped, Outputs, Rules,
    elementwise::{self, Factor},
    mapping,
};
use crate::{Array, Result, graph::Inputs, ops::*, primitives::BinaryOp};

impl Rules for BinaryOp {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        elementwise::vjp(node, &cotangents[0], wanted, |i| factor(*self, node, i))
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        elementwise::jvp(node, tangents, |i| factor(*self, node, i))
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let (inputs, axis) = mapping::joined(inputs, axes)?;
        Mapped::one(node(*self, inputs)?, axis)
    }
}

/// The derivative of `y = op(a, b)` by the first input if `i` is 0, else by the second.
fn factor(op: BinaryOp, node: &Applied<'_>, i: usize) -> Result<Factor> {
    use Factor::{Minus, One, Over, Times, Zero};
    let (a, b, y) = (&node.inputs[0], &node.inputs[1], &node.outputs[0]);
    let first = i == 0;
    // 1 where the output is that input. Of equal ones it is the second.
    let chosen = |mask: Result<Array>| Ok::<_, crate::Error>(Times(astype(&mask?, a.dtype())?));
    Ok(match op {
        BinaryOp::Add => One,
        BinaryOp::Subtract if first => One,
        BinaryOp::Subtract => Minus,
        BinaryOp::Multiply if first => Times(b.clone()),
        BinaryOp::Multiply => Times(a.clone()),
        BinaryOp::Divide if first => Over(b.clone()),
        BinaryOp::Divide => Times(negative(&divide(a, &square(b)?)?)?),
        BinaryOp::Arctan2 => {
            let squares = add(&square(a)?, &square(b)?)?;
            let numerator = if first { b.clone() } else { negative(a)? };
            Times(divide(&numerator, &squares)?)
        }
        BinaryOp::LogAddExp => {
            let share = sigmoid(&subtract(a, b)?)?;
            Times(if first { share } else { subtract(1.0, &share)? })
        }
        BinaryOp::Maximum if first => chosen(greater(a, b))?,
        BinaryOp::Maximum => chosen(less_equal(a, b))?,
        BinaryOp::Minimum if first => chosen(less(a, b))?,
        BinaryOp::Minimum => chosen(greater_equal(a, b))?,
        BinaryOp::Power if first => Times(multiply(&power(a, &subtract(b, 1.0)?)?, b)?),
        // Where the power is 0, so is its product with the logarithm.
        BinaryOp::Power => {
            Times(where_(&astype(y, crate::Dtype::Bool)?, &multiply(&log(a)?, y)?, 0.0)?)
        }
        BinaryOp::Remainder if first => One,
        BinaryOp::Remainder => Times(negative(&floor(&divide(a, b)?)?)?),
        BinaryOp::BitwiseAnd
        | BinaryOp::BitwiseOr
        | BinaryOp::BitwiseXor
        | BinaryOp::Equal
        | BinaryOp::FloorDivide
        | BinaryOp::Greater
        | BinaryOp::GreaterEqual
        | BinaryOp::LeftShift
        | BinaryOp::Less
        | BinaryOp::LessEqual
        | BinaryOp::LogicalAnd
        | BinaryOp::LogicalOr
        | BinaryOp::NanEqual
        | BinaryOp::NotEqual
        | BinaryOp::RightShift => Zero,
    })
}
