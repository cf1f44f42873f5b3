//! Elementwise functions of one array.

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::UnaryOp};

use super::{
    Ctx, Dispatch,
    elementwise::{self, Class, Operands},
    layouts,
};
use crate::shaders::KernelOf;
use layouts::unary::{Constants, Push};

/// The module that has a function, as the `VARIANT` define splits them.
fn kernel(class: Class, op: UnaryOp) -> KernelOf<Constants, Push> {
    use UnaryOp as U;
    use layouts::unary::*;
    let variants = match class {
        Class::Int => return UNARY_INT,
        Class::Uint => return UNARY_UINT,
        Class::Long => return UNARY_LONG,
        Class::Ulong => return UNARY_ULONG,
        Class::Float => [
            UNARY_FLOAT_ALGEBRAIC,
            UNARY_FLOAT_EXPONENTIAL,
            UNARY_FLOAT_LOGARITHMIC,
            UNARY_FLOAT_CIRCULAR,
            UNARY_FLOAT_INVERSE,
        ],
        Class::Complex => [
            UNARY_COMPLEX_ALGEBRAIC,
            UNARY_COMPLEX_EXPONENTIAL,
            UNARY_COMPLEX_LOGARITHMIC,
            UNARY_COMPLEX_CIRCULAR,
            UNARY_COMPLEX_INVERSE,
        ],
    };
    let variant = match op {
        U::Abs | U::BitwiseInvert | U::Ceil | U::Conjugate | U::Floor | U::Imag | U::LogicalNot => {
            0
        }
        U::Negative | U::Real | U::Round | U::Rsqrt | U::Sign | U::Sqrt | U::Square => 0,
        U::Cosh | U::Exp | U::Expm1 | U::Sigmoid | U::Sinh | U::Tanh => 1,
        U::Arccosh | U::Arcsinh | U::Arctanh | U::Log | U::Log10 | U::Log1p | U::Log2 => 2,
        U::Cos | U::Sin | U::Tan => 3,
        U::Arccos | U::Arcsin | U::Arctan | U::Erf | U::Erfinv => 4,
    };
    variants[variant]
}

/// Encodes `out = op(a)`.
pub(super) fn eval(ctx: &mut Ctx<'_>, op: UnaryOp, a: &Array, output: &mut Output) -> Result<()> {
    let source = ctx.input(a)?;
    let operands = Operands::new([a]);
    let destination = operands.destination(ctx, [a], output)?;
    let lanes = operands.lanes([(source, a.dtype())], (destination, output.dtype));
    let count = a.size() as u64;
    let (walk, ndim) = operands.walk(ctx)?;
    let push = Push { source: source.address, destination: destination.address, count, walk, ndim };
    let constants = Constants {
        workgroup: ctx.capabilities().elementwise_workgroup(),
        dtype: a.dtype() as u32,
        op: op as u32,
        lanes,
        source: operands.lie[0] as u32,
    };
    let pipeline = ctx.pipeline(kernel(a.dtype().into(), op), &constants);
    let groups = elementwise::groups(ctx, count, lanes);
    let (reads, writes) = (&[source.region], &[destination.region]);
    ctx.dispatch(&Dispatch { pipeline: &pipeline, push: &push, groups, reads, writes })
}
