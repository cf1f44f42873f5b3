//! Copies and conversions: astype, contiguous, full, reshape, slice update.

use mlx_vulkan_core::{
    Array, Dtype, Result, Strides,
    array::Data,
    backend::Output,
    primitives::{CopyOp, ShapeOp},
    shape::{self, Layout},
};

use super::{
    Ctx, Operand, Region,
    layouts::{copy as convert, copy_move as moves},
    strided::Walk,
    transpose::{Axes, transpose},
};
use crate::shaders::KernelOf;
use convert::Push;
use moves::MOVE_BYTES as MOVE;

/// An operand with its dtype, and how it is walked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StridedOperand<'a> {
    /// Its memory; the address is that of the first element walked.
    pub at: Operand,
    /// Its dtype.
    pub dtype: Dtype,
    /// Its strides in elements, one per axis of the copied shape.
    pub strides: &'a [isize],
}

/// How a copy runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyPlan {
    /// `move.comp` on elements of this many bytes, dense.
    Move { bytes: u32, count: u64 },
    /// `move.comp`: the source's only element everywhere.
    Fill { bytes: u32 },
    /// `transpose.comp`.
    Transpose { bytes: u32, axes: Axes },
    /// `move.comp` with strides, on so many neighbours of the last axis at a time.
    MoveStrided { bytes: u32, neighbours: u32 },
    /// `copy.comp` dense, four elements at a time.
    Convert4,
    /// `copy.comp` dense.
    Convert,
    /// `copy.comp` with strides.
    ConvertStrided,
}

/// Chooses the kernel for a copy; `aligned` says which powers of two both first elements lie on.
fn plan(walk: &Walk<2>, from: Dtype, to: Dtype, aligned: impl Fn(u64, u64) -> bool) -> CopyPlan {
    let dense = walk.is_dense(0) && walk.is_dense(1);
    let (from_size, to_size) = (from.size() as u64, to.size() as u64);
    if from == to {
        let bytes = from.size() as u32;
        return match dense {
            true if aligned(16, 16) => {
                // Whole 16-byte words; `copy` moves the rest by elements.
                CopyPlan::Move { bytes: 16, count: walk.count() * from_size / 16 }
            }
            true => CopyPlan::Move { bytes, count: walk.count() },
            false if walk.is_scalar(0) && walk.is_dense(1) => CopyPlan::Fill { bytes },
            false => match Axes::of(walk) {
                Some(axes) => CopyPlan::Transpose { bytes, axes },
                None => {
                    let neighbours = neighbours(walk, bytes, &aligned);
                    CopyPlan::MoveStrided { bytes: bytes * neighbours, neighbours }
                }
            },
        };
    }
    let narrow = from_size <= 4 && to_size <= 4;
    match dense {
        true if narrow && aligned(4 * from_size, 4 * to_size) => CopyPlan::Convert4,
        true => CopyPlan::Convert,
        false => CopyPlan::ConvertStrided,
    }
}

/// Elements of the last axis that lie on both sides as one word of at most 16 bytes, everywhere.
fn neighbours(walk: &Walk<2>, bytes: u32, aligned: &impl Fn(u64, u64) -> bool) -> u32 {
    let last = walk.shape.len() - 1;
    let words = |&count: &u32| {
        let (n, word) = (count as usize, u64::from(bytes * count));
        let whole = |strides: &Strides| {
            strides[last] == 1 && strides[..last].iter().all(|s| s % n as isize == 0)
        };
        word <= 16
            && aligned(word, word)
            && walk.shape[last].is_multiple_of(n)
            && walk.strides.iter().all(whole)
    };
    [16, 8, 4, 2].into_iter().find(words).unwrap_or(1)
}

/// The walk over words of so many neighbours.
fn by_words(walk: &Walk<2>, neighbours: u32) -> Walk<2> {
    let (mut words, n) = (walk.clone(), neighbours as usize);
    let last = words.shape.len() - 1;
    words.shape[last] /= n;
    for strides in &mut words.strides {
        strides[..last].iter_mut().for_each(|stride| *stride /= n as isize);
    }
    words
}

/// The kernel that loads `from`.
fn kernel(from: Dtype) -> KernelOf<convert::Constants, Push> {
    use convert::*;
    match from {
        Dtype::Float16 | Dtype::Bfloat16 | Dtype::Float32 | Dtype::Float64 => COPY_FLOAT,
        Dtype::Int8 | Dtype::Int16 | Dtype::Int32 => COPY_INT,
        Dtype::Bool | Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 => COPY_UINT,
        Dtype::Int64 => COPY_LONG,
        Dtype::Uint64 => COPY_ULONG,
        Dtype::Complex64 => COPY_COMPLEX,
    }
}

