//! Reductions over axes, and indices of extremes.

use mlx_vulkan_core::{
    Array, Complex, Dtype, Element, Result,
    backend::Output,
    bf16, dispatch_dtype,
    dtype::Bool8,
    f16,
    primitives::{ArgReduce, ArgReduceOp, Reduce, ReduceOp},
};

use crate::{
    along_axis::along_axis,
    elementwise::{CHUNK, PARALLEL, collect, for_rows},
    encoder::{Encoder, In, Out},
    monoid::{Accumulate, Max, Min, Monoid, Prod, Sum, add_row, total},
    number::Number,
    strided::Walk,
};

/// Encodes the reduction of `a` over `axes`. Sums and products of floats run in float64; signed
/// integers are summed and multiplied as unsigned ones, whose bits are the same.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    Reduce { op, axes }: &Reduce,
    [a]: &[Array; 1],
    out: &mut Output,
) -> Result<()> {
    use Dtype::*;
    let op = *op;
    match (op, a.dtype()) {
        (ReduceOp::All, _) => push::<Bool8, Min>(enc, axes, a, out),
        (ReduceOp::Any, _) => push::<Bool8, Max>(enc, axes, a, out),
        (ReduceOp::Max, dtype) => dispatch_dtype!(dtype, T => push::<T, Max>(enc, axes, a, out)),
        (ReduceOp::Min, dtype) => dispatch_dtype!(dtype, T => push::<T, Min>(enc, axes, a, out)),
        (_, Bool | Uint8 | Int8) => arithmetic::<u8>(enc, op, axes, a, out),
        (_, Uint16 | Int16) => arithmetic::<u16>(enc, op, axes, a, out),
        (_, Uint32 | Int32) => arithmetic::<u32>(enc, op, axes, a, out),
        (_, Uint64 | Int64) => arithmetic::<u64>(enc, op, axes, a, out),
        (_, Float16) => arithmetic::<f16>(enc, op, axes, a, out),
        (_, Bfloat16) => arithmetic::<bf16>(enc, op, axes, a, out),
        (_, Float32) => arithmetic::<f32>(enc, op, axes, a, out),
        (_, Float64) => arithmetic::<f64>(enc, op, axes, a, out),
        (_, Complex64) => arithmetic::<Complex>(enc, op, axes, a, out),
    }
}

fn arithmetic<T: Accumulate>(
    enc: &mut Encoder<'_>,
    op: ReduceOp,
    axes: &[usize],
    a: &Array,
    out: &mut Output,
) -> Result<()> {
    match op {
        ReduceOp::Prod => push::<T, Prod>(enc, axes, a, out),
        _ => push::<T, Sum>(enc, axes, a, out),
    }
}

fn push<T: Element, M: Monoid<T>>(
    enc: &mut Encoder<'_>,
    axes: &[usize],
    a: &Array,
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let input = In::from(a);
    let plan = Plan::new(&input, axes);
    enc.push(move || run::<T, M>(&plan, &input, &out))
}

/// The two walks of a reduction.
struct Plan {
    /// Over the first elements of each output's part, in the order of the output.
    kept: Walk,
    /// Over the elements of a part, neighbours in memory last.
    reduced: Walk,
}

impl Plan {
    fn new(input: &In, axes: &[usize]) -> Self {
        let walk = |axes: &[usize]| {
            let shape: Vec<usize> = axes.iter().map(|&x| input.shape[x]).collect();
            let strides: Vec<isize> = axes.iter().map(|&x| input.layout.strides[x]).collect();
            Walk::new(&shape, &strides)
        };
        let kept: Vec<usize> = (0..input.shape.len()).filter(|x| !axes.contains(x)).collect();
        let mut reduced = axes.to_vec();
        reduced.sort_by_key(|&x| std::cmp::Reverse(input.layout.strides[x].unsigned_abs()));
        Plan { kept: walk(&kept), reduced: walk(&reduced) }
    }

