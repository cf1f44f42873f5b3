//! Latent attention of one query token (`attention/latent.comp`): the heads share keys that are latent
//! features, which are the values, too, and others with positions.

use mlx_vulkan_core::{Dtype, Result};
use smallvec::SmallVec;

use super::decode::Angle;
use crate::kernels::{
    Capabilities, Ctx, Region,
    layouts::attention_latent::{
        ATTENTION_LATENT, Constants, DIVISORS_FLAG, Push, SPLIT_FLAG, TRADITIONAL_FLAG,
    },
    team::Team,
};
use crate::runtime::commit::Call;

/// Subgroups of a workgroup: what they have of a head's sums fits into 32 KiB.
const SUBGROUPS: u32 = 8;
/// Most latent features: a lane has eight of them, or, of 32 lanes, sixteen.
const MOST_LATENT: usize = 512;
/// Heads of a workgroup, at most; a lane has their queries and sums in registers.
const HEADS: u32 = 2;
/// Keys of a workgroup from which on others help.
const KEYS: u32 = 64;
const MOST_SPLITS: u32 = 16;

/// The attention of a token, with the norm and the rotations before it and the new rows of both caches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Latent {
    /// Latent queries (heads, latent), and those with positions, `query_head` elements apart.
    pub(crate) queries: [u64; 2],
    pub(crate) query_head: u32,
    /// The new key's parts before norm and rotation, and the norm's weight.
    pub(crate) key: [u64; 2],
    pub(crate) weight: u64,
    pub(crate) eps: f32,
    pub(crate) angle: Angle,
    /// The caches of latent features and of those with positions, rows one after another.
    pub(crate) caches: [u64; 2],
    /// (heads, latent), dense.
    pub(crate) result: u64,
    pub(crate) heads: u32,
    /// Keys, the new one included.
    pub(crate) count: u32,
    /// Latent features, and those with positions.
    pub(crate) widths: [u32; 2],
    /// What products of latent features and of the others are multiplied with.
    pub(crate) scales: [f32; 2],
    pub(crate) dtype: Dtype,
}

/// Whether the kernel serves latent features and so many with positions.
pub(crate) fn serves([latent, rotated]: [usize; 2], dtype: Dtype, caps: &Capabilities) -> bool {
    let halves = dtype.is_floating() && dtype.size() == 2;
    let whole = [latent, rotated].iter().all(|width| width.is_multiple_of(8));
    let fits = (8..=MOST_LATENT).contains(&latent) && (8..=128).contains(&rotated);
    // Queries and the new key, and what subgroups have of one head.
    let (heads, subgroups) = (HEADS as usize, SUBGROUPS as usize);
    let floats = (heads + 1) * (latent + rotated) + subgroups * (latent + 2 * heads) + 1;
    halves
        && whole
        && fits
        && 4 * floats <= caps.shared_memory as usize
        && Team::of(caps, true).subgroups
        && caps.max_workgroup >= workgroup(caps)
}

fn workgroup(caps: &Capabilities) -> u32 {
    SUBGROUPS * caps.subgroup_size
}

/// Encodes the attention.
///
/// # Errors
/// When memory or the device fails, or the driver refuses the pipeline.
pub(crate) fn encode(
    ctx: &mut Ctx<'_>,
    a: &Latent,
    reads: &[Region],
    writes: &[Region],
) -> Result<()> {
    let caps = ctx.capabilities();
    let (subgroup, workgroup) = (caps.subgroup_size, workgroup(caps));
    let heads = if a.heads.is_multiple_of(HEADS) { HEADS } else { 1 };
    let blocks = a.heads / heads;
    let most = (caps.compute_units.max(1) / blocks).clamp(1, MOST_SPLITS);
    let splits = a.count.div_ceil(KEYS).clamp(1, most);
    let bit = |on: bool, flag: u32| if on { flag } else { 0 };
    let [latent, rotated] = a.widths;
    let constants = Constants {
        workgroup,
        dtype: a.dtype as u32,
        subgroup,
        latent,
        rotated,
        heads,
        flags: bit(a.angle.traditional, TRADITIONAL_FLAG)
            | bit(a.angle.divisors, DIVISORS_FLAG)
            | bit(splits > 1, SPLIT_FLAG),
    };
    let (mut writes, mut for_splits): (SmallVec<[Region; 6]>, _) = (writes.into(), [0; 2]);
    if splits > 1 {
        let bytes = u64::from(a.heads * splits) * u64::from(latent + 4) * 4;
        let (parts, counters) = (ctx.scratch(bytes)?, ctx.counters(blocks.into())?);
        for_splits = [parts.address, counters.address];
        writes.extend([parts, counters]);
    }
    let ([latent_q, rotated_q], [latent_key, rotated_key]) = (a.queries, a.key);
    let ([latents, keys], [latent_scale, rotated_scale]) = (a.caches, a.scales);
    let [parts, counters] = for_splits;
    let push = Push {
        latent_q,
        rotated_q,
        latent_key,
        rotated_key,
        weight: a.weight,
        frequencies: a.angle.frequencies,
        offset: a.angle.offset,
        latents,
        keys,
        result: a.result,
        parts,
        counters,
        query_head: a.query_head,
        count: a.count,
        latent_scale,
        rotated_scale,
        eps: a.eps,
        position_scale: a.angle.scale,
    };
    let pipeline = ctx.pipeline_with_subgroup(ATTENTION_LATENT, &constants, subgroup);
    ctx.encode(Call::new(pipeline, &push, [splits, blocks, 1]), reads, &writes)
}
