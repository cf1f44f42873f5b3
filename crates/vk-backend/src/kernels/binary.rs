//! Elementwise functions of two arrays, and comparisons.

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::BinaryOp};

use super::{
    Ctx, Dispatch, Operand,
    elementwise::{Class, Mode, is_dense, is_one_element, layout_like, same_order},
    layouts, strided,
};
use crate::shaders::KernelOf;
use layouts::binary::{Constants, Push};

/// How the two operands lie beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pair {
    /// Both dense in the same order.
    Dense,
    /// One element, and a dense array.
    ScalarDense,
    /// A dense array, and one element.
    DenseScalar,
    /// Anything else.
    Strided,
}

impl Pair {
    fn of(a: &Array, b: &Array) -> Self {
        match (is_dense(a), is_dense(b)) {
            (true, true) if same_order(a, b) => Pair::Dense,
            (_, true) if is_one_element(a) => Pair::ScalarDense,
            (true, _) if is_one_element(b) => Pair::DenseScalar,
            _ => Pair::Strided,
        }
    }

    /// The operand whose order a dense output takes.
    fn leader<'a>(self, a: &'a Array, b: &'a Array) -> Option<&'a Array> {
        match self {
            Pair::Dense | Pair::DenseScalar => Some(a),
            Pair::ScalarDense => Some(b),
            Pair::Strided => None,
        }
    }
}

fn kernel(class: Class, op: BinaryOp) -> KernelOf<Constants, Push> {
    use layouts::binary::*;
    let transcendental = matches!(
        op,
        BinaryOp::Arctan2
            | BinaryOp::FloorDivide
            | BinaryOp::LogAddExp
            | BinaryOp::Power
            | BinaryOp::Remainder
    );
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
    let pair = Pair::of(a, b);
    let destination = destination(ctx, pair, a, b, output)?;
    let count = output.size() as u64;
    let mode = match pair {
        Pair::Strided => Mode::Strided,
        Pair::Dense => {
            Mode::dense(&[(left, a.dtype()), (right, b.dtype()), (destination, output.dtype)])
        }
        Pair::ScalarDense => Mode::dense(&[(right, b.dtype()), (destination, output.dtype)]),
        Pair::DenseScalar => Mode::dense(&[(left, a.dtype()), (destination, output.dtype)]),
    };
    let (walk, ndim) = match mode {
        Mode::Strided => {
            let walk = strided::walk([a, b]);
            (ctx.args(&walk.pack())?, walk.ndim())
        }
        Mode::Dense | Mode::Dense4 => (0, 0),
    };
    let push = Push {
        left: left.address,
        right: right.address,
        destination: destination.address,
        count,
        walk,
        ndim,
    };
    let group = ctx.capabilities().elementwise_workgroup();
    let constants = Constants {
        workgroup: group,
        dtype: a.dtype() as u32,
        op: op as u32,
        mode: mode as u32,
        left_scalar: u32::from(pair == Pair::ScalarDense),
        right_scalar: u32::from(pair == Pair::DenseScalar),
    };
    let pipeline = ctx.pipeline(kernel(a.dtype().into(), op), &constants);
    let reads = [left.region, right.region];
    let groups = [ctx.capabilities().groups_1d(mode.items(count), group.into()), 1, 1];
    let writes = &[destination.region];
    ctx.dispatch(&Dispatch { pipeline: &pipeline, push: &push, groups, reads: &reads, writes })
}

/// Takes an operand's memory over where the kernel reads each element before it writes it.
fn destination(
    ctx: &mut Ctx<'_>,
    pair: Pair,
    a: &Array,
    b: &Array,
    output: &mut Output,
) -> Result<Operand> {
    let Some(leader) = pair.leader(a, b) else { return ctx.output(output) };
    if let Some(taken) = ctx.donate(leader, output)? {
        return Ok(taken);
    }
    if pair == Pair::Dense
        && let Some(taken) = ctx.donate(b, output)?
    {
        return Ok(taken);
    }
    ctx.output_like(output, layout_like(leader, output))
}
