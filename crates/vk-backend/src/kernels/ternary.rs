//! Selection between two arrays.

use mlx_vulkan_core::{Array, Result, Strides, backend::Output, primitives::TernaryOp};

use super::{
    Ctx, Operand,
    layouts::ternary_select::{Constants, DENSE, Push, SELECT, STRIDED, STRIDED4},
    strided::{self, Walk},
};

/// Encodes the primitives of this family.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    op: TernaryOp,
    inputs: &[Array; 3],
    output: &mut Output,
) -> Result<()> {
    match op {
        TernaryOp::Select => select(ctx, inputs, output),
    }
}

/// Encodes `out = condition ? a : b`.
fn select(ctx: &mut Ctx<'_>, inputs: &[Array; 3], output: &mut Output) -> Result<()> {
    let [condition, left, right] =
        [ctx.input(&inputs[0])?, ctx.input(&inputs[1])?, ctx.input(&inputs[2])?];
    let destination = ctx.output(output)?;
    let walk = strided::walk([&inputs[0], &inputs[1], &inputs[2]]);
    let size = output.dtype.size();
    let at = [condition, left, right];
    let mode = match inputs.iter().all(|a| a.evaluated().layout.flags.row_contiguous) {
        true => DENSE,
        false if size <= 4 && has_quads(&walk, at, [1, size, size]) => STRIDED4,
        false => STRIDED,
    };
    let count = output.size() as u64;
    let push = Push {
        condition: condition.address,
        left: left.address,
        right: right.address,
        destination: destination.address,
        count: if mode == STRIDED4 { count / 4 } else { count },
        walk: if mode == DENSE { 0 } else { ctx.args(&walk.pack())? },
        ndim: walk.ndim(),
    };
    let group = ctx.capabilities().elementwise_workgroup();
    let pipeline = ctx.pipeline(SELECT, &Constants { workgroup: group, size: size as u32, mode });
    ctx.run(
        &pipeline,
        &push,
        push.count,
        u64::from(group),
        &at.map(|a| a.region),
        &[destination.region],
    )
}

/// Whether the last axis is made of groups of four, each of which is one element of memory or an aligned
/// vector. `sizes` are the operands' bytes of an element.
fn has_quads(walk: &Walk<3>, at: [Operand; 3], sizes: [usize; 3]) -> bool {
    let last = walk.shape.len() - 1;
    let vectors = |(strides, (at, size)): (&Strides, (Operand, usize))| match strides[last] {
        0 => true,
        1 => at.is_aligned(4 * size as u64) && strides[..last].iter().all(|stride| stride % 4 == 0),
        _ => false,
    };
    walk.shape[last].is_multiple_of(4)
        && walk.strides.iter().zip(at.into_iter().zip(sizes)).all(vectors)
}
