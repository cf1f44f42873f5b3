//! Functions of rows along any axis: what scans, sorts and arg reductions share.

use mlx_core::{Element, Strides};

use crate::{
    elementwise::{for_chunks, for_rows},
    encoder::{In, Out},
    strided::Source,
};

/// Calls `f` with each row of the input along `axis` and the row of the output at the same place,
/// `len` elements long along the axis.
///
/// Rows that are not dense are gathered first and scattered afterwards.
pub(crate) fn along_axis<T: Element, U: Element>(
    axis: usize,
    input: &In,
    out: &Out,
    f: impl Fn(&[T], &mut [U]) + Sync,
) {
    let size = out.size();
    if size == 0 || input.size() == 0 {
        return;
    }
    let (n, len) = (input.shape[axis], out.shape[axis]);
    let elements = input.read::<T>();
    let rows = last(&input.layout.strides, axis);
    let source = Source::strided(&elements, &last(&input.shape, axis), &rows);
    let apply = |target: &mut [U]| {
        for_rows(target, len, input.size(), |i, row| {
            let mut buffer = if source.is_flat() { Vec::new() } else { vec![T::zeroed(); n] };
            f(source.block(i * n, n, &mut buffer), row);
        });
    };
    let mut target = out.write::<U>();
    // Sizes behind the axis decide whether the output's rows are dense.
    if out.shape[axis + 1..].iter().all(|&d| d == 1) {
        return apply(&mut target);
    }
    let mut moved = vec![U::zeroed(); size];
    apply(&mut moved);
    let back = moved_back(&out.shape, axis);
    let moved = Source::of_slice(&moved, &out.shape, &back);
    for_chunks(&mut target, |first, chunk| moved.read(first, chunk));
}

/// The axes' values with `axis` moved to the end.
fn last<T: Copy, const N: usize>(values: &smallvec::SmallVec<[T; N]>, axis: usize) -> smallvec::SmallVec<[T; N]>
where
    [T; N]: smallvec::Array<Item = T>,
{
    let mut moved = values.clone();
    let value = moved.remove(axis);
    moved.push(value);
    moved
}

/// Strides, in the order of `shape`, of dense memory in which `axis` is last.
fn moved_back(shape: &[usize], axis: usize) -> Strides {
    let mut strides = Strides::from_elem(1, shape.len());
    let mut stride = shape[axis] as isize;
    for other in (0..shape.len()).rev().filter(|&x| x != axis) {
        strides[other] = stride;
        stride *= shape[other] as isize;
    }
    strides
}
