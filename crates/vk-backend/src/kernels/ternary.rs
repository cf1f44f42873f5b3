//! Selection between two arrays.

use bytemuck::{Pod, Zeroable};
use mlx_vulkan_core::{Array, Result, backend::Output};

use super::{Ctx, Kernel, strided};

/// Push constants of `select.comp`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Push {
    condition: u64,
    left: u64,
    right: u64,
    destination: u64,
    count: u64,
    walk: u64,
    ndim: u32,
    zero: u32,
}

/// Encodes `out = condition ? a : b`.
pub(super) fn select(ctx: &mut Ctx<'_>, inputs: &[Array; 3], output: &mut Output) -> Result<()> {
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
        zero: 0,
    };
    let group = ctx.capabilities().elementwise_workgroup();
    let constants = [group, output.dtype.size() as u32, u32::from(!dense)];
    let pipeline = ctx.pipeline(Kernel::select, &constants)?;
    let reads = [condition.region, left.region, right.region];
    let push = (bytemuck::bytes_of(&push), output.size() as u64);
    ctx.run(&pipeline, push.0, push.1, u64::from(group), &reads, &[destination.region])
}
