//! Group norm of images, as programs make it of layer norms (`norm/group.comp`).

use mlx_vulkan_core::{Dtype, Result};

use crate::kernels::{
    Capabilities, Ctx, Dispatch, Operand, Region,
    layouts::norm_group::{
        AFFINE_FLAG, APPLY_FLAG, Constants, MOST_GROUPS, NORM_GROUP, Push, SILU_FLAG,
    },
};

/// Threads of a workgroup: few workgroups have many loads under way.
const THREADS: u32 = 512;
/// Bytes of shared memory of a thread that sums up, and of all groups.
const SHARED: [u32; 2] = [32, 8 * MOST_GROUPS];
/// Quads of a thread that sums up, and that normalizes, where there are enough.
const QUADS: [u64; 2] = [8, 4];
/// Workgroups of a compute unit. Those that normalize read what all have summed up.
const WORKGROUPS: [u64; 2] = [1, 4];

/// Images (batches, positions, channels).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub batches: usize,
    pub positions: usize,
    pub channels: usize,
    pub groups: usize,
}

/// A norm of dense images, and what follows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupNorm {
    pub sizes: Sizes,
    pub x: Operand,
    /// The channels' weight and bias.
    pub affine: Option<[Operand; 2]>,
    /// Whether the result is `y sigmoid(y)`.
    pub silu: bool,
    pub eps: f32,
    pub dtype: Dtype,
    pub result: Operand,
}

impl Sizes {
    /// Whether the kernel takes them on a device.
    pub(crate) fn fit(&self, caps: &Capabilities) -> bool {
        let Sizes { batches, positions, channels, groups } = *self;
        let small = |size: usize| (1..1 << 24).contains(&size);
        [batches, channels, groups].into_iter().all(small)
            && batches <= caps.max_groups[0] as usize
            && (1..1 << 31).contains(&positions)
            && channels.is_multiple_of(4)
            && channels.is_multiple_of(groups)
            && groups <= MOST_GROUPS as usize
    }

    /// Positions of a workgroup, and workgroups of a batch, by the kind of dispatch.
    fn chunks(&self, kind: usize, caps: &Capabilities) -> [u32; 2] {
        let (positions, batches) = (self.positions as u64, self.batches as u64);
        let quads = positions * (self.channels / 4) as u64;
        let most = u64::from(caps.compute_units) * WORKGROUPS[kind] / batches;
        let most = most.min(u64::from(caps.max_groups[0]) / batches).max(1);
        let threads = u64::from(threads(caps));
        let chunks = (quads / (threads * QUADS[kind])).clamp(1, most).min(positions);
        let chunk = positions.div_ceil(chunks);
        [chunk, positions.div_ceil(chunk)].map(|size| size as u32)
    }
}

fn threads(caps: &Capabilities) -> u32 {
    let wanted = if caps.is_software() { 64 } else { THREADS };
    let fits = (caps.shared_memory - SHARED[1]) / SHARED[0];
    wanted.min(caps.max_workgroup).min(1 << fits.ilog2())
}

/// Encodes the norm.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn encode(ctx: &mut Ctx<'_>, norm: &GroupNorm) -> Result<()> {
    let (sizes, caps) = (norm.sizes, ctx.capabilities());
    let [sums, apply] = [0, 1].map(|kind| sizes.chunks(kind, caps));
    let words = sizes.batches as u64 * u64::from(sums[1]) * sizes.groups as u64 * 2;
    let parts = ctx.scratch(words * 4)?;
    let [weight, bias] = norm.affine.unwrap_or_default();
    let push = Push {
        x: norm.x.address,
        weight: weight.address,
        bias: bias.address,
        result: norm.result.address,
        parts: parts.address,
        positions: sizes.positions as u32,
        channels: sizes.channels as u32,
        groups: sizes.groups as u32,
        splits: sums[1],
        chunk: sums[0],
        chunks: sums[1],
        eps: norm.eps,
    };
    run(ctx, norm, &push, 0, &[norm.x.region], parts)?;
    let push = Push { chunk: apply[0], chunks: apply[1], ..push };
    let flag = |on: bool, flag: u32| if on { flag } else { 0 };
    let flags = APPLY_FLAG | flag(norm.affine.is_some(), AFFINE_FLAG) | flag(norm.silu, SILU_FLAG);
    let reads = [norm.x.region, parts, weight.region, bias.region];
    run(ctx, norm, &push, flags, &reads, norm.result.region)
}

fn run(
    ctx: &mut Ctx<'_>,
    norm: &GroupNorm,
    push: &Push,
    flags: u32,
    reads: &[Region],
    writes: Region,
) -> Result<()> {
    let workgroup = threads(ctx.capabilities());
    let constants = Constants { workgroup, dtype: norm.dtype as u32, flags };
    let pipeline = ctx.pipeline(NORM_GROUP, &constants);
    let groups = [norm.sizes.batches as u32 * push.chunks, 1, 1];
    ctx.dispatch(&Dispatch { pipeline: &pipeline, push, groups, reads, writes: &[writes] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_fit_into_shared_memory() {
        for (shared_memory, expected) in [(16 << 10, 256), (32 << 10, 512), (48 << 10, 512)] {
            let caps = Capabilities { shared_memory, ..Capabilities::default() };
            assert_eq!(threads(&caps), expected);
            let sizes = Sizes { batches: 1 << 17, positions: 1, channels: 4, groups: 1 };
            assert!(!sizes.fit(&caps));
        }
    }

    #[test]
    fn chunks_cover_all_positions() {
        let caps = Capabilities { compute_units: 132, ..Capabilities::default() };
        for positions in [1, 7, 64, 4096, 262_144] {
            for batches in [1, 2, 300] {
                let sizes = Sizes { batches, positions, channels: 128, groups: 32 };
                assert!(sizes.fit(&caps));
                for kind in 0..2 {
                    let [chunk, chunks] = sizes.chunks(kind, &caps).map(|size| size as usize);
                    assert!(chunk * chunks >= positions && chunk * (chunks - 1) < positions);
                    assert!(chunks == 1 || batches * chunks <= 132 * 4);
                }
            }
        }
    }
}
