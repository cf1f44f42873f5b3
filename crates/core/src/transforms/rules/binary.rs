//! Elementwise functions of two arrays.

use super::{
    Applied,
    elementwise::{Elementwise, Factor},
};
use crate::{Array, Dtype, Result, ops::*, primitives::BinaryOp};

impl Elementwise for BinaryOp {
    /// The derivative of `y = self(a, b)` by the first input if `i` is 0, else by the second.
    fn factor(self, node: &Applied<'_>, i: usize) -> Result<Factor> {
        use Factor::{Minus, One, Over, Times, Zero};
        let (a, b, y) = (&node.inputs[0], &node.inputs[1], &node.outputs[0]);
        let first = i == 0;
        // 1 where the output is that input. Of equal ones it is the second.
        let chosen = |mask: Result<Array>| Ok::<_, crate::Error>(Times(astype(&mask?, a.dtype())?));
        Ok(match self {
            Self::Add => One,
            Self::Subtract if first => One,
            Self::Subtract => Minus,
            Self::Multiply if first => Times(b.clone()),
            Self::Multiply => Times(a.clone()),
            Self::Divide if first => Over(b.clone()),
            Self::Divide => Times(negative(&divide(a, &square(b)?)?)?),
            Self::Arctan2 => {
                let squares = add(&square(a)?, &square(b)?)?;
                let numerator = if first { b.clone() } else { negative(a)? };
                Times(divide(&numerator, &squares)?)
            }
            Self::LogAddExp => {
                let share = match a.dtype() {
                    // Sigmoid is of real numbers.
                    Dtype::Complex64 => exp(&subtract(a, y)?)?,
                    _ => sigmoid(&subtract(a, b)?)?,
                };
                Times(if first { share } else { subtract(1.0, &share)? })
            }
            Self::Maximum if first => chosen(greater(a, b))?,
            Self::Maximum => chosen(less_equal(a, b))?,
            Self::Minimum if first => chosen(less(a, b))?,
            Self::Minimum => chosen(greater_equal(a, b))?,
            Self::Power if first => Times(multiply(&power(a, &subtract(b, 1.0)?)?, b)?),
            // Where the power is 0, so is its product with the logarithm.
            Self::Power => Times(where_(&astype(y, Dtype::Bool)?, &multiply(&log(a)?, y)?, 0.0)?),
            Self::Remainder if first => One,
            Self::Remainder => Times(negative(&floor(&divide(a, b)?)?)?),
            Self::BitwiseAnd
            | Self::BitwiseOr
            | Self::BitwiseXor
            | Self::Equal
            | Self::FloorDivide
            | Self::Greater
            | Self::GreaterEqual
            | Self::LeftShift
            | Self::Less
            | Self::LessEqual
            | Self::LogicalAnd
            | Self::LogicalOr
            | Self::NanEqual
            | Self::NotEqual
            | Self::RightShift => Zero,
        })
    }
}
