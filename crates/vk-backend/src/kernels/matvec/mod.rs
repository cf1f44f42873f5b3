//! Few rows times matrices that share them, with what comes before and after (`matvec/fused.comp`;
//! matrices of 4 bits `matvec/matrix.comp`). Products of many rows are described in the same way.
//!
//! # Int8 rows
//!
//! A product of few rows with a quantized matrix is bound by instructions before it is bound by
//! memory: unpacking a field and adding its product in float32 takes two and a half. Where a device
//! multiplies four bytes at once (`OpSDot`; gate `MLX_VK_ENABLE_INTEGER_DOTS`), rows of 16-bit
//! floats come to shared memory as integers of 16 bits, each split into two signed bytes.
//!
//! - The unit is 1/32256 of the largest element of a chunk: 32 or 64 elements, never more than
//!   share a scale.
//! - Fields of 4 bits become bytes by one shift and two masks for eight of them. Fields of 8 bits
//!   become signed bytes by flipping a bit, for which 128 times the scale makes up.
//! - The sum of a chunk's products is exact. Scale, unit, bias and the sums over chunks are
//!   float32.
//! - An element loses at most half a unit: as much as float16 loses of the chunk's largest element,
//!   and far less than bfloat16 does.
//! - Elements that are not finite give results that are not finite.
//! - Rows of float32, and fields of other widths, are multiplied in float32.
//!
//! The kernels are modules of their own (`matvec_fused_dots`, `interpreter_dots`), because devices
//! without the feature cannot load them.

pub(crate) mod fused;
pub(crate) mod planner;
pub(super) mod strided;

use mlx_vulkan_core::{Dtype, Result};

use super::{
    Ctx, Region,
    fragment::fragment,
    layouts::{
        matvec::{AFTER_GATE, AFTER_NOTHING, AFTER_RESIDUAL},
        matvec_fused::{self as lanes, Push},
        matvec_matrix as matrices,
    },
};
use crate::runtime::commit::Call;
pub(crate) use fused::{After, Format, Fused, MOST_MATRICES, Norm, Weights};
use planner::MatrixPlan;

/// Encodes a product, as a step where the stream makes runs of such.
///
/// # Errors
/// When the driver refuses the pipeline, or the device fails.
pub(crate) fn encode(
    ctx: &mut Ctx<'_>,
    fused: &Fused,
    reads: &[Region],
    writes: &[Region],
) -> Result<()> {
    if ctx.runs().is_some_and(|runs| runs.serves_product(fused)) {
        return ctx.put_off(fused.clone(), reads, writes);
    }
    dispatch(ctx, fused, reads, writes)
}

/// Encodes a product as a dispatch.
///
/// # Errors
/// When the driver refuses the pipeline, or the device fails.
pub(crate) fn dispatch(
    ctx: &mut Ctx<'_>,
    fused: &Fused,
    reads: &[Region],
    writes: &[Region],
) -> Result<()> {
    let call = match on_matrices(ctx, fused) {
        Some(plan) => encode_matrix(ctx, fused, &plan),
        None => encode_lanes(ctx, fused),
    }?;
    ctx.encode(call, reads, writes)
}

/// The plan for cooperative matrices, where the product can go there.
fn on_matrices(ctx: &Ctx<'_>, fused: &Fused) -> Option<MatrixPlan> {
    let Format { dtype, bits, group } = fused.format;
    let dtype = [Dtype::Float16, Dtype::Bfloat16].into_iter().find(|&d| d as u32 == dtype)?;
    let aligned = |m: &Weights| (m.words | m.scales | m.biases).is_multiple_of(16);
    let possible = ctx.config().enable_coopmat_matvec && bits == planner::MATRIX_BITS;
    if !possible || !fused.matrices().iter().all(aligned) {
        return None;
    }
    let fragment = fragment(dtype, [0; 2], ctx.capabilities(), ctx.config())?;
    planner::plan_matrix(&fused.product(), fused.inner, group, fragment, ctx.capabilities())
}

fn encode_matrix(ctx: &Ctx<'_>, fused: &Fused, plan: &MatrixPlan) -> Result<Call> {
    let (push, after) = push_of(fused, planner::MATRIX_BLOCK);
    let constants = matrices::Constants {
        workgroup: plan.workgroup,
        group: fused.format.group,
        rows: fused.rows,
        splits: plan.splits,
        norm: fused.norm.is_some(),
        after,
        inner: fused.inner,
        eps: fused.norm.map_or(0, |n| n.eps.to_bits()),
        fn_: plan.columns,
        depth: plan.depth,
        fragments: u32::from(ctx.config().enable_known_fragments),
    };
    let kernel = match fused.format.dtype == Dtype::Float16 as u32 {
        true => matrices::MATVEC_MATRIX_FLOAT16,
        false => matrices::MATVEC_MATRIX_BFLOAT16,
    };
    let pipeline = ctx.pipeline_with_subgroup(kernel, &constants, planner::MATRIX_SUBGROUP);
    let groups = push.ends[2].div_ceil(plan.teams()).min(plan.most_groups);
    Ok(Call::new(pipeline, &push, [groups, 1, 1]))
}

/// The push constants for blocks of `block` results, and the number of what comes after.
fn push_of(fused: &Fused, block: u32) -> (Push, u32) {
    let mut ends = [0; MOST_MATRICES];
    let mut blocks = 0;
    for (end, matrix) in ends.iter_mut().zip(&fused.matrices) {
        blocks += matrix.outputs / block;
        *end = blocks;
    }
    let mut matrices = fused.matrices.map(|m| lanes::Matrix {
        words: m.words,
        scales: m.scales,
        biases: m.biases,
        result: m.result,
    });
    let after = match fused.after {
        After::Nothing => AFTER_NOTHING,
        After::Residual(address) => {
            matrices[1].words = address;
            AFTER_RESIDUAL
        }
        After::Gate => {
            // A team makes results of both.
            ends = [ends[0]; MOST_MATRICES];
            AFTER_GATE
        }
    };
    let weight = fused.norm.map_or(0, |n| n.weight);
    (Push { x: fused.x, weight, matrices, ends, one: 1f32.to_bits() }, after)
}

fn encode_lanes(ctx: &Ctx<'_>, fused: &Fused) -> Result<Call> {
    let caps = ctx.capabilities();
    let asked = ctx.config().matvec_split_k;
    let Format { dtype, bits, group } = fused.format;
    let int8_rows = planner::takes_int8_rows(bits, dtype, caps, ctx.config());
    let plan = planner::plan(&fused.product(), fused.inner, bits, asked, caps);
    let (push, after) = push_of(fused, plan.outputs);
    let constants = lanes::Constants {
        workgroup: plan.workgroup,
        dtype,
        bits,
        group,
        subgroup: plan.subgroup,
        rows: fused.rows,
        outputs: plan.outputs,
        norm: fused.norm.is_some(),
        after,
        inner: fused.inner,
        eps: fused.norm.map_or(0, |n| n.eps.to_bits()),
        splits: plan.splits,
    };
    let kernel = if int8_rows { lanes::MATVEC_FUSED_DOTS } else { lanes::MATVEC_FUSED };
    let pipeline = ctx.pipeline_with_subgroup(kernel, &constants, plan.subgroup);
    let groups = [caps.groups_1d(push.ends[2].into(), plan.teams().into()), 1, 1];
    Ok(Call::new(pipeline, &push, groups))
}
