//! Shapes and strides as kernels take them.

use mlx_vulkan_core::{
    Array, Shape, Strides,
    shape::{self, Layout},
};
use smallvec::SmallVec;

use super::{
    Operand,
    layouts::common::{WALK_SIZES, WALK_STRIDES},
};

/// A walk over `N` operands of one shape: few axes, for `strided_offset` in `common.glsl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Walk<const N: usize> {
    /// Sizes of the merged axes; at least one.
    pub shape: Shape,
    /// Strides of each operand in elements.
    pub strides: [Strides; N],
}

impl<const N: usize> Walk<N> {
    /// Merges the axes that every operand walks as one.
    pub(crate) fn new(shape: &[usize], strides: [&[isize]; N]) -> Self {
        let (shape, strides) = shape::collapse_contiguous(shape, strides);
        Walk { shape, strides }
    }

    /// Number of axes.
    pub(crate) fn ndim(&self) -> u32 {
        self.shape.len() as u32
    }

    /// Number of elements.
    pub(crate) fn count(&self) -> u64 {
        self.shape.iter().map(|&d| d as u64).product()
    }

    /// Whether operand `k` is walked densely from its first element on.
    pub(crate) fn is_dense(&self, k: usize) -> bool {
        shape::is_row_contiguous(&self.shape, &self.strides[k])
    }

    /// Whether operand `k` is one element everywhere.
    pub(crate) fn is_scalar(&self, k: usize) -> bool {
        self.shape.iter().zip(&self.strides[k]).all(|(&d, &s)| d == 1 || s == 0)
    }

    /// Whether the last axis is made of groups of four, each of which is one element of memory or an aligned
    /// vector. `operands` are where they are and their bytes of an element.
    pub(crate) fn has_quads(&self, operands: [(Operand, usize); N]) -> bool {
        let last = self.shape.len() - 1;
        let vectors = |(strides, (at, size)): (&Strides, (Operand, usize))| match strides[last] {
            0 => true,
            1 => {
                let whole = strides[..last].iter().all(|stride| stride % 4 == 0);
                at.is_aligned(4 * size as u64) && whole
            }
            _ => false,
        };
        self.shape[last].is_multiple_of(4) && self.strides.iter().zip(operands).all(vectors)
    }

    /// The bytes that `strided_offset` reads; see [`pack`].
    pub(crate) fn pack(&self) -> SmallVec<[u8; 256]> {
        pack(&self.shape, &self.strides)
    }
}

const _: () = assert!(WALK_SIZES == 0 && WALK_STRIDES == 1, "pack has the rows in this order");

/// The bytes that `strided_offset` reads: sizes, then the strides of each operand, all int64.
pub(crate) fn pack(shape: &[usize], strides: &[Strides]) -> SmallVec<[u8; 256]> {
    let sizes = shape.iter().map(|&d| d as i64);
    let strides = strides.iter().flatten().map(|&s| s as i64);
    sizes.chain(strides).flat_map(i64::to_le_bytes).collect()
}

/// Walk over arrays that have the same shape, in the order given.
pub(crate) fn walk<const N: usize>(arrays: [&Array; N]) -> Walk<N> {
    let strides: [&[isize]; N] = arrays.map(|a| a.evaluated().layout.strides.as_slice());
    let shape = if N == 0 { &[][..] } else { arrays[0].shape() };
    Walk::new(shape, strides)
}

/// Lowest and highest offset from the first element, in elements, that an array touches.
pub(crate) fn span(shape: &[usize], layout: &Layout) -> (isize, isize) {
    if layout.flags.contiguous {
        return (0, layout.data_size.max(1) as isize - 1);
    }
    let mut range = (0isize, 0isize);
    for (&dim, &stride) in shape.iter().zip(&layout.strides) {
        let reach = (dim.max(1) as isize - 1) * stride;
        if reach < 0 {
            range.0 += reach;
        } else {
            range.1 += reach;
        }
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    #[test]
    fn walks_merge_and_pack() {
        let w = Walk::new(&[2, 3, 4], [&[12, 4, 1], &[0, 0, 0]]);
        assert_eq!((w.ndim(), w.count()), (1, 24));
        assert!(w.is_dense(0) && w.is_scalar(1) && !w.is_scalar(0));
        assert_eq!(w.pack().len(), 3 * 8);
        let w = Walk::new(&[2, 3], [&[1, 2]]);
        assert_eq!(w.pack()[..16], [2u64, 3].map(|x| x.to_le_bytes()).concat());
    }

    #[test]
    fn spans_reach_below_the_first_element() {
        let layout = Layout::view(&[3, 2], smallvec![-4, 1], 0, 10, false);
        assert_eq!(span(&[3, 2], &layout), (-8, 1));
        assert_eq!(span(&[5], &Layout::row_major(&[5])), (0, 4));
    }
}
