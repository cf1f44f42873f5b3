//! What must be known of a program's operations to round their results: which dtypes and operations lose
//! nothing, which pass NaN on, and how each is rounded to bfloat16.

use mlx_vulkan_core::{
    Dtype,
    primitives::{BinaryOp, Primitive, UnaryOp},
};

/// Whether a register has more than elements of a dtype keep.
pub(super) fn is_narrow(dtype: Dtype) -> bool {
    dtype.size() < 4
}

/// Whether elements are two bytes of a float.
pub(super) fn is_half(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Float16 | Dtype::Bfloat16)
}

/// How a value is rounded to bfloat16 where threads take several elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    /// By bits: all that may be denormal without arithmetic.
    Exact,
    Near,
    /// Near, but for large numbers.
    Sum,
}

impl Rounding {
    /// That of what a step gives.
    pub(super) fn of(primitive: &Primitive) -> Rounding {
        use BinaryOp as B;
        use UnaryOp as U;
        match primitive {
            Primitive::Binary(B::Add | B::Subtract) => Rounding::Sum,
            Primitive::Binary(B::Multiply | B::Divide) => Rounding::Near,
            Primitive::Unary(U::Erf | U::Exp | U::Rsqrt | U::Sigmoid | U::Square) => Rounding::Near,
            Primitive::Unary(U::Sqrt | U::Tanh) => Rounding::Near,
            _ => Rounding::Exact,
        }
    }
}

/// Whether the library has a function of its own, which may doubt its result, for halves.
pub(super) fn has_near(op: UnaryOp, dtype: Dtype) -> bool {
    use UnaryOp as U;
    match op {
        U::Sqrt => is_half(dtype),
        U::Erf | U::Exp | U::Sigmoid | U::Tanh => dtype == Dtype::Bfloat16,
        _ => false,
    }
}

/// Whether a step gives NaN of NaN.
pub(super) fn passes_nan(primitive: &Primitive, dtype: Dtype) -> bool {
    use BinaryOp as B;
    use UnaryOp as U;
    match primitive {
        Primitive::Unary(op) => *op != U::LogicalNot,
        Primitive::Binary(op) => {
            matches!(op, B::Add | B::Subtract | B::Multiply | B::Divide | B::Maximum | B::Minimum)
        }
        Primitive::Copy(_) => dtype.is_floating(),
        _ => false,
    }
}

/// Whether a step gives elements of its dtype whenever its inputs are some.
pub(super) fn is_exact(primitive: &Primitive, dtype: Dtype) -> bool {
    use UnaryOp as U;
    match primitive {
        Primitive::Unary(U::LogicalNot) | Primitive::Ternary(_) => true,
        Primitive::Unary(U::Abs | U::Ceil | U::Floor | U::Negative | U::Round | U::Sign) => {
            dtype.is_floating()
        }
        Primitive::Binary(BinaryOp::Maximum | BinaryOp::Minimum) => true,
        Primitive::Binary(op) => op.is_predicate(),
        _ => false,
    }
}
