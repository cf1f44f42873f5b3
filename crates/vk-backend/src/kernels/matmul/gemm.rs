//! Products of many rows and columns: `tile.comp`, `lanes.comp`, and the sum of split parts.

use mlx_vulkan_core::{Dtype, Result};

use crate::kernels::operands::{Dtypes, Lists, Operands, StridedMatrix};
use crate::{
    kernels::{
        Capabilities, Ctx, Dispatch, Operand, Region,
        layouts::{
            gemm, matmul_lanes, matmul_matrix, matmul_split_sum as split_sum, matmul_tile,
            matrix_tile,
        },
        matmul::{
            matrix::MatrixTile,
            planner::{Gemm, Tile},
        },
        strided::Walk,
        team::Team,
    },
    runtime::pipelines::PipelineOf,
    shaders::{KernelOf, SpecConstants},
};

pub(crate) use gemm::{
    A_ALONG_K_FLAG as A_ALONG_K, A_VECTOR_FLAG as A_VECTOR, ADD_FLAG as ADD,
    B_ALONG_K_FLAG as B_ALONG_K, B_VECTOR_FLAG as B_VECTOR, C_VECTOR_FLAG as C_VECTOR,
    GROUPED_FLAG as GROUPED, SCALED_FLAG as SCALED,
};
pub(crate) use matmul_tile::Push;
pub(crate) use matrix_tile::{GATED_FLAG as GATED, GELU_FLAG as GELU, SIBLINGS_FLAG as SIBLINGS};

/// Parts to be added up without anything else.
fn sum_push(parts: Region, result: Operand, count: u64, splits: u32) -> split_sum::Push {
    let (parts, result) = (parts.address, result.address);
    split_sum::Push { parts, result, count, alpha: 1.0, splits, ..Default::default() }
}

/// Products on cooperative matrices, by dtype: float16 first.
pub(crate) const MATRIX: [KernelOf<matmul_matrix::Constants, Push>; 2] =
    [matmul_matrix::MATMUL_MATRIX_FLOAT16, matmul_matrix::MATMUL_MATRIX_BFLOAT16];

/// Specialization constants of a kernel that makes tiles: its module, the tile, dtypes of operands and
/// result, flags, and what the module has beyond.
macro_rules! tile_constants {
    ($module:ident, $tile:expr, $dtype:expr, $out:expr, $flags:expr $(, $more:ident: $value:expr)*) => {
        $module::Constants {
            workgroup: $tile.threads(),
            dtype: $dtype as u32,
            out_dtype: $out as u32,
            flags: $flags,
            bm: $tile.bm,
            bn: $tile.bn,
            bk: $tile.bk,
            tm: $tile.tm,
            tn: $tile.tn,
            $($more: $value,)*
        }
    };
}

/// The same of a kernel of cooperative matrices.
macro_rules! matrix_constants {
    ($module:ident, $tile:expr, $dtype:expr, $out:expr, $flags:expr $(, $more:ident: $value:expr)*) => {
        $module::Constants {
            workgroup: $tile.threads(),
            dtype: $dtype as u32,
            out_dtype: $out as u32,
            flags: $flags,
            bm: $tile.bm,
            bn: $tile.bn,
            bk: $tile.bk,
            wm: $tile.wm,
            wn: $tile.wn,
            fm: $tile.fragment.m,
            fn_: $tile.fragment.n,
            fk: $tile.fragment.k,
            subgroup: $tile.subgroup,
            $($more: $value,)*
        }
    };
}

/// The same of a kernel whose workgroups are subgroups, of `$subgroup` threads with `$tm` by `$tn` results
/// each.
macro_rules! lanes_constants {
    (
        $module:ident, $subgroup:expr, [$tm:expr, $tn:expr], $dtype:expr, $out:expr, $flags:expr
        $(, $more:ident: $value:expr)*
    ) => {
        $module::Constants {
            workgroup: $subgroup,
            dtype: $dtype as u32,
            out_dtype: $out as u32,
            flags: $flags,
            subgroup: $subgroup,
            tm: $tm,
            tn: $tn,
            $($more: $value,)*
        }
    };
}

pub(in crate::kernels) use {lanes_constants, matrix_constants, tile_constants};

/// Workgroups of a tiled product; the kernel loops over what is more than the device's grid. Each of the
/// `groups` of rows may have a tile that is not full.
pub(crate) fn tile_grid(tile: &Tile, push: &Push, groups: usize, caps: &Capabilities) -> [u32; 3] {
    let rows = push.m as usize + groups * tile.bm as usize;
    let tiles = tile.count(rows, push.n as usize, push.batches as usize) * u64::from(push.splits);
    [caps.groups_1d(tiles, 1), 1, 1]
}

