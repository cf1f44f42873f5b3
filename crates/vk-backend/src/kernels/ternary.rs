//! Selection between two arrays.

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::TernaryOp};

use super::{
    Ctx,
    layouts::ternary_select::{Constants, DENSE, Push, SELECT, STRIDED, STRIDED4},
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
    let walk = strided::walk([&inputs[0], &inputs[1], &inputs[2]]);
    let size = output.dtype.size();
    let at = [condition, left, right];
    let mode = match inputs.iter().all(|a| a.evaluated().layout.flags.row_contiguous) {
        true => DENSE,
        false if size <= 4 && walk.has_quads([(condition, 1), (left, size), (right, size)]) => {
            STRIDED4
        }
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
