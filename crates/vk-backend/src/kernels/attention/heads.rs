//! Heads of many tokens, normalized, rotated and stored where an attention reads
//! them (`attention/heads.comp`).

use mlx_vulkan_core::{Dtype, Result};
use smallvec::SmallVec;

use super::decode::Angle;
pub(crate) use crate::kernels::layouts::attention_heads::Section;
use crate::kernels::{
    Capabilities, Ctx, Dispatch, Region,
    layouts::attention_heads::{self as shader, ATTENTION_HEADS, Constants, Push},
    team::Team,
};

/// Queries, keys or values: dense (batches, tokens, heads, features), and the rows that they go to.
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
    };
    let bit = |on: bool, flag: u32| if on { flag } else { 0 };
    let flags = bit(eps.is_some(), shader::NORM_FLAG)
        | bit(angle.traditional, shader::TRADITIONAL_FLAG)
        | bit(angle.divisors, shader::DIVISORS_FLAG);
    let team = Team::of(caps, true);
    let workgroup = team.workgroup(caps, 256);
    let eps = eps.map_or(0, f32::to_bits);
    let (dtype, width, subgroup) = (*dtype as u32, *width as u32, team.subgroup);
    let constants = Constants { workgroup, dtype, flags, width, subgroup, eps };
    let pipeline = ctx.pipeline_with_subgroup(ATTENTION_HEADS, &constants, subgroup);
    // A software device finds angles once per token.
    let each = if caps.is_software() { push.heads } else { EACH };
    let blocks = push.heads.div_ceil(each * team.teams(workgroup));
    let groups = [caps.groups_1d((tokens * batches) as u64, 1), blocks, 1];
    ctx.dispatch(&Dispatch { pipeline: &pipeline, push: &push, groups, reads, writes })
}
