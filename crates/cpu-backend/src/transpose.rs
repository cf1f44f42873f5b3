//! Copies whose elements are neighbours along another axis of the source than of the result: tile
//! by tile, so that every cache line is read and written once.

use mlx_vulkan_core::Element;
use rayon::prelude::*;

use crate::{elementwise::PARALLEL, strided::Walk};

/// Bytes of neighbours that are read at a time: some cache lines, because each is on another page.
const READ_BYTES: usize = 256;
/// Elements that are written at a time.
const COLUMNS: usize = 64;
/// Elements along both axes from which tiles pay off.
const SMALLEST: usize = 8;

/// A walk in which the source's neighbours follow an axis before the last one.
pub(crate) struct Transpose<'a> {
    /// The axes before that of the neighbours.
    outer: Walk,
    /// Length of the axis of neighbours.
    neighbours: usize,
    /// The axes between the two.
    middle: Walk,
    /// Length and stride of the last axis.
    len: usize,
    stride: isize,
    walk: &'a Walk,
}

impl<'a> Transpose<'a> {
    /// The walk as a transposition, if it is one that gains from tiles.
    pub(crate) fn of(walk: &'a Walk) -> Option<Self> {
        let (&len, &stride) = (walk.shape.last()?, walk.strides.last()?);
        let last = walk.shape.len() - 1;
        let axis = walk.strides[..last].iter().position(|&s| s == 1)?;
        let neighbours = walk.shape[axis];
        if stride.unsigned_abs() <= 1 || len < SMALLEST || neighbours < SMALLEST {
            return None;
        }
        let part = |axes: std::ops::Range<usize>| Walk {
            shape: walk.shape[axes.clone()].into(),
            strides: walk.strides[axes].into(),
        };
        let (outer, middle) = (part(0..axis), part(axis + 1..last));
        Some(Transpose { outer, neighbours, middle, len, stride, walk })
    }

    /// Copies all elements, the first of which is `data[first]`.
    pub(crate) fn copy<T: Element>(&self, data: &[T], first: usize, out: &mut [T]) {
        debug_assert_eq!(out.len(), self.walk.len());
        let parallel = out.len() >= PARALLEL;
        let inner = self.middle.len() * self.len;
        let rows = READ_BYTES / size_of::<T>();
        let mut tasks: Vec<(usize, &mut [T])> = Vec::new();
        let mut outer = self.outer.offsets(0);
        for out in out.chunks_exact_mut(self.neighbours * inner) {
            let first = first.wrapping_add_signed(outer.offset);
            let parts = out.chunks_mut(rows * inner).enumerate();
            tasks.extend(parts.map(|(i, out)| (first + i * rows, out)));
            outer.advance();
        }
        let one = |(first, out): (usize, &mut [T])| self.rows(data, first, out);
        match parallel {
            true => tasks.into_par_iter().for_each(one),
            false => tasks.into_iter().for_each(one),
        }
    }

    /// Fills whole rows along the axis of neighbours, which start at `data[first]`.
    fn rows<T: Element>(&self, data: &[T], first: usize, out: &mut [T]) {
        let inner = self.middle.len() * self.len;
        let rows = out.len() / inner;
        let mut tile = vec![T::zeroed(); rows * COLUMNS];
        let mut middle = self.middle.offsets(0);
        for m in 0..self.middle.len() {
            let first = first.wrapping_add_signed(middle.offset);
            for from in (0..self.len).step_by(COLUMNS) {
                let count = COLUMNS.min(self.len - from);
                for column in 0..count {
                    let skip = (from + column) as isize * self.stride;
                    let source = &data[first.wrapping_add_signed(skip)..][..rows];
                    let target = tile[column..].iter_mut().step_by(COLUMNS);
                    target.zip(source).for_each(|(x, &a)| *x = a);
                }
                for (row, tile) in tile.chunks_exact(COLUMNS).enumerate() {
                    let at = row * inner + m * self.len + from;
                    out[at..at + count].copy_from_slice(&tile[..count]);
                }
            }
            middle.advance();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies `shape` with `strides` from 0, 1, … and compares with a plain walk.
    fn check<T: Element + TryFrom<usize, Error: std::fmt::Debug>>(
        shape: &[usize],
        strides: &[isize],
        first: usize,
        tiled: bool,
    ) {
        let walk = Walk { shape: shape.into(), strides: strides.into() };
        let data: Vec<T> = (0..200_000).map(|i| T::try_from(i % 251).unwrap()).collect();
        let Some(transpose) = Transpose::of(&walk) else {
            return assert!(!tiled, "{shape:?} {strides:?}");
        };
        assert!(tiled, "{shape:?} {strides:?}");
        let mut out = vec![T::zeroed(); walk.len()];
        transpose.copy(&data, first, &mut out);
        let mut offsets = walk.offsets(0);
        for (i, x) in out.iter().enumerate() {
            assert_eq!(*x, data[first.wrapping_add_signed(offsets.offset)], "{shape:?} {i}");
            offsets.advance();
        }
    }

    fn check_all(shape: &[usize], strides: &[isize], first: usize, tiled: bool) {
        check::<u8>(shape, strides, first, tiled);
        check::<u16>(shape, strides, first, tiled);
        check::<u32>(shape, strides, first, tiled);
        check::<u64>(shape, strides, first, tiled);
    }

    #[test]
    fn transposed_walks_are_copied_in_tiles() {
        check_all(&[8, 9], &[1, 8], 0, true);
        check_all(&[300, 257], &[1, 300], 5, true);
        check_all(&[65, 130], &[1, 66], 3, true);
        // Batches, axes between the two, and both.
        check_all(&[3, 70, 90], &[6300, 1, 70], 0, true);
        check_all(&[70, 3, 90], &[1, 70, 210], 0, true);
        check_all(&[2, 33, 3, 2, 65], &[12_870, 1, 66, 33, 198], 7, true);
        // Backwards along the last axis, repeated along the first.
        check_all(&[40, 50], &[1, -40], 40 * 49, true);
        check_all(&[2, 40, 50], &[0, 1, 40], 0, true);
    }

    #[test]
    fn other_walks_are_not() {
        check_all(&[40, 50], &[50, 1], 0, false);
        check_all(&[4, 50], &[1, 4], 0, false);
        check_all(&[50, 4], &[1, 50], 0, false);
        check_all(&[40, 50], &[1, 0], 0, false);
        check_all(&[40, 50], &[2, 80], 0, false);
    }
}