    /// Whether neighbours in memory belong to different outputs.
    fn is_by_columns(&self) -> bool {
        let last = |walk: &Walk| walk.strides.last().map_or(0, |s| s.unsigned_abs());
        self.kept.len() > 1 && last(&self.kept) != 0 && last(&self.kept) < last(&self.reduced)
    }
}

fn run<T: Element, M: Monoid<T>>(plan: &Plan, input: &In, out: &Out) {
    let mut target = out.write::<T>();
    if plan.reduced.len() == 0 {
        return target.fill(M::finish(M::IDENTITY));
    }
    let elements = input.read::<T>();
    let part = Part { data: elements.buffer(), first: elements.first(), walk: &plan.reduced };
    match plan.is_by_columns() {
        true => columns::<T, M>(&part, &plan.kept, &mut target),
        false => rows::<T, M>(&part, &plan.kept, &mut target),
    }
}

/// The elements that one output is made of.
#[derive(Clone, Copy)]
struct Part<'a, T> {
    data: &'a [T],
    first: usize,
    walk: &'a Walk,
}

impl<T: Element> Part<'_, T> {
    fn moved(self, by: isize) -> Self {
        Part { first: self.first.wrapping_add_signed(by), ..self }
    }

    /// Total of the elements `at..at + len`.
    fn total<M: Monoid<T>>(&self, at: usize, len: usize) -> M::Total {
        let mut sum = M::IDENTITY;
        self.walk.runs(at, len, |range, offset, stride| {
            let first = self.first.wrapping_add_signed(offset);
            sum = M::join(sum, run_total::<T, M>(self.data, first, stride, range.len()));
        });
        sum
    }

    /// Totals of as many neighbouring parts, `stride` apart, as there are `totals`, over their
    /// elements `at..at + len`.
    fn add_columns<M: Monoid<T>>(
        &self,
        stride: isize,
        totals: &mut [M::Total],
        at: usize,
        len: usize,
    ) {
        self.walk.runs(at, len, |range, offset, between| {
            let mut first = self.first.wrapping_add_signed(offset);
            for _ in range {
                add_strided::<T, M>(self.data, first, stride, totals);
                first = first.wrapping_add_signed(between);
            }
        });
    }
}

fn run_total<T: Element, M: Monoid<T>>(
    data: &[T],
    first: usize,
    stride: isize,
    len: usize,
) -> M::Total {
    if stride == 1 {
        return total::<T, M>(&data[first..first + len]);
    }
    let element = |i: usize| data[first.wrapping_add_signed(i as isize * stride)];
    (0..len).fold(M::IDENTITY, |sum, i| M::push(sum, element(i)))
}

fn add_strided<T: Element, M: Monoid<T>>(
    data: &[T],
    first: usize,
    stride: isize,
    totals: &mut [M::Total],
) {
    if stride == 1 {
        return add_row::<T, M>(totals, &data[first..first + totals.len()]);
    }
    for (i, total) in totals.iter_mut().enumerate() {
        *total = M::push(*total, data[first.wrapping_add_signed(i as isize * stride)]);
    }
}

/// Each output is the total of elements that lie close together.
fn rows<T: Element, M: Monoid<T>>(part: &Part<'_, T>, kept: &Walk, target: &mut [T]) {
    let n = part.walk.len();
    if target.len() < 32 && n >= 4 * PARALLEL {
        let mut offsets = kept.offsets(0);
        for out in target {
            *out = M::finish(split_total::<T, M>(&part.moved(offsets.offset), n));
            offsets.advance();
        }
        return;
    }
    // Several outputs at a time, so that finding the first part is cheap beside the work.
    let some = (CHUNK / n).clamp(1, CHUNK);
    let work = target.len() * n;
    for_rows(target, some, work, |i, outputs| {
        let mut offsets = kept.offsets(i * some);
        for out in outputs {
            *out = M::finish(part.moved(offsets.offset).total::<M>(0, n));
            offsets.advance();
        }
    });
}

