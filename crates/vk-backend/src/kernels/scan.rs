//! Cumulative reductions.
//!
//! Rows whose elements are neighbours in the output are scanned by teams of threads, others by one
//! thread each. Where that leaves the device idle, rows are split: the parts' totals are found
//! first ([`reduce`]), scanned in turn, and given to the parts as what came before them.

use mlx_vulkan_core::{
    Array, Dtype, Result,
    backend::Output,
    primitives::{ReduceOp, Scan, ScanOp},
    shape,
};

use super::{
    Capabilities, Ctx, Operand, Region,
    elementwise::Class,
    layouts::{scan_block as block, scan_block::Push, scan_serial as serial},
    reduce::{
        self, Fold, View, partial_dtype,
        planner::{self as plan, Rows},
    },
    strided::Walk,
};
use crate::shaders::KernelOf;

/// Where a scan goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Along {
    pub(super) axis: usize,
    /// From the end.
    pub(super) reverse: bool,
    /// The i-th output includes the i-th input.
    pub(super) inclusive: bool,
}

/// Encodes the scan of `a`.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn eval(ctx: &mut Ctx<'_>, scan: Scan, a: &Array, output: &mut Output) -> Result<()> {
    let op = match scan.op {
        ScanOp::Max => Fold::Op(ReduceOp::Max),
        ScanOp::Min => Fold::Op(ReduceOp::Min),
        ScanOp::Prod => Fold::Op(ReduceOp::Prod),
        ScanOp::Sum => Fold::Op(ReduceOp::Sum),
        ScanOp::LogAddExp => Fold::LogAddExp,
    };
    if a.size() == 0 {
        ctx.output(output)?;
        return Ok(());
    }
    let source = View::of(ctx, a)?;
    // In place is safe: each element is read by the thread that writes it.
    let to = ctx.output_or_donate(&[a], output)?;
    let along = Along { axis: scan.axis, reverse: scan.reverse, inclusive: scan.inclusive };
    scan_view(ctx, op, along, &source, to, output.dtype)
}

/// The modules of an operation: for teams and for single threads.
fn kernels(
    op: Fold,
    dtype: Dtype,
) -> (KernelOf<block::Constants, Push>, KernelOf<serial::Constants, Push>) {
    use {block::*, serial::*};
    match (op, Class::from(dtype)) {
        (Fold::LogAddExp, Class::Complex) => {
            (SCAN_BLOCK_COMPLEX_LOGADDEXP, SCAN_SERIAL_COMPLEX_LOGADDEXP)
        }
        (Fold::LogAddExp, _) => (SCAN_BLOCK_FLOAT_LOGADDEXP, SCAN_SERIAL_FLOAT_LOGADDEXP),
        (_, Class::Float) => (SCAN_BLOCK_FLOAT, SCAN_SERIAL_FLOAT),
        (_, Class::Int) => (SCAN_BLOCK_INT, SCAN_SERIAL_INT),
        (_, Class::Uint) => (SCAN_BLOCK_UINT, SCAN_SERIAL_UINT),
        (_, Class::Long) => (SCAN_BLOCK_LONG, SCAN_SERIAL_LONG),
        (_, Class::Ulong) => (SCAN_BLOCK_ULONG, SCAN_SERIAL_ULONG),
        (_, Class::Complex) => (SCAN_BLOCK_COMPLEX, SCAN_SERIAL_COMPLEX),
    }
}

/// How the rows are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ScanPlan {
    group: u32,
    /// Threads that share a row; `None`: one thread a row, neighbours in neighbouring rows.
    team: Option<u32>,
    splits: u64,
    chunk: u64,
}

fn plan(caps: &Capabilities, count: u64, length: u64, side_by_side: bool) -> ScanPlan {
    let group = plan::group(caps);
    let wanted = plan::wanted_groups(caps);
    let team = length.div_ceil(4).next_power_of_two().min(u64::from(group)) as u32;
    // `least` is what a part must have to be worth finding its total first.
    let (busy, least, unit) = match side_by_side {
        true => (count.div_ceil(u64::from(group)) * 4, 64, 1),
        false => {
            (count.div_ceil(u64::from(group / team)), 64 * u64::from(team), 4 * u64::from(team))
        }
    };
    let splits = (wanted / busy).min(length / least).max(1);
    let chunk = length.div_ceil(splits).next_multiple_of(unit);
    ScanPlan { group, team: (!side_by_side).then_some(team), splits: length.div_ceil(chunk), chunk }
}

