//! Products of few rows, which read each packed word once.

use mlx_vulkan_core::Result;

use super::operands::Operands;
use crate::{
    kernels::{
        Ctx, Dispatch,
        layouts::{matvec_vecmat, quantized_qmv as qmv},
        matvec::{self, Format, Fused, Weights, planner},
        quantized::format_of,
        team::Team,
    },
    runtime::pipelines::PipelineOf,
};

/// Whether it is a product that fusions know: with one matrix, aligned.
pub(super) fn is_describable(o: &Operands) -> bool {
    o.product.transpose
        && o.product.batches == 1
        && o.picks.is_none()
        && o.stride == 0
        && o.x.is_aligned(16)
        && o.words.is_aligned(16)
}

/// Whether the kernel that fusions are made of serves: whole chunks.
pub(super) fn is_fusable(ctx: &Ctx<'_>, o: &Operands) -> bool {
    let p = &o.product;
    is_describable(o)
        && planner::serves(
            p.rows,
            p.inner,
            o.packing.bits(),
            o.dtype.size(),
            ctx.capabilities(),
            ctx.config(),
        )
}

/// The same as fusions describe it.
pub(super) fn fused(o: &Operands) -> Fused {
    let format = Format::packed(o.dtype, o.packing);
    let matrix = Weights {
        words: o.words.address,
        scales: o.scales.address,
        biases: o.biases.address,
        result: o.result.address,
        outputs: o.product.outputs as u32,
        bias: None,
    };
    Fused::of(o.x.address, o.product.rows, o.product.inner, format, matrix)
}

/// A team of threads for each row of the matrix.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn mat_vec(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    team: Team,
    workgroup: u32,
    rows: u32,
    outputs: u32,
) -> Result<()> {
    let p = &o.product;
    let picks = o.packed_picks(ctx, [p.rows, p.outputs])?;
    let push = qmv::Push {
        x: o.x.address,
        words: o.words.address,
        scales: o.scales.address,
        biases: o.biases.address,
        result: o.result.address,
        picks: picks.unwrap_or(0),
        rows: p.rows as u32,
        outputs: p.outputs as u32,
        inner: p.inner as u32,
        batches: p.batches as u32,
        stride: o.stride as u32,
    };
    let aligned = u32::from(o.x.is_aligned(16)) | (u32::from(o.words.is_aligned(16)) << 1);
    let kernel = match (team.subgroups, picks.is_some()) {
        (true, false) => qmv::QMV_SUBGROUP,
        (false, false) => qmv::QMV_SHARED,
        (true, true) => qmv::QMV_GATHER_SUBGROUP,
        (false, true) => qmv::QMV_GATHER_SHARED,
    };
    let (bits, group) = (o.packing.bits() as u32, o.packing.group_size() as u32);
    let (dtype, subgroup) = (o.dtype as u32, team.subgroup);
    let format = format_of(o.packing);
    let constants =
        qmv::Constants { workgroup, dtype, bits, group, subgroup, rows, outputs, aligned, format };
    let pipeline = ctx.team_pipeline(kernel, &constants, team);
    let blocks = p.outputs.div_ceil(outputs as usize) as u64;
    let across = ctx.capabilities().groups_1d(blocks, u64::from(team.teams(workgroup)));
    dispatch(ctx, o, &pipeline, &push, [across, rows])
}

/// Rows of the matrix one after the other, for its columns; the matrix is not transposed.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn vec_mat(ctx: &mut Ctx<'_>, o: &Operands, rows: u32) -> Result<()> {
    let p = &o.product;
    let (ndim, walk) = o.walk(ctx, true)?;
    let push = matvec_vecmat::Push {
        matrix: o.words.address,
        x: o.x.address,
        c: o.scales.address,
        extra: o.biases.address,
        result: o.result.address,
        walk,
        x_row: p.inner as i64,
        x_stride: 1,
        columns: p.outputs as u32,
        vectors: p.rows as u32,
        k: p.inner as u32,
        batches: p.batches as u32,
        ndim,
        ..matvec_vecmat::Push::default()
    };
    let (workgroup, across) = matvec::strided::vec_mat_threads(ctx.capabilities(), p.outputs);
    let (bits, group) = (o.packing.bits() as u32, o.packing.group_size() as u32);
    let (dtype, vectors) = (o.dtype as u32, rows);
    let (flags, format) = (0, format_of(o.packing));
    let constants =
        matvec_vecmat::Constants { workgroup, dtype, flags, vectors, across, bits, group, format };
    let pipeline = ctx.pipeline(matvec_vecmat::QUANTIZED_VECMAT, &constants);
    let blocks = p.outputs.div_ceil(8 * across as usize) as u64;
    let across = ctx.capabilities().groups_1d(blocks, 1);
    dispatch(ctx, o, &pipeline, &push, [across, rows])
}

/// Encodes so many workgroups across the outputs for as many rows at a time.
fn dispatch<P: bytemuck::Pod>(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    pipeline: &PipelineOf<P>,
    push: &P,
    [across, rows]: [u32; 2],
) -> Result<()> {
    let (p, most) = (&o.product, ctx.capabilities().max_groups);
    let down = (p.rows as u32).div_ceil(rows).min(most[1]);
    ctx.dispatch(&Dispatch {
        pipeline,
        push,
        groups: [across, down, (p.batches as u32).min(most[2])],
        reads: &o.reads(),
        writes: &[o.result.region],
    })
}