/// The same of a product on cooperative matrices.
pub(crate) fn matrix_grid(
    tile: &MatrixTile,
    push: &Push,
    groups: usize,
    caps: &Capabilities,
) -> [u32; 3] {
    let rows = push.m as usize + groups * tile.bm as usize;
    let tiles = tile.count(rows, push.n as usize, push.batches as usize) * u64::from(push.splits);
    [caps.groups_1d(tiles, 1), 1, 1]
}

/// The pipeline of a cooperative-matrix kernel, by dtype: float16 first.
pub(crate) fn matrix_pipeline<C: SpecConstants, P>(
    ctx: &Ctx<'_>,
    kernels: [KernelOf<C, P>; 2],
    dtype: Dtype,
    constants: &C,
) -> PipelineOf<P> {
    let kernel = kernels[usize::from(dtype == Dtype::Bfloat16)];
    let team = Team { subgroups: true, subgroup: ctx.capabilities().subgroup_size };
    ctx.team_pipeline(kernel, constants, team)
}

/// Workgroups of a product by lanes.
pub(crate) fn lanes_grid(tm: u32, tn: u32, push: &Push, caps: &Capabilities) -> [u32; 3] {
    let columns = push.n.div_ceil(caps.subgroup_size * tn);
    let tiles = u64::from(push.m.div_ceil(tm)) * u64::from(columns) * u64::from(push.batches);
    [caps.groups_1d(tiles, 1), 1, 1]
}

/// The flag of operands that were float32, whose lines have factors (`lines.rs`): the only ones with another
/// dtype than the result.
fn scaled_flag(dtypes: Dtypes) -> u32 {
    if dtypes.operands == dtypes.result { 0 } else { SCALED }
}

/// Encodes the product.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    plan: Gemm,
    dtypes: Dtypes,
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
            split(ctx, o, plan, dtypes, push, splits, result)
        }
        _ => whole(ctx, o, plan, dtypes, push, result),
    }
}

