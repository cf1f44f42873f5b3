//! The dispatches of an attention of several queries.

use mlx_vulkan_core::Result;

use super::{Attention, bit, mask_strides, planner::LanesPlan, prefill::Prefill};
use crate::{
    kernels::{
        Ctx, Dispatch, Operand, Region,
        layouts::{
            attention::{self as lanes, Push, Strides as StridesOf},
            attention_combine as combine, attention_matrix as matrices,
        },
        matmul::matrix_pipeline,
        operands::Dtypes,
    },
    runtime::pipelines::PipelineOf,
};

/// The kernel for several queries.
#[derive(Debug)]
pub(super) enum Way {
    /// `attention.comp`, for everything.
    Lanes(LanesPlan),
    /// `matrix.comp`.
    Matrix(Prefill),
}

impl Way {
    pub(super) fn splits(&self) -> u32 {
        match self {
            Way::Lanes(plan) => plan.splits,
            Way::Matrix(plan) => plan.splits,
        }
    }
}

/// Encodes an attention, and joins its parts where keys are split.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn run(
    ctx: &mut Ctx<'_>,
    a: &Attention<'_>,
    way: &Way,
    out: [i64; 3],
    result: Operand,
) -> Result<()> {
    let s = &a.sizes;
    let rows = (s.batches * s.heads * s.queries) as u64;
    if way.splits() <= 1 {
        return dispatch(ctx, a, way, out, result.region, result.address, Region::default());
    }
    let splits = u64::from(way.splits());
    let parts = ctx.scratch(rows * s.value_width as u64 * splits * 4)?;
    let maxima = ctx.scratch(rows * splits * 8)?;
    dispatch(ctx, a, way, out, parts, parts.address, maxima)?;
    let push = combine::Push {
        parts: parts.address,
        maxima: maxima.address,
        result: result.address,
        sinks: a.sinks.address,
        out_batch: out[0],
        out_head: out[1],
        out_row: out[2],
        batches: s.batches as u32,
        heads: s.heads as u32,
        queries: s.queries as u32,
        value_width: s.value_width as u32,
        splits: way.splits(),
    };
    let group = ctx.capabilities().elementwise_workgroup().min(128);
    let (dtype, splits) = (a.dtypes.result as u32, way.splits().next_multiple_of(16));
    let constants = combine::Constants { workgroup: group, dtype, splits };
    let pipeline = ctx.pipeline(combine::ATTENTION_COMBINE, &constants);
    ctx.run(&pipeline, &push, rows, 1, &[parts, maxima, a.sinks.region], &[result.region])
}

/// Strides of q, k, v, mask and result.
fn strides(a: &Attention<'_>, [out_batch, out_head, out_row]: [i64; 3]) -> StridesOf {
    let [mask_batch, mask_head, mask_row, mask_key] = mask_strides(a.mask);
    let [[q_batch, q_head, q_row], [k_batch, k_head, k_row], [v_batch, v_head, v_row]] =
        [a.q.strides, a.k.strides, a.v.strides];
    StridesOf {
        q_batch,
        q_head,
        q_row,
        k_batch,
        k_head,
        k_row,
        v_batch,
        v_head,
        v_row,
        mask_batch,
        mask_head,
        mask_row,
        mask_key,
        out_batch,
        out_head,
        out_row,
    }
}

fn dispatch(
    ctx: &mut Ctx<'_>,
    a: &Attention<'_>,
    way: &Way,
    out: [i64; 3],
    result: Region,
    address: u64,
    maxima: Region,
) -> Result<()> {
    let s = &a.sizes;
    let push = Push {
        q: a.q.at.address,
        k: a.k.at.address,
        v: a.v.at.address,
        mask: a.mask_at.address,
        result: address,
        maxima: maxima.address,
        strides: ctx.args(bytemuck::bytes_of(&strides(a, out)))?,
        sinks: a.sinks.address,
        factors: a.factors.address,
        batches: s.batches as u32,
        heads: s.heads as u32,
        kv_heads: s.kv_heads as u32,
        queries: s.queries as u32,
        keys: s.keys as u32,
        key_width: s.key_width as u32,
        value_width: s.value_width as u32,
        splits: way.splits(),
        scale: a.scale,
    };
    let (pipeline, items) = match way {
        Way::Lanes(plan) => lanes_pipeline(ctx, a, plan),
        Way::Matrix(plan) => prefill_pipeline(ctx, a, plan),
    };
    let groups = [ctx.capabilities().groups_1d(items * u64::from(way.splits()), 1), 1, 1];
    let [q, k, v] = [&a.q, &a.k, &a.v].map(|heads| heads.at.region);
    let reads = [q, k, v, a.mask_at.region, a.sinks.region, a.factors];
    let writes = [result, maxima];
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push: &push,
        groups,
        reads: &reads,
        writes: &writes,
    })
}

/// The pipeline of `attention.comp`, and the workgroups of work without splits.
fn lanes_pipeline(ctx: &Ctx<'_>, a: &Attention<'_>, plan: &LanesPlan) -> (PipelineOf<Push>, u64) {
    let (s, dtype) = (&a.sizes, a.dtypes.operands);
    let flags =
        bit(a.q.quads(s.key_width, dtype) && a.k.quads(s.key_width, dtype), lanes::K_VECTOR_FLAG)
            | bit(a.v.quads(s.value_width, dtype), lanes::V_VECTOR_FLAG)
            | bit(plan.splits > 1, lanes::SPLIT_FLAG);
    let quads = |width: usize| width.div_ceil(4).max(1) as u32;
    let constants = lanes::Constants {
        workgroup: plan.workgroup,
        dtype: dtype as u32,
        flags,
        rows: plan.rows,
        subgroup: plan.team.subgroup,
        keys: plan.keys,
        parts: plan.parts,
        key_quads: quads(s.key_width),
        value_quads: quads(s.value_width),
        mask: a.kind,
    };
    let kernel =
        if plan.team.subgroups { lanes::ATTENTION_SUBGROUP } else { lanes::ATTENTION_SHARED };
    let pipeline = ctx.team_pipeline(kernel, &constants, plan.team);
    let blocks = (s.heads / s.kv_heads * s.queries).div_ceil(plan.rows as usize);
    (pipeline, (s.batches * s.kv_heads * blocks) as u64)
}

/// The same of `matrix.comp`.
fn prefill_pipeline(ctx: &Ctx<'_>, a: &Attention<'_>, plan: &Prefill) -> (PipelineOf<Push>, u64) {
    let kernels = [matrices::ATTENTION_MATRIX_FLOAT16, matrices::ATTENTION_MATRIX_BFLOAT16];
    let Dtypes { operands, result } = a.dtypes;
    // It weighs in registers where it finds that it may.
    let flags = matrices::REGISTERS_FLAG
        | bit(plan.queries_shared, matrices::Q_SHARED_FLAG)
        | bit(plan.splits > 1, matrices::SPLIT_FLAG);
    let constants = matrices::Constants {
        workgroup: plan.threads(),
        dtype: operands as u32,
        flags,
        blocks: plan.blocks,
        subgroup: plan.subgroup,
        keys: plan.keys,
        tile_splits: plan.tile_splits,
        key_width: a.sizes.key_width as u32,
        value_width: a.sizes.value_width as u32,
        mask: a.kind,
        fm: plan.fragment.m,
        fn_: plan.fragment.n,
        fk: plan.fragment.k,
        out_dtype: result as u32,
    };
    (matrix_pipeline(ctx, kernels, operands, &constants), plan.count(&a.sizes))
}
