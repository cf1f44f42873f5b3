//! Reductions over axes, and indices of extremes.
//!
//! A reduction sees rows: the elements that make one result. Long rows are split over workgroups
//! and their parts reduced again; rows that are several runs of neighbours are reduced
//! run by run first.

mod arg;
pub(crate) mod planner;

use mlx_vulkan_core::{
    Array, Dtype, Result, Shape, Strides, backend::Output, primitives::ReduceOp, shape,
};

pub(super) use arg::arg_reduce;
use planner::{Mode, ReducePlan, Rows};

use super::{
    Ctx, Operand, Region,
    elementwise::Class,
    layouts::reduce::{self as shader, Constants, Push},
};
use crate::shaders::KernelOf;

/// An associative operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fold {
    /// The `OP` constant of `reduction.glsl`.
    Op(ReduceOp),
    /// Logarithm of the sum of exponentials; floats and complex numbers.
    LogAddExp,
}

impl Fold {
    /// The `OP` constant.
    pub(crate) fn constant(self) -> u32 {
        match self {
            Fold::Op(op) => op as u32,
            Fold::LogAddExp => ReduceOp::Sum as u32,
        }
    }

    fn kernel(self, dtype: Dtype) -> KernelOf<Constants, Push> {
        match (self, Class::from(dtype)) {
            (Fold::LogAddExp, Class::Complex) => shader::REDUCE_COMPLEX_LOGADDEXP,
            (Fold::LogAddExp, _) => shader::REDUCE_FLOAT_LOGADDEXP,
            (_, Class::Float) => shader::REDUCE_FLOAT,
            (_, Class::Int) => shader::REDUCE_INT,
            (_, Class::Uint) => shader::REDUCE_UINT,
            (_, Class::Long) => shader::REDUCE_LONG,
            (_, Class::Ulong) => shader::REDUCE_ULONG,
            (_, Class::Complex) => shader::REDUCE_COMPLEX,
        }
    }
}

/// The dtype that partial results of `dtype` are kept in.
pub(crate) fn partial_dtype(dtype: Dtype) -> Dtype {
    match Class::from(dtype) {
        Class::Float => Dtype::Float32,
        Class::Int => Dtype::Int32,
        Class::Uint => Dtype::Uint32,
        Class::Long | Class::Ulong | Class::Complex => dtype,
    }
}

/// Strided elements in memory.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// First element, and the memory of all.
    pub(crate) at: Operand,
    /// Their dtype.
    pub(crate) dtype: Dtype,
    /// Sizes of the axes.
    pub(crate) shape: Shape,
    /// Elements between neighbours along each axis.
    pub(crate) strides: Strides,
}

impl View {
    /// An input; one without elements has no memory.
    pub(crate) fn of(ctx: &mut Ctx<'_>, a: &Array) -> Result<View> {
        let at = match a.size() {
            0 => Operand { address: 0, region: Region::default() },
            _ => ctx.input(a)?,
        };
        let strides = a.evaluated().layout.strides.clone();
        Ok(View { at, dtype: a.dtype(), shape: a.shape().into(), strides })
    }

    /// Row-major scratch memory of a shape.
    pub(crate) fn scratch(ctx: &mut Ctx<'_>, dtype: Dtype, shape: Shape) -> Result<View> {
        let region = ctx.scratch(shape::num_elements(&shape) as u64 * dtype.size() as u64)?;
        let at = Operand { address: region.address, region };
        Ok(View { at, dtype, strides: shape::row_major_strides(&shape), shape })
    }
}

/// Encodes the reduction of `a` over `axes`.
pub(super) fn reduce(
    ctx: &mut Ctx<'_>,
    op: ReduceOp,
    axes: &[usize],
    a: &Array,
    output: &mut Output,
) -> Result<()> {
    let to = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    let source = View::of(ctx, a)?;
    fold(ctx, Fold::Op(op), &source, axes, to, output.dtype)
}

/// Reduces the axes of a view into row-major memory.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn fold(
    ctx: &mut Ctx<'_>,
    op: Fold,
    source: &View,
    axes: &[usize],
    to: Operand,
    dtype: Dtype,
) -> Result<()> {
    let rows = Rows::new(&source.shape, &source.strides, axes);
    if let Some(axis) = first_stage(&rows, source, axes) {
        let mut shape = source.shape.clone();
        shape[axis] = 1;
        let partial = View::scratch(ctx, partial_dtype(source.dtype), shape)?;
        fold(ctx, op, source, &[axis], partial.at, partial.dtype)?;
        return fold(ctx, op, &partial, axes, to, dtype);
    }
    let across = rows.lie_side_by_side();
    let word = if rows.mode() == Mode::Contiguous { 16 / source.dtype.size() as u64 } else { 1 };
    let size = source.dtype.size();
    let begin = source.at.address.wrapping_add_signed((rows.first * size as isize) as i64);
    let columns = rows.columns(size, begin.is_multiple_of(16));
    let count = rows.count() / columns;
    let plan = ReducePlan {
        columns,
        ..ReducePlan::new(ctx.capabilities(), count, rows.length(), word, across)
    };
    if plan.splits == 1 {
        return launch(ctx, op, source, &rows, &plan, (to, dtype));
    }
    let (count, splits) = (rows.count() as usize, plan.splits as usize);
    let (shape, axis) = if across { ([splits, count], 0) } else { ([count, splits], 1) };
    let partial = View::scratch(ctx, partial_dtype(source.dtype), shape.as_slice().into())?;
    launch(ctx, op, source, &rows, &plan, (partial.at, partial.dtype))?;
    fold(ctx, op, &partial, &[axis], to, dtype)
}

/// The axis to reduce on its own first: a long run of neighbours among several reduced axes.
fn first_stage(rows: &Rows, source: &View, axes: &[usize]) -> Option<usize> {
    let several = rows.mode() == Mode::Walk;
    let axis = *axes.iter().find(|&&x| source.strides[x].abs() == 1 && source.shape[x] > 1)?;
    (several && source.shape[axis] >= 64).then_some(axis)
}

/// Reduces each part of each row: row-major by (row, part), or by (part, row) side by side.
pub(crate) fn launch(
    ctx: &mut Ctx<'_>,
    op: Fold,
    source: &View,
    rows: &Rows,
    plan: &ReducePlan,
    (to, dtype): (Operand, Dtype),
) -> Result<()> {
    let count = rows.count() / plan.columns;
    let tasks = count * plan.splits;
    let mode = rows.mode();
    let size = source.dtype.size() as i64;
    let push = Push {
        source: source.at.address.wrapping_add_signed(rows.first as i64 * size),
        destination: to.address,
        rows: count,
        length: rows.length(),
        splits: plan.splits,
        chunk: plan.chunk,
        row_walk: ctx.args(&rows.rows.pack())?,
        walk: if mode == Mode::Walk { ctx.args(&rows.row.pack())? } else { 0 },
        stride: rows.row.strides[0][0] as i64,
        row_ndim: if rows.count() == 1 { 0 } else { rows.rows.ndim() },
        ndim: rows.row.ndim(),
    };
    let constants = Constants {
        workgroup: plan.group,
        from: source.dtype as u32,
        to: dtype as u32,
        op: op.constant(),
        team: plan.team,
        mode: mode as u32,
        across: u32::from(plan.across),
        columns: plan.columns as u32,
    };
    let pipeline = ctx.pipeline(op.kernel(source.dtype), &constants);
    let bytes = tasks * plan.columns * dtype.size() as u64;
    let write = Region { address: to.address, bytes };
    ctx.run(&pipeline, &push, tasks, plan.teams(), &[source.at.region], &[write])
}
