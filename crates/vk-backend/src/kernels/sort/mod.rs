//! Sorting along an axis: ascending, stable, NaN last. Partitions sort fully.
//!
//! Rows that fit into shared memory are sorted there in one dispatch. Longer ones go through a
//! radix sort, 8 bits a pass: count the digits of each part of a row, sum up the counts, move the
//! elements (with their indices where those are asked for).

mod radix;
mod search;

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::SortOp, shape};
use search::search;

use super::{
    Capabilities, Ctx, args,
    layouts::sort_block::{self as block, Constants, Push},
    reduce::{View, planner as plan},
    strided::Walk,
};

/// The most elements of a row that are sorted in shared memory.
fn block_capacity(caps: &Capabilities, wide: bool) -> u32 {
    let element = if wide { 12 } else { 8 };
    (1 << (caps.shared_memory / element).max(2).ilog2()).min(2048)
}

/// An array as rows along an axis.
struct Rows<'a> {
    source: &'a View,
    axis: usize,
    wide: bool,
    /// Indices instead of elements.
    indices: bool,
}

impl Rows<'_> {
    fn length(&self) -> u64 {
        self.source.shape[self.axis] as u64
    }

    fn moved<T: Copy>(&self, values: &[T]) -> Vec<T> {
        let others = (0..values.len()).filter(|&x| x != self.axis);
        others.chain([self.axis]).map(|x| values[x]).collect()
    }
}

/// Encodes the primitives of this family.
///
/// # Errors
/// When the backend refuses it, or memory or the device fails.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    op: SortOp,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    match op {
        SortOp::Sort { axis } | SortOp::Partition { axis, .. } => {
            sort(ctx, axis, false, &inputs[0], output)
        }
        SortOp::ArgSort { axis } | SortOp::ArgPartition { axis, .. } => {
            sort(ctx, axis, true, &inputs[0], output)
        }
        SortOp::SearchSorted { right } => search(ctx, right, args(inputs), output),
    }
}

/// Encodes the sorted rows along `axis`, or the indices of their order.
fn sort(
    ctx: &mut Ctx<'_>,
    axis: usize,
    indices: bool,
    a: &Array,
    output: &mut Output,
) -> Result<()> {
    if a.size() == 0 {
        ctx.output(output)?;
        return Ok(());
    }
    if a.shape()[axis] > u32::MAX as usize {
        return Err(ctx.unsupported(a, "rows of 2^32 elements and more are not sorted on the GPU"));
    }
    let source = View::of(ctx, a)?;
    let wide = a.dtype().size() == 8;
    let input = Rows { source: &source, axis, wide, indices };
    match input.length() <= u64::from(block_capacity(ctx.capabilities(), wide)) {
        true => short_rows(ctx, &input, output),
        false => radix::sort(ctx, &input, output),
    }
}

/// One dispatch of the network in shared memory.
fn short_rows(ctx: &mut Ctx<'_>, input: &Rows<'_>, output: &mut Output) -> Result<()> {
    let to = ctx.output(output)?;
    let source = input.source;
    let out_strides = shape::row_major_strides(&source.shape);
    let last = source.shape.len() - 1;
    let (shape, strides) = (input.moved(&source.shape), input.moved(&source.strides));
    let moved_out = input.moved(&out_strides);
    let rows = Walk::new(&shape[..last], [&strides[..last], &moved_out[..last]]);
    let row = (input.length() as u32).next_power_of_two();
    let group = plan::group(ctx.capabilities());
    // A pair for each thread, if the rows are that short.
    let capacity = row.max(2 * group).min(block_capacity(ctx.capabilities(), input.wide));
    let push = Push {
        source: source.at.address,
        destination: to.address,
        rows: rows.count(),
        row_walk: ctx.args(&rows.pack())?,
        stride: strides[last] as i64,
        out_stride: moved_out[last] as i64,
        length: input.length() as u32,
        row_ndim: if rows.count() == 1 { 0 } else { rows.ndim() },
    };
    let kernel = if input.wide { block::SORT_BLOCK_WIDE } else { block::SORT_BLOCK_NARROW };
    let constants = Constants {
        workgroup: group,
        from: source.dtype as u32,
        row,
        capacity,
        indices: u32::from(input.indices),
    };
    let pipeline = ctx.pipeline(kernel, &constants);
    let at_a_time = u64::from(capacity / row);
    ctx.run(&pipeline, &push, rows.count(), at_a_time, &[source.at.region], &[to.region])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_fit_into_shared_memory() {
        let gpu = Capabilities { shared_memory: 48 << 10, ..Capabilities::default() };
        assert_eq!(block_capacity(&gpu, true), 2048);
        let small = Capabilities { shared_memory: 16 << 10, ..gpu };
        assert_eq!((block_capacity(&small, false), block_capacity(&small, true)), (2048, 1024));
    }
}
