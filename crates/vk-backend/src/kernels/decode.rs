//! Attention of one query token (`attention/decode.comp`), with the norms, rotations and cache writes that come before it.

use bytemuck::{Pod, Zeroable};
use mlx_core::{Result, backend::Output};

use super::{Ctx, Kernel, Region};
use crate::{
    device::DeviceState,
    planners::attention::{self as planner, Decode},
    window::{
        Call,
        step::{Angle, Attention, Step},
    },
};

/// Push constants of `decode.comp`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Push {
    q: u64,
    new_key: u64,
    new_value: u64,
    q_weight: u64,
    k_weight: u64,
    frequencies: u64,
    offset: u64,
    keys: u64,
    values: u64,
    result: u64,
    parts: u64,
    counters: u64,
    steps: [u32; 4],
    count: u32,
    splits: u32,
    scale: f32,
    position_scale: f32,
}

/// Where the query, the new key and its value come from when the kernel prepares them itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Projections {
    /// (heads, width).
    pub(crate) q: u64,
    /// (kv heads, width).
    pub(crate) key: u64,
    /// (kv heads, width).
    pub(crate) value: u64,
    /// Weights of the norms of queries and keys, and their eps.
    pub(crate) norms: Option<([u64; 2], f32)>,
    pub(crate) angle: Angle,
}

/// Encodes an attention alone, so that it can be fused later. `step.splits`, `parts` and `counters` are filled in here.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    plan: &Decode,
    mut step: Attention,
    reads: &[Region],
    result: Region,
    output: &Output,
) -> Result<()> {
    let mut writes = vec![result];
    step.splits = plan.splits;
    if plan.splits > 1 {
        let bytes = u64::from(step.heads * plan.splits) * u64::from(step.width + 4) * 4;
        let (parts, counters) = (ctx.scratch(bytes)?, ctx.counters(step.heads.into())?);
        (step.parts, step.counters) = (parts.address, counters.address);
        writes.extend([parts, counters]);
    }
    ctx.encode_later(Step::Attention(step), reads, &writes, output)
}

/// The dispatch of an attention.
///
/// # Errors
/// When the driver refuses the pipeline.
pub(crate) fn encode(
    device: &DeviceState,
    step: &Attention,
    fused: Option<&Projections>,
) -> Result<Call> {
    let caps = device.capabilities();
    let group = step.heads / step.kv_heads;
    let plan = planner::decode_shape(step.width, [step.kv_heads, group], step.splits, caps);
    let norms = fused.and_then(|f| f.norms);
    let angle = fused.map(|f| f.angle);
    let push = Push {
        q: fused.map_or(step.q, |f| f.q),
        new_key: fused.map_or(0, |f| f.key),
        new_value: fused.map_or(0, |f| f.value),
        q_weight: norms.map_or(0, |n| n.0[0]),
        k_weight: norms.map_or(0, |n| n.0[1]),
        frequencies: angle.map_or(0, |a| a.frequencies),
        offset: angle.map_or(0, |a| a.offset),
        keys: step.keys,
        values: step.values,
        result: step.result,
        parts: step.parts,
        counters: step.counters,
        steps: step.steps,
        count: step.count,
        splits: step.splits,
        scale: step.scale,
        position_scale: angle.map_or(1.0, |a| a.scale),
    };
    let bit = |on: bool, flag: u32| if on { flag } else { 0 };
    let flags = bit(fused.is_some(), 1)
        | bit(norms.is_some(), 2)
        | bit(angle.is_some_and(|a| a.traditional), 4)
        | bit(angle.is_some_and(|a| a.divisors), 8)
        | bit(step.splits > 1, 16);
    let eps = norms.map_or(0, |n| n.1.to_bits());
    let constants =
        [plan.workgroup, step.dtype, step.width, plan.subgroup, plan.heads, group, flags, eps];
    let pipeline = device.pipelines.get(Kernel::attention_decode, &constants, plan.subgroup)?;
    let groups = [step.splits, group / plan.heads, step.kv_heads];
    Ok(Call::new(pipeline, bytemuck::bytes_of(&push), groups))
}
