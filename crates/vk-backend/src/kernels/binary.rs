//! Elementwise functions of two arrays, and comparisons.

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::BinaryOp};

use super::{
    Ctx, Dispatch,
    elementwise::{self, Class, Operands},
    layouts,
};
use crate::shaders::KernelOf;
use layouts::binary::{Constants, Push};

/// Whether an operation takes many times the instructions of a product.
pub(crate) fn is_transcendental(op: BinaryOp) -> bool {
    use BinaryOp as B;
    matches!(op, B::Arctan2 | B::FloorDivide | B::LogAddExp | B::Power | B::Remainder)
}

fn kernel(class: Class, op: BinaryOp) -> KernelOf<Constants, Push> {
    use layouts::binary::*;
    let transcendental = is_transcendental(op);
    let (arithmetic, compare) = match class {
        Class::Float if transcendental => (BINARY_FLOAT_TRANSCENDENTAL, COMPARE_FLOAT),
        Class::Float => (BINARY_FLOAT, COMPARE_FLOAT),
        Class::Int => (BINARY_INT, COMPARE_INT),
        Class::Uint => (BINARY_UINT, COMPARE_UINT),
        Class::Long => (BINARY_LONG, COMPARE_LONG),
        Class::Ulong => (BINARY_ULONG, COMPARE_ULONG),
        Class::Complex if transcendental => (BINARY_COMPLEX_TRANSCENDENTAL, COMPARE_COMPLEX),
        Class::Complex => (BINARY_COMPLEX, COMPARE_COMPLEX),
    };
    if op.is_predicate() { compare } else { arithmetic }
}

/// Encodes `out = op(a, b)`.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    op: BinaryOp,
    a: &Array,
    b: &Array,
    output: &mut Output,
) -> Result<()> {
    let (left, right) = (ctx.input(a)?, ctx.input(b)?);
    let operands = Operands::new([a, b]);
    let destination = operands.destination(ctx, [a, b], output)?;
    let lanes =
        operands.lanes([(left, a.dtype()), (right, b.dtype())], (destination, output.dtype));
    let count = output.size() as u64;
    let (walk, ndim) = operands.walk(ctx)?;
    let push = Push {
        left: left.address,
        right: right.address,
        destination: destination.address,
        count,
        walk,
        ndim,
    };
    let constants = Constants {
        workgroup: ctx.capabilities().elementwise_workgroup(),
        dtype: a.dtype() as u32,
        op: op as u32,
        lanes,
        left: operands.lie[0] as u32,
        right: operands.lie[1] as u32,
    };
    let pipeline = ctx.pipeline(kernel(a.dtype().into(), op), &constants);
    let groups = elementwise::groups(ctx, count, lanes);
    let (reads, writes) = (&[left.region, right.region], &[destination.region]);
    ctx.dispatch(&Dispatch { pipeline: &pipeline, push: &push, groups, reads, writes })
}
