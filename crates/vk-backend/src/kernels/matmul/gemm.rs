//! Products of many rows and columns: `tile.comp`, `lanes.comp`, and the sum of split parts.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use mlx_vulkan_core::{Dtype, Result};

use super::{
    operands::{Lists, Matrix, Operands},
    team_pipeline,
};
use crate::{
    kernels::{
        Capabilities, Ctx, Dispatch, Kernel, Operand, Region,
        matmul::{
            matrix::MatrixTile,
            planner::{Gemm, Tile},
        },
        strided::Walk,
        team::Team,
    },
    runtime::pipelines::Pipeline,
};

/// Push constants of `gemm.glsl`.
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Push {
    pub a: u64,
    pub b: u64,
    pub c: u64,
    pub result: u64,
    pub walk: u64,
    pub extra: u64,
    pub lda: i64,
    pub ldb: i64,
    pub c_row: i64,
    pub c_column: i64,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub batches: u32,
    pub alpha: f32,
    pub beta: f32,
    pub ndim: u32,
    pub splits: u32,
}

/// Push constants of `split_sum.comp`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct SumPush {
    parts: u64,
    c: u64,
    result: u64,
    count: u64,
    walk: u64,
    alpha: f32,
    beta: f32,
    ndim: u32,
    splits: u32,
}

impl SumPush {
    fn new(parts: Region, result: Operand, count: u64, splits: u32) -> Self {
        let (parts, result) = (parts.address, result.address);
        SumPush { parts, c: 0, result, count, walk: 0, alpha: 1.0, beta: 0.0, ndim: 0, splits }
    }
}

pub(crate) const A_ALONG_K: u32 = 1;
pub(crate) const B_ALONG_K: u32 = 2;
pub(crate) const A_VECTOR: u32 = 4;
pub(crate) const B_VECTOR: u32 = 8;
pub(crate) const ADD: u32 = 16;
pub(crate) const C_VECTOR: u32 = 32;
pub(crate) const SIBLINGS: u32 = 64;
pub(crate) const GATED: u32 = 128;
pub(crate) const MATRIX: [Kernel; 2] =
    [Kernel::matmul_matrix_float16, Kernel::matmul_matrix_bfloat16];

/// Specialization constants of a plan's kernel: workgroup, dtypes, flags, tile.
pub(crate) fn constants(
    plan: Gemm,
    dtype: Dtype,
    out: Dtype,
    flags: u32,
    caps: &Capabilities,
) -> Vec<u32> {
    let (dtype, out) = (dtype as u32, out as u32);
    match plan {
        Gemm::Tile(t, _) => vec![t.threads(), dtype, out, flags, t.bm, t.bn, t.bk, t.tm, t.tn],
        Gemm::Matrix(t, _) => {
            let f = t.fragment;
            vec![
                t.threads(),
                dtype,
                out,
                flags,
                t.bm,
                t.bn,
                t.bk,
                t.wm,
                t.wn,
                f.m,
                f.n,
                f.k,
                t.subgroup,
            ]
        }
        Gemm::Lanes { tm, tn } => {
            vec![caps.subgroup_size, dtype, out, flags, caps.subgroup_size, tm, tn, 0, 0]
        }
    }
}

/// Workgroups of a tiled product; the kernel loops over what is more than the device's grid.
pub(crate) fn tile_grid(tile: &Tile, push: &Push, caps: &Capabilities) -> [u32; 3] {
    let tiles = tile.count(push.m as usize, push.n as usize, push.batches as usize)
        * u64::from(push.splits);
    [caps.groups_1d(tiles, 1), 1, 1]
}

/// Workgroups of a product on cooperative matrices; what is more than the grid is looped over.
pub(crate) fn matrix_grid(tile: &MatrixTile, push: &Push, caps: &Capabilities) -> [u32; 3] {
    let tiles = tile.count(push.m as usize, push.n as usize, push.batches as usize)
        * u64::from(push.splits);
    [caps.groups_1d(tiles, 1), 1, 1]
}

/// The pipeline of a cooperative-matrix kernel, by dtype: float16 first.
pub(crate) fn matrix_pipeline(
    ctx: &Ctx<'_>,
    kernels: [Kernel; 2],
    dtype: Dtype,
    constants: &[u32],
) -> Result<Arc<Pipeline>> {
    let kernel = kernels[usize::from(dtype == Dtype::Bfloat16)];
    let team = Team { subgroups: true, subgroup: ctx.capabilities().subgroup_size };
    team_pipeline(ctx, kernel, constants, team)
}

/// Workgroups of a product by lanes.
pub(crate) fn lanes_grid(tm: u32, tn: u32, push: &Push, caps: &Capabilities) -> [u32; 3] {
    let columns = push.n.div_ceil(caps.subgroup_size * tn);
    let tiles = u64::from(push.m.div_ceil(tm)) * u64::from(columns) * u64::from(push.batches);
    [caps.groups_1d(tiles, 1), 1, 1]
}

