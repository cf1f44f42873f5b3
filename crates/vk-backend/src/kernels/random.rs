//! Random bits.

use bytemuck::{Pod, Zeroable};
use mlx_vulkan_core::{Array, Result, backend::Output};

use super::{Ctx, Kernel};

/// Push constants of `bits.comp`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Push {
    key: u64,
    destination: u64,
    bytes: u64,
    key_stride: i64,
}

/// Encodes the Threefry bits of one key.
pub(super) fn bits(ctx: &mut Ctx<'_>, key: &Array, output: &mut Output) -> Result<()> {
    let source = ctx.input(key)?;
    let destination = ctx.output(output)?;
    let bytes = output.nbytes() as u64;
    let key_stride = key.evaluated().layout.strides[0] as i64;
    let push = Push { key: source.address, destination: destination.address, bytes, key_stride };
    let group = ctx.capabilities().elementwise_workgroup();
    let pipeline = ctx.pipeline(Kernel::random_bits, &[group])?;
    let hashes = bytes.div_ceil(4).div_ceil(2);
    let push = bytemuck::bytes_of(&push);
    ctx.run(&pipeline, push, hashes, u64::from(group), &[source.region], &[destination.region])
}
