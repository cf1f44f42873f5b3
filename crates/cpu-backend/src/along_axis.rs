//! Functions of rows along any axis: what scans, sorts and arg reductions share.

use mlx_vulkan_core::{Element, Strides};
use smallvec::SmallVec;

use crate::{
    elementwise::{for_chunks, for_rows},
    encoder::{In, Out},
    strided::Source,
};

/// Calls `f` with each row of the input along `axis` and the row of the output that belongs to it.
/// The two may differ in length. Rows that are not dense are gathered before and scattered after.
pub(crate) fn along_axis<T: Element, U: Element>(
    axis: usize,
    input: &In,
    out: &Out,
    f: impl Fn(&[T], &mut [U]) + Sync,
) {
    let mut target = out.write::<U>();
    if target.is_empty() || input.size() == 0 {
        return;
    }
    // The output's rows are dense if nothing but axes of size 1 is behind the axis.
    if out.shape[axis + 1..].iter().all(|&d| d == 1) {
        return each_row(axis, input, &mut target, out.shape[axis], f);
    }
    let mut moved = vec![U::zeroed(); target.len()];
    each_row(axis, input, &mut moved, out.shape[axis], f);
    let moved = Source::of_slice(&moved, &out.shape, &strides_of_moved(&out.shape, axis));
    for_chunks(&mut target, |first, chunk| moved.read(first, chunk));
}

/// Calls `f` with the rows of an output in which the axis is last, and `len` long.
fn each_row<T: Element, U: Element>(
    axis: usize,
    input: &In,
    target: &mut [U],
    len: usize,
    f: impl Fn(&[T], &mut [U]) + Sync,
) {
    let elements = input.read::<T>();
    let (shape, strides) = (last(&input.shape, axis), last(&input.layout.strides, axis));
    let source = Source::strided(&elements, &shape, &strides);
    let n = input.shape[axis];
    for_rows(target, len, input.size(), |i, row| {
        let mut buffer = if source.is_flat() { Vec::new() } else { vec![T::zeroed(); n] };
        f(source.block(i * n, n, &mut buffer), row);
    });
}

/// The axes' values with `axis` moved to the end.
fn last<T: Copy>(values: &[T], axis: usize) -> SmallVec<[T; 4]> {
    let mut moved = SmallVec::from_slice(values);
    let value = moved.remove(axis);
    moved.push(value);
    moved
}

/// Strides, in the order of `shape`, of dense memory in which `axis` is last.
fn strides_of_moved(shape: &[usize], axis: usize) -> Strides {
    let mut strides = Strides::from_elem(1, shape.len());
    let mut stride = shape[axis] as isize;
    for other in (0..shape.len()).rev().filter(|&x| x != axis) {
        strides[other] = stride;
        stride *= shape[other] as isize;
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_axes() {
        assert_eq!(last(&[2, 3, 4], 0).as_slice(), [3, 4, 2]);
        assert_eq!(strides_of_moved(&[2, 3, 4], 0).as_slice(), [1, 8, 2]);
        assert_eq!(strides_of_moved(&[2, 3, 4], 2).as_slice(), [12, 4, 1]);
    }
}
