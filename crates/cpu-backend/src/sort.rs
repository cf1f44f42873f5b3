//! Sorting along an axis: ascending, stable, NaN last.

use std::cmp::Ordering;

use bytemuck::Zeroable;
use mlx_vulkan_core::{Array, Result, backend::Output, dispatch_dtype, primitives::SortOp};
use rayon::slice::ParallelSliceMut;

use crate::{
    along_axis::along_axis,
    elementwise::{PARALLEL, for_chunks},
    encoder::{Encoder, In, args},
    number::Number,
    strided::Source,
};

/// Hands a primitive of this family to its function.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    op: SortOp,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    match op {
        SortOp::Sort { axis } => sort(enc, axis, None, args(inputs), output),
        SortOp::Partition { kth, axis } => sort(enc, axis, Some(kth), args(inputs), output),
        SortOp::ArgSort { axis } => argsort(enc, axis, None, args(inputs), output),
        SortOp::ArgPartition { kth, axis } => argsort(enc, axis, Some(kth), args(inputs), output),
        SortOp::SearchSorted { right } => search(enc, right, args(inputs), output),
    }
}

/// Encodes the sorted rows along `axis`; with `kth`, only that element is where it belongs, smaller
/// ones before and larger ones behind it.
fn sort(
    enc: &mut Encoder<'_>,
    axis: usize,
    kth: Option<usize>,
    [a]: &[Array; 1],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let input = In::from(a);
    dispatch_dtype!(input.dtype, T => enc.push(move || {
        along_axis::<T, T>(axis, &input, &out, |row, out| {
            out.copy_from_slice(row);
            order(out, kth, |a, b| a.order(*b));
        });
    }))
}

/// Encodes the indices (uint32) of the order that [`sort`] makes.
fn argsort(
    enc: &mut Encoder<'_>,
    axis: usize,
    kth: Option<usize>,
    [a]: &[Array; 1],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let input = In::from(a);
    dispatch_dtype!(input.dtype, T => enc.push(move || {
        along_axis::<T, u32>(axis, &input, &out, |row, out| {
            out.iter_mut().zip(0..).for_each(|(x, i)| *x = i);
            // The index decides between equals: the order is stable, and the same on any machine.
            order(out, kth, |&i, &j| row[i as usize].order(row[j as usize]).then(i.cmp(&j)));
        });
    }))
}

/// Encodes the indices (uint32) in the sorted `a` before which the elements of `values` belong, or
/// behind elements that are equal if `right`.
fn search(
    enc: &mut Encoder<'_>,
    right: bool,
    [a, values]: &[Array; 2],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let (a, values) = (In::from(a), In::from(values));
    let before = if right { Ordering::is_le } else { Ordering::is_lt };
    dispatch_dtype!(a.dtype, T => enc.push(move || {
        let (sorted, values_in) = (a.read::<T>(), values.read::<T>());
        let source = Source::row_major(&sorted, &a);
        let mut buffer = if source.is_flat() { Vec::new() } else { vec![T::zeroed(); a.size()] };
        let row = source.block(0, a.size(), &mut buffer);
        let values = Source::row_major(&values_in, &values);
        for_chunks(&mut out.write::<u32>(), |first, chunk| {
            let mut wanted = vec![T::zeroed(); chunk.len()];
            values.read(first, &mut wanted);
            for (index, v) in chunk.iter_mut().zip(wanted) {
                *index = row.partition_point(|x| before(x.order(v))) as u32;
            }
        });
    }))
}

/// Sorts a row, or partitions it around element `kth`.
fn order<T: Send>(row: &mut [T], kth: Option<usize>, compare: impl Fn(&T, &T) -> Ordering + Sync) {
    match kth {
        Some(kth) => drop(row.select_nth_unstable_by(kth, compare)),
        None if row.len() >= PARALLEL => row.par_sort_by(compare),
        None => row.sort_by(compare),
    }
}
