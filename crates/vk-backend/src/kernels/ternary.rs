//! Selection between two arrays.

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::TernaryOp};

use super::{
    Ctx,
    layouts::ternary_select::{Constants, Push, SELECT},
    strided,
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
    let dense = inputs.iter().all(|a| a.evaluated().layout.flags.row_contiguous);
    let walk = strided::walk([&inputs[0], &inputs[1], &inputs[2]]);
    let push = Push {
        condition: condition.address,
        left: left.address,
        right: right.address,
        destination: destination.address,
        count: output.size() as u64,
        walk: if dense { 0 } else { ctx.args(&walk.pack())? },
        ndim: walk.ndim(),
    };
    let group = ctx.capabilities().elementwise_workgroup();
    let size = output.dtype.size() as u32;
    let constants = Constants { workgroup: group, size, strided: u32::from(!dense) };
    let pipeline = ctx.pipeline(SELECT, &constants);
    let reads = [condition.region, left.region, right.region];
    ctx.run(&pipeline, &push, push.count, u64::from(group), &reads, &[destination.region])
}
