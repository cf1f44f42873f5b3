//! Reading elements at indices. Negative indices count from the end; any that still lie outside
//! are moved to the nearest element, so that no foreign memory is read.

use mlx_core::{Array, Dtype, Element, Result, Strides, backend::Output, shape::num_elements};

use crate::{
    elementwise::{dispatch_size, for_chunks, for_rows},
    encoder::{Encoder, In, Out},
    strided::{Source, Walk, read_run},
};

/// Encodes the slices of `a` along `axis` at the indices.
pub(crate) fn take(
    enc: &mut Encoder<'_>,
    axis: usize,
    [a, indices]: &[Array; 2],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let (a, indices) = (In::from(a), In::from(indices));
    dispatch_size!(out.dtype, T => enc.push(move || take_slices::<T>(axis, &a, &indices, &out)))
}

/// Each row of the output is a slice: the axes behind `axis` at one index.
fn take_slices<T: Element>(axis: usize, a: &In, indices: &In, out: &Out) {
    if a.shape[axis] == 0 {
        return out.write::<T>().fill(T::zeroed());
    }
    let picks = resolve(indices, a.shape[axis]);
    let strides = &a.layout.strides;
    let outer = Walk { shape: a.shape[..axis].into(), strides: strides[..axis].into() };
    let inner = Walk::new(&a.shape[axis + 1..], &strides[axis + 1..]);
    let elements = a.read::<T>();
    let (data, origin) = (elements.buffer(), elements.first());
    for_rows(&mut out.write::<T>(), inner.len(), out.size(), |row, slice| {
        let pick = picks[row % picks.len()] as isize * strides[axis];
        let start = outer.offsets(row / picks.len()).offset + pick;
        inner.runs(0, slice.len(), |place, offset, stride| {
            let first = origin.wrapping_add_signed(start + offset);
            read_run(data, first, stride, &mut slice[place]);
        });
    });
}

/// Encodes the elements of `a` at the indices along `axis`; the other axes agree.
pub(crate) fn take_along_axis(
    enc: &mut Encoder<'_>,
    axis: usize,
    [a, indices]: &[Array; 2],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let (a, indices) = (In::from(a), In::from(indices));
    dispatch_size!(out.dtype, T => enc.push(move || take_elements::<T>(axis, &a, &indices, &out)))
}

fn take_elements<T: Element>(axis: usize, a: &In, indices: &In, out: &Out) {
    if a.shape[axis] == 0 {
        return out.write::<T>().fill(T::zeroed());
    }
    let picks = resolve(indices, a.shape[axis]);
    let along = a.layout.strides[axis];
    // The walk over the output stays at index 0 of the axis.
    let mut strides: Strides = a.layout.strides.clone();
    strides[axis] = 0;
    let walk = Walk::new(&out.shape, &strides);
    let elements = a.read::<T>();
    let (data, origin) = (elements.buffer(), elements.first());
    for_chunks(&mut out.write::<T>(), |first, chunk| {
        let picks = &picks[first..first + chunk.len()];
        walk.runs(first, chunk.len(), |place, offset, stride| {
            let mut at = origin.wrapping_add_signed(offset);
            for (x, &pick) in chunk[place.clone()].iter_mut().zip(&picks[place]) {
                *x = data[at.wrapping_add_signed(pick as isize * along)];
                at = at.wrapping_add_signed(stride);
            }
        });
    });
}

/// The indices in row-major order, each in `0..n`.
pub(crate) fn resolve(indices: &In, n: usize) -> Vec<usize> {
    match indices.dtype {
        Dtype::Int8 => resolve_as::<i8>(indices, n),
        Dtype::Int16 => resolve_as::<i16>(indices, n),
        Dtype::Int32 => resolve_as::<i32>(indices, n),
        Dtype::Int64 => resolve_as::<i64>(indices, n),
        Dtype::Uint8 | Dtype::Bool => resolve_as::<u8>(indices, n),
        Dtype::Uint16 => resolve_as::<u16>(indices, n),
        Dtype::Uint32 => resolve_as::<u32>(indices, n),
        Dtype::Uint64 => resolve_as::<u64>(indices, n),
        other => unreachable!("core refuses {other} indices"),
    }
}

fn resolve_as<T: Element + Into<i128>>(indices: &In, n: usize) -> Vec<usize> {
    let elements = indices.read::<T>();
    let mut dense = vec![T::zeroed(); num_elements(&indices.shape)];
    let source = Source::row_major(&elements, indices);
    for_chunks(&mut dense, |first, chunk| source.read(first, chunk));
    dense.into_iter().map(|i| wrap(i.into(), n)).collect()
}

/// An index that counts from the end if it is negative, moved into `0..n`.
fn wrap(index: i128, n: usize) -> usize {
    let n = n as i128;
    let index = if index < 0 { index + n } else { index };
    index.clamp(0, (n - 1).max(0)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_never_leave_the_axis() {
        assert_eq!([0i128, 4, -1, -5, 5, -6].map(|i| wrap(i, 5)), [0, 4, 4, 0, 4, 0]);
        assert_eq!(wrap(u64::MAX as i128, 5), 4);
        assert_eq!(wrap(3, 0), 0);
    }
}
