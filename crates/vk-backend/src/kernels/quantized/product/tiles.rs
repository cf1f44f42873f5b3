//! Products of many rows by tiles, which unpack words as they load them, or after all of them were unpacked.

use mlx_vulkan_core::{Dtype, Result};
use smallvec::SmallVec;

use super::{
    fields::{self, Fields},
    operands::Operands,
};
use crate::{
    kernels::{
        Ctx, Dispatch, Region,
        layouts::{quantized_qmm_lanes, quantized_qmm_matrix, quantized_qmm_tile},
        matmul::{
            self, A_ALONG_K, A_VECTOR, B_ALONG_K, B_VECTOR, GROUPED, GemmPush, lanes_constants,
            matrix_constants, planner::Gemm, tile_constants,
        },
        operands::{Lists, Picks},
        quantized::{dequantize_into, format_of},
    },
    shaders::KernelOf,
};

/// Products with a packed matrix on cooperative matrices, by dtype: float16 first.
pub(in crate::kernels) const MATRIX: [KernelOf<quantized_qmm_matrix::Constants, GemmPush>; 2] =
    [quantized_qmm_matrix::QMM_MATRIX_FLOAT16, quantized_qmm_matrix::QMM_MATRIX_BFLOAT16];

/// Tiles that unpack words as they load them.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn packed(ctx: &mut Ctx<'_>, o: &Operands, plan: Gemm) -> Result<()> {
    // Where they fit, parts of k have slices of 32: those are whole words, of any number of bits.
    let plan = match plan {
        Gemm::Tile(tile, splits) if splits > 1 => {
            let deep = matmul::Tile { bk: 32, ..tile };
            let fits = deep.shared() <= ctx.capabilities().shared_memory;
            Gemm::Tile(if fits { deep } else { tile }, splits)
        }
        other => other,
    };
    let (ndim, walk) = o.walk(ctx, false)?;
    let p = &o.product;
    let mut push = GemmPush {
        a: o.x.address,
        b: o.words.address,
        c: o.scales.address,
        result: o.result.address,
        walk,
        extra: o.biases.address,
        lda: p.inner as i64,
        m: p.rows as u32,
        n: p.outputs as u32,
        k: p.inner as u32,
        batches: p.batches as u32,
        ndim,
        splits: 1,
        ..GemmPush::default()
    };
    let matrices = matches!(plan, Gemm::Matrix(..));
    let vector = if matrices { 16 } else { 4 * o.dtype.size() as u64 };
    // Packed rows are multiples of 32 elements; those of x are as long as k, which is the other axis of
    // a matrix that is not transposed.
    let row = (p.inner * o.dtype.size()) as u64;
    let a_vector = o.x.is_aligned(vector) && row.is_multiple_of(vector);
    let words_vector = matrices && o.words.is_aligned(16);
    let bit = |on: bool, flag: u32| if on { flag } else { 0 };
    let flags = A_ALONG_K
        | bit(o.is_grouped(), GROUPED)
        | bit(p.transpose, B_ALONG_K)
        | bit(a_vector, A_VECTOR)
        | bit(words_vector, B_VECTOR);
    if let Gemm::Matrix(tile, splits) = plan
        && tile.fields
    {
        push.splits = splits;
        let row_groups = o.picks.as_ref().map_or(0, Picks::groups);
        let is_aligned = [o.scales, o.biases].iter().all(|at| at.is_aligned(16));
        let (dtype, packing) = (o.dtype, o.packing);
        let fields = Fields { tile, dtype, flags, packing, is_aligned, row_groups };
        return fields::encode(ctx, fields, &push, &o.reads(), &[o.result.region]);
    }
    let splits = match plan {
        Gemm::Tile(_, splits) | Gemm::Matrix(_, splits) => splits,
        Gemm::Lanes { .. } => 1,
    };
    if splits == 1 {
        return dispatch(ctx, o, plan, o.dtype, flags, &push, o.result.region);
    }
    let count = (p.batches * p.rows * p.outputs) as u64;
    let parts = ctx.scratch(count * u64::from(splits) * 4)?;
    (push.result, push.splits) = (parts.address, splits);
    dispatch(ctx, o, plan, Dtype::Float32, flags, &push, parts)?;
    matmul::sum_parts(ctx, parts, splits, count, o.dtype, o.result)
}