/// Total of a large part on all cores. The pieces depend on its size only, so the result is the
/// same on any machine.
fn split_total<T: Element, M: Monoid<T>>(part: &Part<'_, T>, n: usize) -> M::Total {
    let pieces: Vec<M::Total> = collect(n.div_ceil(PARALLEL), &|i| {
        part.total::<M>(i * PARALLEL, PARALLEL.min(n - i * PARALLEL))
    });
    pieces.into_iter().fold(M::IDENTITY, M::join)
}

/// Columns that are reduced side by side.
const TILE: usize = 2048;
/// Rows whose partial totals are joined at once, so that rounding errors do not pile up.
const ROWS: usize = 1024;

/// Neighbouring outputs are made of neighbouring elements: whole rows are added up.
fn columns<T: Element, M: Monoid<T>>(part: &Part<'_, T>, kept: &Walk, target: &mut [T]) {
    let n = part.walk.len();
    let work = target.len() * n;
    let (outer, inner, stride) = kept.clone().split_last();
    for_rows(target, inner, work, |row, outputs| {
        let part = part.moved(outer.offsets(row).offset);
        for_rows(outputs, TILE, n * inner, |tile, outputs| {
            let part = part.moved((tile * TILE) as isize * stride);
            let totals = tile_totals::<T, M>(&part, stride, outputs.len());
            outputs.iter_mut().zip(totals).for_each(|(x, t)| *x = M::finish(t));
        });
    });
}

/// Totals of `width` columns; many rows are split over the cores.
fn tile_totals<T: Element, M: Monoid<T>>(
    part: &Part<'_, T>,
    stride: isize,
    width: usize,
) -> Vec<M::Total> {
    let n = part.walk.len();
    let block = |at: usize, rows: usize| {
        let mut totals = vec![M::IDENTITY; width];
        part.add_columns::<M>(stride, &mut totals, at, rows.min(n - at));
        totals
    };
    let join = |mut a: Vec<M::Total>, b: Vec<M::Total>| {
        a.iter_mut().zip(b).for_each(|(a, b)| *a = M::join(*a, b));
        a
    };
    let rows = ROWS.max(PARALLEL / 4 / width);
    let one = |i: usize| block(i * rows, rows);
    let blocks: Vec<Vec<M::Total>> = match n * width >= 4 * PARALLEL {
        true => collect(n.div_ceil(rows), &one),
        false => (0..n.div_ceil(rows)).map(one).collect(),
    };
    blocks.into_iter().reduce(join).unwrap_or_default()
}

/// Encodes the first index of an extreme along `axis`. As in MLX, a NaN comes before every number.
pub(crate) fn arg_reduce(
    enc: &mut Encoder<'_>,
    ArgReduce { op, axis }: ArgReduce,
    [a]: &[Array; 1],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let input = In::from(a);
    dispatch_dtype!(input.dtype, T => enc.push(move || match op {
        ArgReduceOp::ArgMax => find::<T>(axis, &input, &out, |a, b| b.less(a)),
        ArgReduceOp::ArgMin => find::<T>(axis, &input, &out, |a, b| a.less(b)),
    }))
}

fn find<T: Number>(axis: usize, input: &In, out: &Out, better: impl Fn(T, T) -> bool + Sync) {
    /// Elements that are looked at together: in most parts of a long row there is no better one.
    const PART: usize = 64;
    let goes_before = |a: T, b: T| better(a, b) | (a.not_a_number() & !b.not_a_number());
    along_axis::<T, u32>(axis, input, out, |row, out| {
        let mut best = 0;
        for (part, values) in row.chunks(PART).enumerate() {
            let so_far = row[best];
            // Without an early end, which would keep the compiler from comparing several at once.
            if !values.iter().fold(false, |found, &x| found | goes_before(x, so_far)) {
                continue;
            }
            for (i, &value) in values.iter().enumerate() {
                if goes_before(value, row[best]) {
                    best = part * PART + i;
                }
            }
        }
        out[0] = best as u32;
    });
}