/// Encodes the product.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    plan: Gemm,
    dtype: Dtype,
    result: Operand,
) -> Result<()> {
    let (ndim, walk) = o.walk(ctx, [0, 1, 2])?;
    let push = Push {
        a: o.a.at.address,
        b: o.b.at.address,
        result: result.address,
        walk,
        lda: o.a.leading(),
        ldb: o.b.leading(),
        m: o.m as u32,
        n: o.n as u32,
        k: o.k as u32,
        batches: o.batches() as u32,
        ndim,
        splits: 1,
        ..Push::default()
    };
    match plan {
        Gemm::Tile(_, splits) | Gemm::Matrix(_, splits) if splits > 1 => {
            split(ctx, o, plan, dtype, push, splits, result)
        }
        _ => whole(ctx, o, plan, dtype, push, result),
    }
}

/// How the operands lie, and whether they can be loaded `vector` elements at a time; cooperative
/// matrices take no part of such a vector, so rows must have whole ones.
fn flags(o: &Operands, plan: Gemm, dtype: Dtype) -> u32 {
    let (width, whole) = if matches!(plan, Gemm::Matrix(..)) { (8, true) } else { (4, false) };
    let segments = matches!(o.lists, Some(Lists::Segments { .. }));
    let vector = |m: &Matrix, i| {
        let row = match (m.along_k, i) {
            (true, _) => o.k,
            (false, 0) => o.m,
            (false, _) => o.n,
        };
        // A segment of k may begin anywhere.
        !(segments && m.along_k)
            && m.at.is_aligned(width as u64 * dtype.size() as u64)
            && m.leading() % width as i64 == 0
            && o.batches_aligned(i, width)
            && (!whole || row.is_multiple_of(width as usize))
    };
    let bit = |on: bool, flag: u32| if on { flag } else { 0 };
    bit(o.a.along_k, A_ALONG_K)
        | bit(o.b.along_k, B_ALONG_K)
        | bit(vector(&o.a, 0), A_VECTOR)
        | bit(vector(&o.b, 1), B_VECTOR)
}

fn whole(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    plan: Gemm,
    dtype: Dtype,
    mut push: Push,
    result: Operand,
) -> Result<()> {
    let mut flags = flags(o, plan, dtype);
    if let Some(c) = &o.c {
        let quads = [c.row, o.n as i64].iter().all(|s| s % 4 == 0) && o.batches() == 1;
        let vector = quads && c.column == 1 && c.at.is_aligned(4 * dtype.size() as u64);
        flags |= if vector { ADD | C_VECTOR } else { ADD };
        (push.c, push.c_row, push.c_column) = (c.at.address, c.row, c.column);
        (push.alpha, push.beta) = (c.alpha, c.beta);
    }
    let how = How { plan, dtype, out: dtype, flags, lists: o.lists.as_ref() };
    dispatch(ctx, how, &push, &o.reads(), result.region)
}

/// A tiled product's kernel.
#[derive(Clone, Copy)]
struct How<'a> {
    plan: Gemm,
    dtype: Dtype,
    out: Dtype,
    flags: u32,
    lists: Option<&'a Lists>,
}

fn dispatch(
    ctx: &mut Ctx<'_>,
    how: How<'_>,
    push: &Push,
    reads: &[Region],
    writes: Region,
) -> Result<()> {
    let caps = ctx.capabilities();
    let constants = constants(how.plan, how.dtype, how.out, how.flags, caps);
    let (pipeline, groups) = match how.plan {
        Gemm::Tile(tile, _) => {
            let kernel = match how.lists {
                None => Kernel::matmul_tile,
                Some(Lists::Picks(_)) => Kernel::matmul_tile_gather,
                Some(Lists::Segments { .. }) => Kernel::matmul_tile_segments,
            };
            (ctx.pipeline(kernel, &constants)?, tile_grid(&tile, push, caps))
        }
        Gemm::Matrix(tile, _) => {
            let pipeline = matrix_pipeline(ctx, MATRIX, how.dtype, &constants)?;
            (pipeline, matrix_grid(&tile, push, caps))
        }
        Gemm::Lanes { tm, tn } => {
            let kernel = match how.lists {
                None => Kernel::matmul_lanes,
                Some(_) => Kernel::matmul_lanes_gather,
            };
            (ctx.pipeline(kernel, &constants[..7])?, lanes_grid(tm, tn, push, caps))
        }
    };
    let push = bytemuck::bytes_of(push);
    ctx.dispatch(&Dispatch { pipeline: &pipeline, push, groups, reads, writes: &[writes] })
}

