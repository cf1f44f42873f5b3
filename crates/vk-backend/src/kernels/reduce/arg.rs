//! Indices of extremes.

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::ArgReduceOp};

use super::{
    View,
    planner::{Mode, ReducePlan, Rows},
};
use crate::kernels::{
    Ctx, Region,
    layouts::reduce_arg::{self as shader, Constants, Push},
};

/// What a dispatch of `arg.comp` does: its `STAGE` constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Stage {
    /// Rows to indices.
    Whole = shader::WHOLE,
    /// Parts of rows to keys with indices.
    Parts = shader::PARTS,
    /// Those to indices.
    Join = shader::JOIN,
}

/// Encodes the first index of an extreme along `axis`.
pub(crate) fn arg_reduce(
    ctx: &mut Ctx<'_>,
    op: ArgReduceOp,
    axis: usize,
    a: &Array,
    output: &mut Output,
) -> Result<()> {
    if a.shape()[axis] > u32::MAX as usize {
        return Err(ctx.unsupported(a, "indices are 32 bits wide"));
    }
    let to = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    let source = View::of(ctx, a)?;
    let rows = ordered_rows(&source, axis);
    let across = rows.lie_side_by_side();
    let size = a.dtype().size() as u64;
    let word = if rows.mode() == Mode::Contiguous { 16 / size } else { 1 };
    let plan = ReducePlan::new(ctx.capabilities(), rows.count(), rows.length(), word, across);
    let mut push = Push {
        source: source.at.address,
        destination: to.address,
        rows: rows.count(),
        length: rows.length(),
        splits: plan.splits,
        chunk: plan.chunk,
        row_walk: ctx.args(&rows.rows.pack())?,
        keys: 0,
        indices: 0,
        stride: rows.row.strides[0][0] as i64,
        row_ndim: if rows.count() == 1 { 0 } else { rows.rows.ndim() },
    };
    let kernel = if size == 8 { shader::ARG_WIDE } else { shader::ARG_NARROW };
    let contiguous = u32::from(rows.mode() == Mode::Contiguous);
    let constants = |stage: Stage, plan: &ReducePlan| Constants {
        workgroup: plan.group,
        from: a.dtype() as u32,
        op: op as u32,
        team: plan.team,
        across: u32::from(plan.across),
        stage: stage as u32,
        contiguous,
    };
    let tasks = rows.count() * plan.splits;
    if plan.splits == 1 {
        let pipeline = ctx.pipeline(kernel, &constants(Stage::Whole, &plan));
        let (reads, writes) = ([source.at.region], [to.region]);
        return ctx.run(&pipeline, &push, tasks, plan.teams(), &reads, &writes);
    }
    let keys = ctx.scratch(tasks * size.max(4))?;
    let indices = ctx.scratch(tasks * 4)?;
    (push.keys, push.indices) = (keys.address, indices.address);
    let pipeline = ctx.pipeline(kernel, &constants(Stage::Parts, &plan));
    let parts: [Region; 2] = [keys, indices];
    ctx.run(&pipeline, &push, tasks, plan.teams(), &[source.at.region], &parts)?;

    let join = ReducePlan {
        splits: 1,
        ..ReducePlan::new(ctx.capabilities(), rows.count(), plan.splits, 1, across)
    };
    let push = Push { length: plan.splits, splits: 1, chunk: 0, ..push };
    let pipeline = ctx.pipeline(kernel, &constants(Stage::Join, &join));
    ctx.run(&pipeline, &push, rows.count(), join.teams(), &parts, &[to.region])
}

/// The rows along an axis with their elements in ascending order of the index.
fn ordered_rows(source: &View, axis: usize) -> Rows {
    let rows = Rows::new(&source.shape, &source.strides, &[axis]);
    let row = crate::kernels::strided::Walk::new(&[source.shape[axis]], [&[source.strides[axis]]]);
    Rows { row, first: 0, ..rows }
}