/// How the operands lie, and whether they can be loaded `vector` elements at a time; cooperative
/// matrices take no part of such a vector, so rows must have whole ones.
fn flags(o: &Operands, plan: Gemm, dtype: Dtype) -> u32 {
    let (width, whole) = if matches!(plan, Gemm::Matrix(..)) { (8, true) } else { (4, false) };
    let segments = matches!(o.lists, Some(Lists::Segments { .. }));
    let vector = |m: &StridedMatrix, i| {
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
    bit(groups(o.lists.as_ref()) > 0, GROUPED)
        | bit(o.a.along_k, A_ALONG_K)
        | bit(o.b.along_k, B_ALONG_K)
        | bit(vector(&o.a, 0), A_VECTOR)
        | bit(vector(&o.b, 1), B_VECTOR)
}

/// Groups of rows of a product that is made by them.
fn groups(lists: Option<&Lists>) -> usize {
    match lists {
        Some(Lists::Picks(picks)) => picks.groups(),
        _ => 0,
    }
}

fn whole(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    plan: Gemm,
    dtypes: Dtypes,
    mut push: Push,
    result: Operand,
) -> Result<()> {
    let dtype = dtypes.operands;
    let mut flags = flags(o, plan, dtype) | scaled_flag(dtypes);
    if let Some(c) = &o.c {
        let quads = [c.row, o.n as i64].iter().all(|s| s % 4 == 0) && o.batches() == 1;
        let vector = quads && c.column == 1 && c.at.is_aligned(4 * dtypes.result.size() as u64);
        flags |= if vector { ADD | C_VECTOR } else { ADD };
        (push.c, push.c_row, push.c_column) = (c.at.address, c.row, c.column);
        (push.alpha, push.beta) = (c.alpha, c.beta);
    }
    let how = How { plan, dtype, out: dtypes.result, flags, lists: o.lists.as_ref() };
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
    let How { plan, dtype, out, flags, lists } = how;
    let (pipeline, groups) = match plan {
        Gemm::Tile(tile, _) => {
            let kernel = match lists {
                None => matmul_tile::MATMUL_TILE,
                Some(Lists::Picks(_)) => matmul_tile::MATMUL_TILE_GATHER,
                Some(Lists::Segments { .. }) => matmul_tile::MATMUL_TILE_SEGMENTS,
            };
            let constants = tile_constants!(matmul_tile, tile, dtype, out, flags);
            (ctx.pipeline(kernel, &constants), tile_grid(&tile, push, groups(lists), caps))
        }
        Gemm::Matrix(tile, _) => {
            let constants = matrix_constants!(matmul_matrix, tile, dtype, out, flags);
            let pipeline = matrix_pipeline(ctx, MATRIX, dtype, &constants);
            (pipeline, matrix_grid(&tile, push, groups(lists), caps))
        }
        Gemm::Lanes { tm, tn } => {
            let kernel = match lists {
                None => matmul_lanes::MATMUL_LANES,
                Some(_) => matmul_lanes::MATMUL_LANES_GATHER,
            };
            let size = caps.subgroup_size;
            let constants = lanes_constants!(matmul_lanes, size, [tm, tn], dtype, out, flags);
            (ctx.pipeline(kernel, &constants), lanes_grid(tm, tn, push, caps))
        }
    };
    ctx.dispatch(&Dispatch { pipeline: &pipeline, push, groups, reads, writes: &[writes] })
}

/// Encodes a product of dense (m, k) and (n, k) matrices, the second one transposed, as `push` says; with
/// `lists` of rows that pick a matrix each.
pub(crate) fn dense_matrix(
    ctx: &mut Ctx<'_>,
    plan: Gemm,
    dtypes: Dtypes,
    mut push: Push,
    lists: Option<&Lists>,
    reads: &[Region],
    result: Operand,
) -> Result<()> {
    let Dtypes { operands: dtype, result: out } = dtypes;
    let width = if matches!(plan, Gemm::Matrix(..)) { 8 } else { 4 };
    let bytes = width * dtype.size() as u64;
    let vector = |at: u64, flag: u32| {
        let whole = at.is_multiple_of(bytes) && u64::from(push.k).is_multiple_of(width);
        if whole { flag } else { 0 }
    };
    let grouped = if groups(lists) > 0 { GROUPED } else { 0 };
    let vectors = vector(push.a, A_VECTOR) | vector(push.b, B_VECTOR);
    let flags = A_ALONG_K | B_ALONG_K | vectors | grouped | scaled_flag(dtypes);
    let how = How { plan, dtype, out, flags, lists };
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
    sum_parts(ctx, parts, splits, count, out, result)
}

/// Parts of k side by side into scratch memory, then their sum.
fn split(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    plan: Gemm,
    dtypes: Dtypes,
    push: Push,
    splits: u32,
    result: Operand,
) -> Result<()> {
    let Dtypes { operands: dtype, result: out } = dtypes;
    let count = (o.batches() * o.m * o.n) as u64;
    let parts = ctx.scratch(count * u64::from(splits) * 4)?;
    let part = Push { result: parts.address, splits, ..push };
    let reads = [o.a.at.region, o.b.at.region];
    let flags = flags(o, plan, dtype) | scaled_flag(dtypes);
    let how = How { plan, dtype, out: Dtype::Float32, flags, lists: None };
    dispatch(ctx, how, &part, &reads, parts)?;
    sum(ctx, o, out, parts, splits, result)
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
    let push = split_sum::Push {
        c: c.at.address,
        walk: ctx.args(&walk.pack())?,
        alpha: c.alpha,
        beta: c.beta,
        ndim: walk.ndim(),
        ..sum_push(parts, result, count, splits)
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
    run_sum(ctx, &sum_push(parts, result, count, splits), dtype, &[parts], result)
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
    let push = split_sum::Push {
        c: addend.address,
        walk: ctx.args(&walk.pack())?,
        beta: 1.0,
        ndim: walk.ndim(),
        ..sum_push(parts, result, count, splits)
    };
    run_sum(ctx, &push, dtype, &[parts, addend.region], result)
}

fn run_sum(
    ctx: &mut Ctx<'_>,
    push: &split_sum::Push,
    dtype: Dtype,
    reads: &[Region],
    result: Operand,
) -> Result<()> {
    let group = ctx.capabilities().elementwise_workgroup();
    let flags = if push.c != 0 { split_sum::ADD_FLAG } else { 0 };
    let dtype = dtype as u32;
    let constants = split_sum::Constants { workgroup: group, dtype, flags };
    let pipeline = ctx.pipeline(split_sum::MATMUL_SPLIT_SUM, &constants);
    ctx.run(&pipeline, push, push.count, u64::from(group), reads, &[result.region])
}