/// The matrix, or all that rows pick, dequantized into scratch memory, then a dense product.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn dequantized(ctx: &mut Ctx<'_>, o: &Operands, plan: Gemm) -> Result<()> {
    let p = &o.product;
    let matrices = o.picks.as_ref().map_or(1, |picks| picks.counts[1]);
    let count = (matrices * p.outputs * p.inner) as u64;
    let matrix = ctx.scratch(count * o.dtype.size() as u64)?;
    dequantize_into(ctx, o.packing, o.dtype, o.parts(), count, matrix)?;
    let push = GemmPush {
        a: o.x.address,
        b: matrix.address,
        result: o.result.address,
        walk: o.packed_picks(ctx, [1, p.outputs * p.inner])?.unwrap_or(0),
        lda: p.inner as i64,
        ldb: p.inner as i64,
        m: p.rows as u32,
        n: p.outputs as u32,
        k: p.inner as u32,
        batches: 1,
        splits: 1,
        ..GemmPush::default()
    };
    let mut reads: SmallVec<[Region; 5]> = SmallVec::from_slice(&[o.x.region, matrix]);
    reads.extend(o.picks.iter().flat_map(Picks::reads));
    let lists = o.picks.clone().map(Lists::Picks);
    matmul::dense_matrix(ctx, plan, o.dtype.into(), push, lists.as_ref(), &reads, o.result)
}

fn dispatch(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    plan: Gemm,
    out: Dtype,
    flags: u32,
    push: &GemmPush,
    writes: Region,
) -> Result<()> {
    let caps = ctx.capabilities();
    let (dtype, gathers) = (o.dtype, usize::from(o.picks.is_some()));
    let row_groups = o.picks.as_ref().map_or(0, Picks::groups);
    let format = format_of(o.packing);
    let (bits, group) = (o.packing.bits() as u32, o.packing.group_size() as u32);
    let (pipeline, groups) = match plan {
        Gemm::Tile(tile, _) => {
            use quantized_qmm_tile::{QMM_TILE, QMM_TILE_GATHER};
            let constants = tile_constants!(
                quantized_qmm_tile, tile, dtype, out, flags, bits: bits, group: group, format: format
            );
            let pipeline = ctx.pipeline([QMM_TILE, QMM_TILE_GATHER][gathers], &constants);
            (pipeline, matmul::tile_grid(&tile, push, row_groups, caps))
        }
        Gemm::Matrix(tile, _) => {
            let constants = matrix_constants!(
                quantized_qmm_matrix, tile, dtype, out, flags, bits: bits, group: group,
                format: format
            );
            let floats = [quantized_qmm_matrix::QMM_MATRIX_FLOATS; 2];
            let kernels = if o.packing.affine().is_some() { MATRIX } else { floats };
            let pipeline = matmul::matrix_pipeline(ctx, kernels, dtype, &constants);
            (pipeline, matmul::matrix_grid(&tile, push, row_groups, caps))
        }
        Gemm::Lanes { tm, tn } => {
            use quantized_qmm_lanes::{QMM_LANES, QMM_LANES_GATHER};
            let size = caps.subgroup_size;
            let constants = lanes_constants!(
                quantized_qmm_lanes, size, [tm, tn], dtype, out, flags, bits: bits, group: group,
                format: format
            );
            let pipeline = ctx.pipeline([QMM_LANES, QMM_LANES_GATHER][gathers], &constants);
            (pipeline, matmul::lanes_grid(tm, tn, push, caps))
        }
    };
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push,
        groups,
        reads: &o.reads(),
        writes: &[writes],
    })
}