/// Copies `shape` from one side to the other, converting between their dtypes.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn copy(
    ctx: &mut Ctx<'_>,
    shape: &[usize],
    from: StridedOperand<'_>,
    to: StridedOperand<'_>,
) -> Result<()> {
    let walk = Walk::new(shape, [from.strides, to.strides]);
    let count = walk.count();
    if count == 0 {
        return Ok(());
    }
    let plan =
        plan(&walk, from.dtype, to.dtype, |a, b| from.at.is_aligned(a) && to.at.is_aligned(b));
    if let CopyPlan::Transpose { bytes, axes } = plan {
        return transpose(ctx, &walk, axes, bytes, [from.at, to.at]);
    }
    let group = ctx.capabilities().elementwise_workgroup();
    let mut push = Push {
        source: from.at.address,
        destination: to.at.address,
        count,
        walk: 0,
        ndim: walk.ndim(),
    };
    match plan {
        CopyPlan::ConvertStrided => push.walk = ctx.args(&walk.pack())?,
        CopyPlan::MoveStrided { neighbours, .. } => {
            let words = by_words(&walk, neighbours);
            (push.walk, push.count) = (ctx.args(&words.pack())?, words.count());
        }
        _ => {}
    }
    let (reads, writes, loads) = ([from.at.region], [to.at.region], kernel(from.dtype));
    if let CopyPlan::Move { bytes: 16, count: words } = plan {
        let done = words * 16;
        move_tail(
            ctx,
            &push,
            done,
            count * from.dtype.size() as u64,
            group,
            from.dtype,
            &reads,
            &writes,
        )?;
        push.count = words;
    }
    let (from, to, workgroup) = (from.dtype as u32, to.dtype as u32, group);
    let moves = |bytes, mode| moves::Constants { workgroup, bytes, mode };
    let converts = |mode| convert::Constants { workgroup, from, to, mode };
    let (pipeline, items) = match plan {
        CopyPlan::Move { bytes, count } => (ctx.pipeline(MOVE, &moves(bytes, moves::DENSE)), count),
        CopyPlan::MoveStrided { bytes, .. } => {
            (ctx.pipeline(MOVE, &moves(bytes, moves::STRIDED)), push.count)
        }
        CopyPlan::Fill { bytes } => (ctx.pipeline(MOVE, &moves(bytes, moves::FILL)), count),
        CopyPlan::Transpose { .. } => unreachable!("encoded above"),
        CopyPlan::Convert => (ctx.pipeline(loads, &converts(convert::DENSE)), count),
        CopyPlan::Convert4 => (ctx.pipeline(loads, &converts(convert::DENSE4)), count.div_ceil(4)),
        CopyPlan::ConvertStrided => (ctx.pipeline(loads, &converts(convert::STRIDED)), count),
    };
    ctx.run(&pipeline, &push, items, u64::from(group), &reads, &writes)
}

/// Moves the bytes after the last whole 16-byte word.
#[expect(clippy::too_many_arguments, reason = "a step of `copy`, split off for its length")]
fn move_tail(
    ctx: &mut Ctx<'_>,
    push: &Push,
    done: u64,
    total: u64,
    group: u32,
    dtype: Dtype,
    reads: &[Region; 1],
    writes: &[Region; 1],
) -> Result<()> {
    if done == total {
        return Ok(());
    }
    let size = dtype.size() as u64;
    let tail = Push {
        source: push.source + done,
        destination: push.destination + done,
        count: (total - done) / size,
        ..*push
    };
    // Precise regions: the words before the tail are another dispatch's.
    let part = |r: &Region, address| Region { address, bytes: (total - done).min(r.bytes) };
    let (reads, writes) = ([part(&reads[0], tail.source)], [part(&writes[0], tail.destination)]);
    let bytes = size as u32;
    let constants = moves::Constants { workgroup: group, bytes, mode: moves::DENSE };
    let pipeline = ctx.pipeline(MOVE, &constants);
    ctx.run(&pipeline, &tail, tail.count, u64::from(group), &reads, &writes)
}

/// Copies an array into a new row-major output.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn copy_to_output(ctx: &mut Ctx<'_>, input: &Array, output: &mut Output) -> Result<()> {
    let at = ctx.input(input)?;
    let to = ctx.output(output)?;
    let row_major = shape::row_major_strides(input.shape());
    let from =
        StridedOperand { at, dtype: input.dtype(), strides: &input.evaluated().layout.strides };
    let to = StridedOperand { at: to, dtype: output.dtype, strides: &row_major };
    copy(ctx, input.shape(), from, to)
}

