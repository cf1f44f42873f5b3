//! Random bits.

use mlx_vulkan_core::{Array, Result, backend::Output};

use super::{
    Ctx,
    layouts::random_bits::{Constants, Push, RANDOM_BITS},
};

/// Encodes the Threefry bits of one key.
pub(super) fn bits(ctx: &mut Ctx<'_>, key: &Array, output: &mut Output) -> Result<()> {
    if key.ndim() != 1 {
        return Err(ctx.unsupported(key, "it takes one key at a time"));
    }
    let source = ctx.input(key)?;
    let destination = ctx.output(output)?;
    let bytes = output.nbytes() as u64;
    let key_stride = key.evaluated().layout.strides[0] as i64;
    let push = Push { key: source.address, destination: destination.address, bytes, key_stride };
    let group = ctx.capabilities().elementwise_workgroup();
    let pipeline = ctx.pipeline(RANDOM_BITS, &Constants { workgroup: group });
    let hashes = bytes.div_ceil(4).div_ceil(2);
    ctx.run(&pipeline, &push, hashes, u64::from(group), &[source.region], &[destination.region])
}
