//! Elementwise functions of two arrays.

use super::{Family, Input, SpecRef, Specs, operators::operators, spec::one};
use crate::Dtype;

operators! {
    /// Elementwise functions of two arrays of the same dtype and shape.
    #[expect(missing_docs, reason = "the variants are MLX's names of well-known functions")]
    BinaryOp {
        Add: "Add", any => same;
        Arctan2: "ArcTan2", floating => same;
        BitwiseAnd: "BitwiseAnd", exact => same;
        BitwiseOr: "BitwiseOr", exact => same;
        BitwiseXor: "BitwiseXor", exact => same;
        Divide: "Divide", inexact => same;
        Equal: "Equal", any => bool;
        /// `floor(a / b)`; for integers rounded towards negative infinity is not MLX's rule: it
        /// truncates, as C does.
        FloorDivide: "FloorDivide", ordered => same;
        Greater: "Greater", any => bool;
        GreaterEqual: "GreaterEqual", any => bool;
        LeftShift: "LeftShift", integer => same;
        Less: "Less", any => bool;
        LessEqual: "LessEqual", any => bool;
        LogAddExp: "LogAddExp", inexact => same;
        LogicalAnd: "LogicalAnd", truth => bool;
        LogicalOr: "LogicalOr", truth => bool;
        Maximum: "Maximum", any => same;
        Minimum: "Minimum", any => same;
        Multiply: "Multiply", any => same;
        /// Equal, or both NaN.
        NanEqual: "NaNEqual", inexact => bool;
        NotEqual: "NotEqual", any => bool;
        Power: "Power", any => same;
        /// With the sign of the divisor, as in Python.
        Remainder: "Remainder", ordered => same;
        RightShift: "RightShift", integer => same;
        Subtract: "Subtract", any => same;
    }
}

impl BinaryOp {
    /// Whether the result is bool whatever the operands are.
    pub const fn is_predicate(self) -> bool {
        matches!(self.output_dtype(Dtype::Float32), Dtype::Bool)
    }
}

impl Family for BinaryOp {
    fn name(&self) -> &'static str {
        BinaryOp::name(*self)
    }

    fn is_view(&self) -> bool {
        false
    }

    fn takes(&self, dtype: Dtype) -> bool {
        BinaryOp::takes(*self, dtype)
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        match inputs {
            [a, b] if a.is_like(*b) => one(a.shape, self.output_dtype(a.dtype)),
            _ => None,
        }
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let divisor = |op| match (op, dtype) {
            // Divisors of truth values must not be false.
            (BinaryOp::FloorDivide | BinaryOp::Remainder, Dtype::Bool) => {
                Input::of(&[1.0; 24], &[4, 6], dtype)
            }
            _ => Input::new(&[4, 6], dtype),
        };
        let inputs = |op| vec![Input::new(&[4, 6], dtype), divisor(op)];
        BinaryOp::ALL.into_iter().map(|op| (op, inputs(op))).collect()
    }
}