/// Scans a view into row-major memory of the same shape.
pub(super) fn scan_view(
    ctx: &mut Ctx<'_>,
    op: Fold,
    scan: Along,
    source: &View,
    to: Operand,
    dtype: Dtype,
) -> Result<()> {
    let axis = scan.axis;
    let out_strides = shape::row_major_strides(&source.shape);
    let others = |values: &[isize]| -> Vec<isize> {
        (0..values.len()).filter(|&x| x != axis).map(|x| values[x]).collect()
    };
    let shape: Vec<usize> =
        (0..source.shape.len()).filter(|&x| x != axis).map(|x| source.shape[x]).collect();
    let rows = Walk::new(&shape, [&others(&source.strides), &others(&out_strides)]);
    let length = source.shape[axis] as u64;
    // An axis of size 1 has no stride that means anything.
    let (mut stride, mut out_stride) =
        if length > 1 { (source.strides[axis], out_strides[axis]) } else { (1, 1) };
    let plan = plan(ctx.capabilities(), rows.count(), length, out_stride != 1);
    let (mut first, mut out_first) = (0, 0);
    if scan.reverse {
        let last = length as isize - 1;
        (first, out_first) = (last * stride, last * out_stride);
        (stride, out_stride) = (-stride, -out_stride);
    }
    let carries = match plan.splits {
        1 => None,
        _ => Some(carries(ctx, op, source, &rows, (length, stride, first), &plan)?),
    };
    let push = Push {
        source: source
            .at
            .address
            .wrapping_add_signed((first * source.dtype.size() as isize) as i64),
        destination: to.address.wrapping_add_signed((out_first * dtype.size() as isize) as i64),
        // A valid address in any case: some drivers load what they then do not use.
        carries: carries.map_or(source.at.address, |c| c.address),
        rows: rows.count(),
        length,
        splits: plan.splits,
        chunk: plan.chunk,
        row_walk: ctx.args(&rows.pack())?,
        stride: stride as i64,
        out_stride: out_stride as i64,
        row_ndim: if rows.count() == 1 { 0 } else { rows.ndim() },
        inclusive: u32::from(scan.inclusive),
        has_carries: u32::from(carries.is_some()),
    };
    let (teams, threads) = kernels(op, source.dtype);
    let (workgroup, op) = (plan.group, op.constant());
    let (from, into) = (source.dtype as u32, dtype as u32);
    let tasks = rows.count() * plan.splits;
    let reads = [source.at.region, carries.map_or(Region::default(), |c| c.region)];
    let writes = [to.region];
    let Some(team) = plan.team else {
        let constants = serial::Constants { workgroup, from, to: into, op };
        let pipeline = ctx.pipeline(threads, &constants);
        return ctx.run(&pipeline, &push, tasks, u64::from(plan.group), &reads, &writes);
    };
    let words = words(source, to, dtype, &rows, (stride, out_stride), length);
    let constants = block::Constants { workgroup, from, to: into, op, team, words };
    let pipeline = ctx.pipeline(teams, &constants);
    ctx.run(&pipeline, &push, tasks, u64::from(plan.group / team), &reads, &writes)
}

/// The `WORDS` constant: whether runs of four elements are aligned words on both sides.
fn words(
    source: &View,
    to: Operand,
    dtype: Dtype,
    rows: &Walk<2>,
    strides: (isize, isize),
    length: u64,
) -> u32 {
    let (from, into) = (source.dtype.size() as u64, dtype.size() as u64);
    let whole = |k: usize| rows.count() == 1 || rows.strides[k].iter().all(|s| s % 4 == 0);
    let aligned = source.at.is_aligned(4 * from) && to.is_aligned(4 * into) && whole(0) && whole(1);
    match strides {
        _ if from > 4 || into > 4 || !aligned => 0,
        (1, 1) => 1,
        (-1, -1) if length.is_multiple_of(4) => 2,
        _ => 0,
    }
}

/// What comes before each part of each row.
fn carries(
    ctx: &mut Ctx<'_>,
    op: Fold,
    source: &View,
    rows: &Walk<2>,
    (length, stride, first): (u64, isize, isize),
    plan: &ScanPlan,
) -> Result<Operand> {
    let across = plan.team.is_none();
    let parts = Rows {
        rows: Walk { shape: rows.shape.clone(), strides: [rows.strides[0].clone()] },
        row: Walk::new(&[length as usize], [&[stride]]),
        first,
    };
    let share = plan::ReducePlan {
        group: plan.group,
        team: plan.team.unwrap_or(1),
        across,
        splits: plan.splits,
        chunk: plan.chunk,
        columns: 1,
    };
    let (count, splits) = (rows.count() as usize, plan.splits as usize);
    let (shape, axis) = if across { ([splits, count], 0) } else { ([count, splits], 1) };
    let dtype = partial_dtype(source.dtype);
    let totals = View::scratch(ctx, dtype, shape.as_slice().into())?;
    reduce::launch(ctx, op, source, &parts, &share, (totals.at, dtype))?;
    let before = View::scratch(ctx, dtype, shape.as_slice().into())?;
    scan_view(
        ctx,
        op,
        Along { axis, reverse: false, inclusive: false },
        &totals,
        before.at,
        dtype,
    )?;
    Ok(before.at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rows_are_split_and_short_ones_are_not() {
        let gpu = Capabilities { compute_units: 132, ..Capabilities::default() };
        let long = plan(&gpu, 1, 16 << 20, false);
        assert_eq!((long.team, long.splits), (Some(256), 1024));
        assert!(long.splits * long.chunk >= 16 << 20);
        let short = plan(&gpu, 4096, 100, false);
        assert_eq!((short.team, short.splits), (Some(32), 1));
        let columns = plan(&gpu, 4, 1 << 20, true);
        assert!(columns.team.is_none() && columns.splits > 200);
    }
}
