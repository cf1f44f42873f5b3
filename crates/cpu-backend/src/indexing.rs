//! Reading elements at indices. Negative indices count from the end; any that still lie outside
//! are moved to the nearest element, so that no foreign memory is read.

use mlx_vulkan_core::{
    Array, Dtype, Element, Result, Strides,
    backend::Output,
    locations::{Locations, Pick},
    primitives::IndexingOp,
    shape::{num_elements, row_major_strides},
};

use crate::{
    elementwise::{dispatch_size, for_chunks, for_rows},
    encoder::{Encoder, In, Out, args},
    scatter,
    strided::{Source, Walk, Walks, read_run},
};

/// Hands a primitive of this family to its function.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    op: &IndexingOp,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    match op {
        IndexingOp::Take { axis } => take(enc, *axis, args(inputs), output),
        IndexingOp::TakeAlongAxis { axis } => take_along_axis(enc, *axis, args(inputs), output),
        IndexingOp::Gather { axes, slice_sizes } => gather(enc, axes, slice_sizes, inputs, output),
        IndexingOp::Scatter { op, axes } => scatter::scatter(enc, *op, axes, inputs, output),
        IndexingOp::ScatterAxis { op, axis } => {
            scatter::scatter_axis(enc, *op, *axis, args(inputs), output)
        }
    }
}

/// Encodes the slices of `a` along `axis` at the indices.
fn take(
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
    let picks = resolve(indices, |i| wrap(i, a.shape[axis]));
    let strides = &a.layout.strides;
    let outer = Walk { shape: a.shape[..axis].into(), strides: strides[..axis].into() };
    let inner = Walk::new(&a.shape[axis + 1..], &strides[axis + 1..]);
    let elements = a.read::<T>();
    let (data, origin) = (elements.buffer(), elements.first());
    for_rows(&mut out.write::<T>(), inner.len(), out.size(), |row, slice| {
        let pick = picks[row % picks.len()] as isize * strides[axis];
        let start = outer.offsets(row / picks.len()).offset + pick;
        inner.runs(0, slice.len(), |range, offset, stride| {
            let first = origin.wrapping_add_signed(start + offset);
            read_run(data, first, stride, &mut slice[range]);
        });
    });
}

/// Encodes the elements of `a` at the indices along `axis`; the other axes agree.
fn take_along_axis(
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
    let picks = resolve(indices, |i| wrap(i, a.shape[axis]));
    let along = a.layout.strides[axis];
    // The walk over the output stays at index 0 of the axis.
    let mut strides: Strides = a.layout.strides.clone();
    strides[axis] = 0;
    let walk = Walk::new(&out.shape, &strides);
    let elements = a.read::<T>();
    let (data, origin) = (elements.buffer(), elements.first());
    for_chunks(&mut out.write::<T>(), |first, chunk| {
        let picks = &picks[first..first + chunk.len()];
        walk.runs(first, chunk.len(), |range, offset, stride| {
            let mut at = origin.wrapping_add_signed(offset);
            for (x, &pick) in chunk[range.clone()].iter_mut().zip(&picks[range]) {
                *x = data[at.wrapping_add_signed(pick as isize * along)];
                at = at.wrapping_add_signed(stride);
            }
        });
    });
}

/// Encodes slices of `slice_sizes` of the first input at the others' indices into `axes`.
fn gather(
    enc: &mut Encoder<'_>,
    axes: &[usize],
    slice_sizes: &[usize],
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let a = In::from(&inputs[0]);
    let indices: Vec<In> = inputs[1..].iter().map(In::from).collect();
    let locations =
        slice_locations((&a.shape, &a.layout.strides), &indices, axes, slice_sizes, &[]);
    dispatch_size!(out.dtype, T => enc.push(move || read_slices::<T>(&locations, &a, &indices, &out)))
}

/// The locations of slices at indices that are resolved to dense lists.
pub(crate) fn slice_locations(
    array: (&[usize], &[isize]),
    indices: &[In],
    axes: &[usize],
    sizes: &[usize],
    others: &[&[isize]],
) -> Locations {
    let shape = indices.first().map_or(&[][..], |i| &i.shape);
    let dense = row_major_strides(shape);
    Locations::of_slices(array, shape, &vec![&dense[..]; indices.len()], axes, sizes, others)
}

fn read_slices<T: Element>(locations: &Locations, a: &In, indices: &[In], out: &Out) {
    let picks: Vec<Vec<isize>> = indices
        .iter()
        .zip(&locations.picks)
        .map(|(i, pick)| resolve(i, |i| inside(i, pick).clamp(0, pick.last.max(0)) * pick.stride))
        .collect();
    let elements = a.read::<T>();
    let (data, origin) = (elements.buffer(), elements.first());
    let walks = Walks::new(&locations.shape, &locations.strides);
    let strides: Vec<isize> = walks.last().collect();
    let still = strides[1..].iter().all(|&s| s == 0);
    for_chunks(&mut out.write::<T>(), |first, chunk| {
        walks.runs(first, chunk.len(), |range, offsets| {
            let at = |j: isize| {
                let lists = picks.iter().zip(&offsets[1..]).zip(&strides[1..]);
                let picked: isize = lists.map(|((p, &o), &s)| p[(o + j * s) as usize]).sum();
                origin.wrapping_add_signed(offsets[0] + j * strides[0] + picked)
            };
            if still {
                return read_run(data, at(0), strides[0], &mut chunk[range]);
            }
            chunk[range].iter_mut().enumerate().for_each(|(j, x)| *x = data[at(j as isize)]);
        });
    });
}

/// What each index, in row-major order, becomes.
pub(crate) fn resolve<R>(indices: &In, convert: impl Fn(i128) -> R) -> Vec<R> {
    match indices.dtype {
        Dtype::Int8 => resolve_as::<i8, R>(indices, convert),
        Dtype::Int16 => resolve_as::<i16, R>(indices, convert),
        Dtype::Int32 => resolve_as::<i32, R>(indices, convert),
        Dtype::Int64 => resolve_as::<i64, R>(indices, convert),
        Dtype::Uint8 | Dtype::Bool => resolve_as::<u8, R>(indices, convert),
        Dtype::Uint16 => resolve_as::<u16, R>(indices, convert),
        Dtype::Uint32 => resolve_as::<u32, R>(indices, convert),
        Dtype::Uint64 => resolve_as::<u64, R>(indices, convert),
        other => unreachable!("core refuses {other} indices"),
    }
}

fn resolve_as<T: Element + Into<i128>, R>(indices: &In, convert: impl Fn(i128) -> R) -> Vec<R> {
    let elements = indices.read::<T>();
    let mut dense = vec![T::zeroed(); num_elements(&indices.shape)];
    let source = Source::row_major(&elements, indices);
    for_chunks(&mut dense, |first, chunk| source.read(first, chunk));
    dense.into_iter().map(|i| convert(i.into())).collect()
}

/// An index that counts from the end if it is negative, as far as it fits.
pub(crate) fn inside(index: i128, pick: &Pick) -> isize {
    let index = if index < 0 { index + pick.size as i128 } else { index };
    index.clamp(isize::MIN as i128, isize::MAX as i128) as isize
}

/// An index that counts from the end if it is negative, moved into `0..n`.
pub(crate) fn wrap(index: i128, n: usize) -> usize {
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
