//! Softmax and its logarithm over the last axis.
//!
//! Rows that fit into the registers of a team of threads take one dispatch. Longer ones are folded
//! to pairs of maximum and sum first, in as many parts as keep the device busy.

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::SoftmaxOp};

use super::{
    Capabilities, Ctx, Operand, Region,
    layouts::{softmax_fold, softmax_fold::Push, softmax_rows, softmax_scale},
    reduce::{
        View,
        planner::{self as plan, ReducePlan},
    },
    strided::Walk,
};
use crate::kernels::team::Team;

/// The rows of an input along its last axis.
struct Rows {
    at: Operand,
    dtype: u32,
    walk: Walk<1>,
    walk_address: u64,
    length: u64,
    stride: i64,
    /// The source's rows can be read four aligned elements at a time.
    quads: bool,
}

impl Rows {
    fn of(ctx: &mut Ctx<'_>, a: &Array) -> Result<Rows> {
        let view = View::of(ctx, a)?;
        let last = a.ndim() - 1;
        let walk = Walk::new(&view.shape[..last], [&view.strides[..last]]);
        let length = view.shape[last] as u64;
        let stride = if length == 1 { 1 } else { view.strides[last] as i64 };
        let whole = walk.count() == 1 || walk.strides[0].iter().all(|s| s % 4 == 0);
        let quads = stride == 1 && whole && view.at.is_aligned(4 * a.dtype().size() as u64);
        let walk_address = ctx.args(&walk.pack())?;
        Ok(Rows { at: view.at, dtype: a.dtype() as u32, walk, walk_address, length, stride, quads })
    }

    fn count(&self) -> u64 {
        self.walk.count()
    }

    fn ndim(&self) -> u32 {
        if self.count() == 1 { 0 } else { self.walk.ndim() }
    }

    /// Whether the rows of a dense output are aligned words too.
    fn quads_with(&self, to: Operand, element: u64) -> bool {
        self.quads
            && to.is_aligned(4 * element)
            && (self.count() == 1 || self.length.is_multiple_of(4))
    }

    fn push(&self, to: Operand, pairs: u64, plan: &ReducePlan) -> Push {
        Push {
            source: self.at.address,
            destination: to.address,
            pairs,
            rows: self.count(),
            length: self.length,
            splits: plan.splits,
            chunk: plan.chunk,
            row_walk: self.walk_address,
            stride: self.stride,
            row_ndim: self.ndim(),
        }
    }

    fn plan(&self, caps: &Capabilities) -> ReducePlan {
        ReducePlan::new(caps, self.count(), self.length, 4, false)
    }
}

/// Rows in registers: who works on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Registers {
    /// Threads of a workgroup.
    group: u32,
    /// Threads of a row.
    team: u32,
    /// Elements of a thread.
    items: u32,
    /// Threads of a subgroup that reduce together; 1 for shared memory.
    subgroup: u32,
}

impl Registers {
    /// With subgroups a row stays within one as long as a thread's registers allow, since nothing
    /// waits there. Through shared memory every halving costs a barrier, but threads are free.
    fn of(caps: &Capabilities, length: u64) -> Option<Registers> {
        let Team { subgroups, subgroup } = Team::of(caps, true);
        let group = plan::group(caps);
        let most = if caps.quirks.few_workgroups { group } else { caps.max_workgroup.min(1024) };
        let per_thread = length.div_ceil(u64::from(subgroup)).next_power_of_two();
        let items = match (subgroups, length) {
            (true, _) => per_thread.clamp(4, 32) as u32,
            (false, 0..=1024) => 4,
            (false, 1025..=2048) => 8,
            (false, _) => 16,
        };
        let items = if length > u64::from(items * most) { items.max(16) } else { items };
        let team = length.div_ceil(u64::from(items)).next_power_of_two().max(u64::from(subgroup));
        let group = group.max(team as u32);
        (team <= u64::from(most)).then_some(Registers { group, team: team as u32, items, subgroup })
    }
}

/// Encodes the primitives of this family.
///
/// # Errors
/// When the backend refuses it, or memory or the device fails.
pub(super) fn eval(ctx: &mut Ctx<'_>, op: SoftmaxOp, a: &Array, output: &mut Output) -> Result<()> {
    match op {
        SoftmaxOp::Softmax { .. } => softmax(ctx, a, output),
        SoftmaxOp::LogSumExp => logsumexp(ctx, a, output),
    }
}

/// Encodes `exp(a) / sum(exp(a))`.
fn softmax(ctx: &mut Ctx<'_>, a: &Array, output: &mut Output) -> Result<()> {
    if output.size() == 0 {
        ctx.output(output)?;
        return Ok(());
    }
    let rows = Rows::of(ctx, a)?;
    let registers = Registers::of(ctx.capabilities(), rows.length);
    // A part of a long row reads what another part has read already, but writes only its own.
    let to = ctx.output_or_donate(&[a], output)?;
    let quads = rows.quads_with(to, a.dtype().size() as u64);
    let Some(Registers { group, team, items, subgroup }) = registers else {
        return long_rows(ctx, &rows, quads, to);
    };
    let push = softmax_rows::Push {
        source: rows.at.address,
        destination: to.address,
        rows: rows.count(),
        row_walk: rows.walk_address,
        stride: rows.stride,
        length: rows.length as u32,
        row_ndim: rows.ndim(),
    };
    let quads = u32::from(quads && rows.length.is_multiple_of(4));
    let from = rows.dtype;
    let constants =
        softmax_rows::Constants { workgroup: group, from, team, items, quads, subgroup };
    let pipeline = match subgroup {
        1 => ctx.pipeline(softmax_rows::SOFTMAX_ROWS_SHARED, &constants),
        size => {
            let kernel = softmax_rows::SOFTMAX_ROWS_SUBGROUP;
            ctx.pipeline_with_subgroup(kernel, &constants, size)
        }
    };
    ctx.run(
        &pipeline,
        &push,
        rows.count(),
        u64::from(group / team),
        &[rows.at.region],
        &[to.region],
    )
}