/// A row-major form of an input for kernels that need one: the input itself if it already is, else
/// a copy in scratch memory.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn dense(ctx: &mut Ctx<'_>, input: &Array) -> Result<Operand> {
    let layout = &input.evaluated().layout;
    let at = ctx.input(input)?;
    if layout.flags.row_contiguous {
        return Ok(at);
    }
    let region = ctx.scratch(input.nbytes() as u64)?;
    let to = Operand { address: region.address, region };
    let row_major = shape::row_major_strides(input.shape());
    let from = StridedOperand { at, dtype: input.dtype(), strides: &layout.strides };
    copy(
        ctx,
        input.shape(),
        from,
        StridedOperand { at: to, dtype: input.dtype(), strides: &row_major },
    )?;
    Ok(to)
}

/// Encodes conversions and copies: those that core could not answer with the input itself.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    op: CopyOp,
    input: &Array,
    output: &mut Output,
) -> Result<()> {
    match op {
        CopyOp::AsType { .. } => as_type(ctx, input, output),
        CopyOp::View { .. } => view(ctx, input, output),
        CopyOp::Full | CopyOp::Contiguous { .. } => copy_to_output(ctx, input, output),
    }
}

/// Encodes the primitives with other axes that are no views.
pub(super) fn shape(
    ctx: &mut Ctx<'_>,
    op: &ShapeOp,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    match op {
        ShapeOp::Reshape(_) => copy_to_output(ctx, &inputs[0], output),
        ShapeOp::SliceUpdate { start, strides } => {
            slice_update(ctx, inputs, start, strides, output)
        }
        ShapeOp::Pad { low, .. } => pad(ctx, inputs, low, output),
        ShapeOp::Transpose { .. }
        | ShapeOp::Broadcast(_)
        | ShapeOp::ExpandDims { .. }
        | ShapeOp::Squeeze { .. }
        | ShapeOp::AsStrided { .. }
        | ShapeOp::NumberOfElements { .. }
        | ShapeOp::Slice { .. } => unreachable!("core makes views"),
        ShapeOp::Concatenate { .. } => unreachable!("concatenate.rs does it"),
    }
}

/// Conversion; a dense input keeps its order, so that transposed weights stay transposed.
fn as_type(ctx: &mut Ctx<'_>, input: &Array, output: &mut Output) -> Result<()> {
    let layout = &input.evaluated().layout;
    let dense =
        layout.flags.contiguous && layout.data_size == input.size() && !layout.flags.row_contiguous;
    if !dense {
        return copy_to_output(ctx, input, output);
    }
    let at = ctx.input(input)?;
    let to = ctx.output_like(output, layout.clone())?;
    let from = StridedOperand { at, dtype: input.dtype(), strides: &[1] };
    let to = StridedOperand { at: to, dtype: output.dtype, strides: &[1] };
    copy(ctx, &[layout.data_size], from, to)
}

/// The bytes as another dtype, of an input that is not dense: copied dense first.
fn view(ctx: &mut Ctx<'_>, input: &Array, output: &mut Output) -> Result<()> {
    let at = ctx.input(input)?;
    let to = ctx.output(output)?;
    let row_major = shape::row_major_strides(input.shape());
    let from =
        StridedOperand { at, dtype: input.dtype(), strides: &input.evaluated().layout.strides };
    copy(
        ctx,
        input.shape(),
        from,
        StridedOperand { at: to, dtype: input.dtype(), strides: &row_major },
    )
}

/// The first input, in place where it can be donated, with a slice replaced by the second.
fn slice_update(
    ctx: &mut Ctx<'_>,
    inputs: &[Array],
    start: &[isize],
    steps: &[isize],
    output: &mut Output,
) -> Result<()> {
    let (whole, update) = (&inputs[0], &inputs[1]);
    let to = updated(ctx, whole, output)?;
    let strides = shape::row_major_strides(whole.shape());
    let first: isize = start.iter().zip(&strides).map(|(&i, &s)| i * s).sum();
    let stepped: Strides = strides.iter().zip(steps).map(|(&s, &step)| s * step).collect();
    replace(ctx, to, first, &stepped, update)
}

