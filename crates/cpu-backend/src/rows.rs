//! Arrays as rows along their last axis, wherever they lie.

use mlx_vulkan_core::{
    Shape, Strides,
    shape::{collapse_contiguous, num_elements},
};

use crate::{encoder::In, float::Real};

/// Where the rows of an array start: all axes before `kept` ones count as one.
pub(crate) struct RowStarts {
    shape: Shape,
    strides: Strides,
    first: usize,
    /// Number of rows.
    pub(crate) count: usize,
}

impl RowStarts {
    /// The starts of the parts of `input` that its last `kept` axes make up, in elements of its
    /// buffer.
    pub(crate) fn new(input: &In, kept: usize) -> Self {
        let axes = input.shape.len() - kept;
        let first = input.layout.offset / input.dtype.size();
        Self::of(&input.shape[..axes], &input.layout.strides[..axes], first)
    }

    /// The starts of the elements of a strided shape.
    pub(crate) fn of(shape: &[usize], strides: &[isize], first: usize) -> Self {
        let count = num_elements(shape);
        let (shape, [strides]) = collapse_contiguous(shape, [strides]);
        RowStarts { shape, strides, first, count }
    }

    /// The distance of neighbouring rows, if it is the same everywhere.
    pub(crate) fn uniform_stride(&self) -> Option<isize> {
        (self.shape.len() == 1).then(|| self.strides[0])
    }

    /// Index of the first element of a row.
    #[inline]
    pub(crate) fn at(&self, mut row: usize) -> usize {
        let mut at = self.first as isize;
        for axis in (1..self.shape.len()).rev() {
            at += (row % self.shape[axis]) as isize * self.strides[axis];
            row /= self.shape[axis];
        }
        (at + row as isize * self.strides[0]) as usize
    }
}

/// Widens a strided run of elements that starts at `data[first]`.
pub(crate) fn widen_row<T: Real>(data: &[T], first: usize, stride: isize, out: &mut [T::Wide]) {
    if stride == 1 {
        return T::widen_slice(&data[first..], out);
    }
    for (i, out) in out.iter_mut().enumerate() {
        *out = data[first.wrapping_add_signed(i as isize * stride)].widen();
    }
}

/// Widens all elements of an array, in row-major order.
pub(crate) fn widen_rows<T: Real>(input: &In, out: &mut [T::Wide]) {
    if out.is_empty() {
        return;
    }
    let data = input.read::<T>();
    let (Some(&length), Some(&stride)) = (input.shape.last(), input.layout.strides.last()) else {
        return widen_row(data.buffer(), data.first(), 1, out);
    };
    let starts = RowStarts::new(input, 1);
    for (i, row) in out.chunks_mut(length).enumerate() {
        widen_row(data.buffer(), starts.at(i), stride, row);
    }
}

/// All elements of an array, widened, in row-major order.
pub(crate) fn widened<T: Real>(input: &In) -> Vec<T::Wide> {
    let mut all = vec![T::Wide::default(); input.size()];
    widen_rows::<T>(input, &mut all);
    all
}