/// Folds the parts of the rows to pairs, then scales the elements.
fn long_rows(ctx: &mut Ctx<'_>, rows: &Rows, quads: bool, to: Operand) -> Result<()> {
    let plan = rows.plan(ctx.capabilities());
    let pairs = fold_parts(ctx, rows, &plan)?;
    let push = rows.push(to, pairs.address, &plan);
    let constants = softmax_scale::Constants {
        workgroup: plan.group,
        from: rows.dtype,
        team: plan.team,
        quads: u32::from(quads),
    };
    let pipeline = ctx.pipeline(softmax_scale::SOFTMAX_SCALE, &constants);
    let tasks = rows.count() * plan.splits;
    let reads = [rows.at.region, pairs];
    ctx.run(&pipeline, &push, tasks, plan.teams(), &reads, &[to.region])
}

/// The `STAGE` constant of `fold.comp`.
#[derive(Debug, Clone, Copy)]
#[repr(u32)]
enum Stage {
    Whole = softmax_fold::WHOLE,
    Parts = softmax_fold::PARTS,
    Join = softmax_fold::JOIN,
}

fn fold_constants(rows: &Rows, plan: &ReducePlan, stage: Stage) -> softmax_fold::Constants {
    softmax_fold::Constants {
        workgroup: plan.group,
        from: rows.dtype,
        team: plan.team,
        stage: stage as u32,
        quads: u32::from(rows.quads),
    }
}

/// A pair for each part of each row.
fn fold_parts(ctx: &mut Ctx<'_>, rows: &Rows, plan: &ReducePlan) -> Result<Region> {
    let tasks = rows.count() * plan.splits;
    let pairs = ctx.scratch(tasks * 8)?;
    let nowhere = Operand { address: 0, region: Region::default() };
    let push = rows.push(nowhere, pairs.address, plan);
    let pipeline =
        ctx.pipeline(softmax_fold::SOFTMAX_FOLD, &fold_constants(rows, plan, Stage::Parts));
    ctx.run(&pipeline, &push, tasks, plan.teams(), &[rows.at.region], &[pairs])?;
    Ok(pairs)
}

/// Encodes `log(sum(exp(a)))`.
fn logsumexp(ctx: &mut Ctx<'_>, a: &Array, output: &mut Output) -> Result<()> {
    let to = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    let rows = Rows::of(ctx, a)?;
    let plan = rows.plan(ctx.capabilities());
    if plan.splits == 1 {
        let push = rows.push(to, 0, &plan);
        let pipeline =
            ctx.pipeline(softmax_fold::SOFTMAX_FOLD, &fold_constants(&rows, &plan, Stage::Whole));
        return ctx.run(
            &pipeline,
            &push,
            rows.count(),
            plan.teams(),
            &[rows.at.region],
            &[to.region],
        );
    }
    let pairs = fold_parts(ctx, &rows, &plan)?;
    let join = ReducePlan::new(ctx.capabilities(), rows.count(), plan.splits, 1, false);
    let push = rows.push(to, pairs.address, &plan);
    let pipeline =
        ctx.pipeline(softmax_fold::SOFTMAX_FOLD, &fold_constants(&rows, &join, Stage::Join));
    ctx.run(&pipeline, &push, rows.count(), join.teams(), &[pairs], &[to.region])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(caps: &Capabilities, length: u64) -> Option<(u32, u32, u32)> {
        Registers::of(caps, length).map(|r| (r.group, r.team, r.items))
    }

    #[test]
    fn rows_fit_into_registers_up_to_a_length() {
        let mut caps = Capabilities { subgroup_size: 32, ..Capabilities::default() };
        assert_eq!(shape(&caps, 1), Some((256, 32, 4)));
        assert_eq!(shape(&caps, 1024), Some((256, 32, 32)));
        assert_eq!(shape(&caps, 8192), Some((256, 256, 32)));
        assert_eq!(shape(&caps, 32768), Some((1024, 1024, 32)));
        assert_eq!(shape(&caps, 32769), None);
        caps.quirks.few_workgroups = true;
        assert_eq!(shape(&caps, 2048), Some((64, 64, 32)));
        assert_eq!(shape(&caps, 2049), None);
    }

    #[test]
    fn without_subgroups_rows_fit_into_shared_teams() {
        let mut caps = Capabilities::default();
        caps.subgroup_ops.arithmetic = false;
        assert_eq!(shape(&caps, 1), Some((256, 1, 4)));
        assert_eq!(shape(&caps, 1024), Some((256, 256, 4)));
        assert_eq!(shape(&caps, 8192), Some((512, 512, 16)));
        assert_eq!(shape(&caps, 16384), Some((1024, 1024, 16)));
        assert_eq!(shape(&caps, 16385), None);
        caps.quirks.few_workgroups = true;
        assert_eq!(shape(&caps, 1000), Some((64, 64, 16)));
        assert_eq!(shape(&caps, 1025), None);
    }
}