/// The first input with the second one's value around it.
fn pad(ctx: &mut Ctx<'_>, inputs: &[Array], low: &[usize], output: &mut Output) -> Result<()> {
    let (a, value) = (&inputs[0], &inputs[1]);
    let (at, to) = (ctx.input(value)?, ctx.output(output)?);
    let strides = shape::row_major_strides(&output.shape);
    let same: Strides = strides.iter().map(|_| 0).collect();
    let from = StridedOperand { at, dtype: value.dtype(), strides: &same };
    let into = StridedOperand { at: to, dtype: output.dtype, strides: &strides };
    copy(ctx, &output.shape, from, into)?;
    if a.size() == 0 {
        return Ok(());
    }
    let first = low.iter().zip(&strides).map(|(&i, &s)| i as isize * s).sum();
    replace(ctx, to, first, &strides, a)
}

/// Copies `update` to the elements of a dense array from the one at `first` on, `strides` apart.
fn replace(
    ctx: &mut Ctx<'_>,
    whole: Operand,
    first: isize,
    strides: &[isize],
    update: &Array,
) -> Result<()> {
    let at = ctx.input(update)?;
    let dtype = update.dtype();
    let target = strided_part(whole.address, update.shape(), strides, first, dtype);
    let from = StridedOperand { at, dtype, strides: &update.evaluated().layout.strides };
    copy(ctx, update.shape(), from, StridedOperand { at: target, dtype, strides })
}

/// The memory of an output that is `whole` but for a part that is written next: the input's own where
/// it can be donated, else a copy.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn updated(ctx: &mut Ctx<'_>, whole: &Array, output: &mut Output) -> Result<Operand> {
    if let Some(to) = ctx.donate(whole, output)? {
        return Ok(to);
    }
    copy_to_output(ctx, whole, output)?;
    written(ctx, output)
}

/// The memory of an output that this primitive has written already.
pub(super) fn written(ctx: &mut Ctx<'_>, output: &Output) -> Result<Operand> {
    let Some(Data { buffer, layout }) = &output.data else {
        return Err(
            ctx.unsupported_output(output, "the output was not written before it is updated")
        );
    };
    let base = buffer.device().map_or(0, |d| d.address());
    let address = base + layout.offset as u64;
    Ok(Operand { address, region: Region { address, bytes: output.nbytes() as u64 } })
}

/// A strided part of a dense array whose first element is `first` elements from its start.
pub(super) fn strided_part(
    base: u64,
    shape: &[usize],
    strides: &[isize],
    first: isize,
    dtype: Dtype,
) -> Operand {
    let size = dtype.size() as i64;
    let layout = Layout::view(shape, strides.into(), 0, 0, false);
    let (low, high) = super::strided::span(shape, &layout);
    let address = base.wrapping_add_signed(first as i64 * size);
    let region = Region {
        address: address.wrapping_add_signed(low as i64 * size),
        bytes: ((high - low + 1) as i64 * size) as u64,
    };
    Operand { address, region }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_prefer_wide_dense_moves() {
        let dense = Walk::new(&[8, 8], [&[8, 1], &[8, 1]]);
        let all = |_, _| true;
        let f = Dtype::Float32;
        assert_eq!(plan(&dense, f, f, all), CopyPlan::Move { bytes: 16, count: 16 });
        assert_eq!(plan(&dense, f, f, |_, _| false), CopyPlan::Move { bytes: 4, count: 64 });
        assert_eq!(plan(&dense, f, Dtype::Float16, all), CopyPlan::Convert4);
        assert_eq!(plan(&dense, f, Dtype::Int64, all), CopyPlan::Convert);
        let transposed = Walk::new(&[8, 8], [&[1, 8], &[8, 1]]);
        assert!(matches!(plan(&transposed, f, f, all), CopyPlan::Transpose { bytes: 4, .. }));
        assert_eq!(plan(&transposed, f, Dtype::Bool, all), CopyPlan::ConvertStrided);
        let apart = Walk::new(&[8, 8], [&[16, 2], &[8, 1]]);
        let moves = |bytes, neighbours| CopyPlan::MoveStrided { bytes, neighbours };
        assert_eq!(plan(&apart, f, f, all), moves(4, 1));
        let rows = Walk::new(&[8, 6], [&[-10, 1], &[6, 1]]);
        assert_eq!(plan(&rows, f, f, all), moves(8, 2));
        assert_eq!(plan(&rows, f, f, |a, b| a.max(b) <= 4), moves(4, 1));
        let words = by_words(&rows, 2);
        assert_eq!((&words.shape[..], &words.strides[0][..]), (&[8, 3][..], &[-5, 1][..]));
        let scalar = Walk::new(&[8, 8], [&[0, 0], &[8, 1]]);
        assert_eq!(plan(&scalar, f, f, all), CopyPlan::Fill { bytes: 4 });
    }
}