/// Encodes a product of dense (m, k) and (n, k) matrices, the second one transposed, as `push` says.
pub(crate) fn dense_matrix(
    ctx: &mut Ctx<'_>,
    plan: Gemm,
    dtype: Dtype,
    mut push: Push,
    reads: &[Region],
    result: Operand,
) -> Result<()> {
    let width = if matches!(plan, Gemm::Matrix(..)) { 8 } else { 4 };
    let bytes = width * dtype.size() as u64;
    let vector = |at: u64, flag: u32| {
        let whole = at.is_multiple_of(bytes) && u64::from(push.k).is_multiple_of(width);
        if whole { flag } else { 0 }
    };
    let flags = A_ALONG_K | B_ALONG_K | vector(push.a, A_VECTOR) | vector(push.b, B_VECTOR);
    let how = How { plan, dtype, out: dtype, flags, lists: None };
    let splits = match plan {
        Gemm::Tile(_, splits) | Gemm::Matrix(_, splits) => splits,
        Gemm::Lanes { .. } => 1,
    };
    if splits == 1 {
        return dispatch(ctx, how, &push, reads, result.region);
    }
    let count = u64::from(push.m) * u64::from(push.n);
    let parts = ctx.scratch(count * u64::from(splits) * 4)?;
    (push.result, push.splits) = (parts.address, splits);
    dispatch(ctx, How { out: Dtype::Float32, ..how }, &push, reads, parts)?;
    sum_parts(ctx, parts, splits, count, dtype, result)
}

/// Parts of k side by side into scratch memory, then their sum.
fn split(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    plan: Gemm,
    dtype: Dtype,
    push: Push,
    splits: u32,
    result: Operand,
) -> Result<()> {
    let count = (o.batches() * o.m * o.n) as u64;
    let parts = ctx.scratch(count * u64::from(splits) * 4)?;
    let part = Push { result: parts.address, splits, ..push };
    let reads = [o.a.at.region, o.b.at.region];
    let flags = flags(o, plan, dtype);
    let how = How { plan, dtype, out: Dtype::Float32, flags, lists: None };
    dispatch(ctx, how, &part, &reads, parts)?;
    sum(ctx, o, dtype, parts, splits, result)
}

/// Adds the parts, with the epilogue of `addmm`.
fn sum(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    dtype: Dtype,
    parts: Region,
    splits: u32,
    result: Operand,
) -> Result<()> {
    let count = (o.batches() * o.m * o.n) as u64;
    let Some(c) = &o.c else { return sum_parts(ctx, parts, splits, count, dtype, result) };
    let mut shape = o.batch.shape.clone();
    let mut strides = o.batch.strides[2].clone();
    shape.extend([o.m, o.n]);
    strides.extend([c.row as isize, c.column as isize]);
    let walk = Walk::new(&shape, [&strides]);
    let push = SumPush {
        c: c.at.address,
        walk: ctx.args(&walk.pack())?,
        alpha: c.alpha,
        beta: c.beta,
        ndim: walk.ndim(),
        ..SumPush::new(parts, result, count, splits)
    };
    run_sum(ctx, &push, dtype, &[parts, c.at.region], result)
}

/// Adds float32 parts of `count` elements each into the result.
pub(crate) fn sum_parts(
    ctx: &mut Ctx<'_>,
    parts: Region,
    splits: u32,
    count: u64,
    dtype: Dtype,
    result: Operand,
) -> Result<()> {
    run_sum(ctx, &SumPush::new(parts, result, count, splits), dtype, &[parts], result)
}

/// The same with a dense array of as many elements, which is added, too.
pub(crate) fn sum_parts_and(
    ctx: &mut Ctx<'_>,
    parts: Region,
    splits: u32,
    addend: Operand,
    count: u64,
    dtype: Dtype,
    result: Operand,
) -> Result<()> {
    let walk = Walk::new(&[count as usize], [&[1]]);
    let push = SumPush {
        c: addend.address,
        walk: ctx.args(&walk.pack())?,
        beta: 1.0,
        ndim: walk.ndim(),
        ..SumPush::new(parts, result, count, splits)
    };
    run_sum(ctx, &push, dtype, &[parts, addend.region], result)
}

fn run_sum(
    ctx: &mut Ctx<'_>,
    push: &SumPush,
    dtype: Dtype,
    reads: &[Region],
    result: Operand,
) -> Result<()> {
    let group = ctx.capabilities().elementwise_workgroup();
    let pipeline =
        ctx.pipeline(Kernel::matmul_split_sum, &[group, dtype as u32, u32::from(push.c != 0)])?;
    ctx.run(
        &pipeline,
        bytemuck::bytes_of(push),
        push.count,
        u64::from(group),
        reads,
        &[result.region],
    )
}
