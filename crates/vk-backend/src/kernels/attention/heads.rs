//! Heads of many tokens, normalized, rotated and stored where an attention reads
//! them (`attention/heads.comp`).

use bytemuck::{Pod, Zeroable};
use mlx_vulkan_core::{Dtype, Result};
use smallvec::SmallVec;

use super::decode::Angle;
use crate::kernels::{Capabilities, Ctx, Dispatch, Kernel, Region, team::Team};

/// Push constants of `heads.comp`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Push {
    sections: u64,
    offset: u64,
    frequencies: u64,
    count: u32,
    heads: u32,
    tokens: u32,
    batches: u32,
    scale: f32,
    zero: u32,
}

/// Queries, keys or values: dense (batches, tokens, heads, features), and the rows that they go to.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Section {
    from: u64,
    weight: u64,
    to: u64,
    to_batch: u64,
    to_head: u64,
    to_token: u64,
    heads: u32,
    turned: u32,
}

impl Section {
    /// Heads at an address, with the address of their norm's weights; normalized and
    /// rotated only if they are `turned`.
    pub(crate) fn new(from: u64, weight: u64, heads: usize, turned: bool) -> Section {
        let (heads, turned) = (heads as u32, u32::from(turned));
        Section { from, weight, to: 0, to_batch: 0, to_head: 0, to_token: 0, heads, turned }
    }

    /// Says where the first head goes, in a dense (batches, heads, rows, width).
    pub(crate) fn goes_to(&mut self, to: u64, [heads, rows, width]: [usize; 3]) {
        self.to = to;
        (self.to_batch, self.to_head) = ((heads * rows * width) as u64, (rows * width) as u64);
        self.to_token = width as u64;
    }
}

/// The heads of some tokens.
#[derive(Debug, Clone)]
pub(crate) struct Sections {
    pub(crate) sections: SmallVec<[Section; 3]>,
    pub(crate) angle: Angle,
    /// Of the norms, if there are any.
    pub(crate) eps: Option<f32>,
    pub(crate) dtype: Dtype,
    /// Tokens, batches and features of a head.
    pub(crate) sizes: [usize; 3],
}

/// Heads of a token that a subgroup takes one after the other, with the same angles.
const EACH: u32 = 2;

/// Whether the kernel serves heads of `width` features.
pub(crate) fn serves(width: usize, dtype: Dtype, caps: &Capabilities) -> bool {
    let floats = dtype.is_floating() && dtype.size() <= 4;
    floats
        && width.is_multiple_of(4)
        && (4..=256).contains(&width)
        && Team::of(caps, true).subgroups
}

/// Encodes the kernel.
///
/// # Errors
/// When memory or the device fails, or the driver refuses the pipeline.
pub(crate) fn encode(
    ctx: &mut Ctx<'_>,
    work: &Sections,
    reads: &[Region],
    writes: &[Region],
) -> Result<()> {
    let Sections { sections, angle, eps, dtype, sizes: [tokens, batches, width] } = work;
    let caps = ctx.capabilities();
    let push = Push {
        sections: ctx.args(bytemuck::cast_slice(sections))?,
        offset: angle.offset,
        frequencies: angle.frequencies,
        count: sections.len() as u32,
        heads: sections.iter().map(|s| s.heads).sum(),
        tokens: *tokens as u32,
        batches: *batches as u32,
        scale: angle.scale,
        zero: 0,
    };
    let bit = |on: bool, flag: u32| if on { flag } else { 0 };
    let flags = bit(eps.is_some(), 1) | bit(angle.traditional, 2) | bit(angle.divisors, 4);
    let team = Team::of(caps, true);
    let workgroup = team.workgroup(caps, 256);
    let eps = eps.map_or(0, f32::to_bits);
    let constants = [workgroup, *dtype as u32, flags, *width as u32, team.subgroup, eps];
    let pipeline =
        ctx.pipeline_with_subgroup(Kernel::attention_heads, &constants, team.subgroup)?;
    // A software device finds angles once per token.
    let each = if caps.is_software() { push.heads } else { EACH };
    let blocks = push.heads.div_ceil(each * team.teams(workgroup));
    let groups = [caps.groups_1d((tokens * batches) as u64, 1), blocks, 1];
    let push = bytemuck::bytes_of(&push);
    ctx.dispatch(&Dispatch { pipeline: &pipeline, push, groups, reads, writes })
}
