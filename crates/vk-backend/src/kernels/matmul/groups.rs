//! Products of rows that pick a matrix each, as mixtures of experts have them: neighbours that pick the same
//! matrix are a group, and tiles take rows of one group. What is sorted by matrices has few groups, but any
//! order gives the right result.

use mlx_vulkan_core::{Dtype, Result};

use super::{
    matrix::Right,
    planner::{self, Gemm},
};
use crate::kernels::{
    Ctx, Region,
    fragment::fragment,
    layouts::matmul_groups,
    operands::{Lists, Operands, Picks, StridedMatrix},
};

/// Threads that make the tiles.
const THREADS: u32 = 1024;

/// How a product whose lists pick a matrix for each row of `a` is made, if groups serve it.
pub(super) fn plan(ctx: &Ctx<'_>, o: &Operands, dtype: Dtype) -> Option<Gemm> {
    let Some(Lists::Picks(picks)) = &o.lists else { return None };
    let row = picks.strides[0];
    if o.m != 1 || o.a.inner != 1 || row < 0 || dtype == Dtype::Complex64 {
        return None;
    }
    let fragment = fragment(dtype, [row, o.b.leading()], ctx.capabilities(), ctx.config())
        .filter(|_| is_near(picks, row as usize * dtype.size()));
    planner::grouped(picks, o.n, fragment, Right::Dense, ctx.capabilities())
}

/// Whether the kernel of cooperative matrices reaches all rows, of so many bytes, from the first one.
pub(in crate::kernels) fn is_near(picks: &Picks, row: usize) -> bool {
    picks.counts[0].saturating_mul(row) < 1 << 32
}

/// The operands of the product by groups: their rows are one matrix.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn operands(ctx: &mut Ctx<'_>, mut o: Operands, plan: Gemm) -> Result<Operands> {
    let Some(Lists::Picks(picks)) = &mut o.lists else { return Ok(o) };
    picks.tiles = Some(tiles(ctx, picks, plan)?);
    o.m = picks.batches;
    o.a = StridedMatrix { outer: picks.strides[0], along_k: true, ..o.a };
    picks.strides[0] = 1;
    Ok(o)
}

/// The tiles of rows of such a product, for `groups.glsl`.
///
/// # Errors
/// When memory or the device fails.
pub(in crate::kernels) fn tiles(ctx: &mut Ctx<'_>, picks: &Picks, plan: Gemm) -> Result<Region> {
    let rows = picks.batches as u32;
    // Every row may be a tile; before the first rows stands how many there are, behind them the end.
    let tiles = ctx.scratch(4 * (u64::from(rows) + 2))?;
    let list = picks.lists[1];
    let push = matmul_groups::Push {
        picks: list.address,
        tiles: tiles.address,
        rows,
        height: plan.rows(),
    };
    let workgroup = THREADS.min(ctx.capabilities().max_workgroup);
    let constants = matmul_groups::Constants { workgroup };
    let pipeline = ctx.pipeline(matmul_groups::MATMUL_GROUPS, &constants);
    ctx.run(&pipeline, &push, 1, 1, &[list.region], &[tiles])?;
    Ok(tiles)
}
