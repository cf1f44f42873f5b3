//! Queries, keys and values as kernels find them.

use std::array;

use mlx_vulkan_core::{Array, Dtype, Result, Strides, shape};
use smallvec::smallvec;

use crate::kernels::{
    Ctx, Operand, copy,
    scaled::{Source, whole::Scaled},
};

/// An operand with the strides of its first three axes; the last one is dense.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    pub(super) at: Operand,
    pub(super) strides: [i64; 3],
}

impl Heads {
    /// The array in place if its last axis is dense, as in slices of a cache; else a copy.
    pub(super) fn new(ctx: &mut Ctx<'_>, array: &Array) -> Result<Heads> {
        let own = &array.evaluated().layout.strides;
        let dense: Strides = shape::row_major_strides(array.shape());
        let in_place = own[3] == 1 || array.dim(3) <= 1;
        let at = if in_place { ctx.input(array)? } else { copy::dense(ctx, array)? };
        let strides = if in_place { own } else { &dense };
        Ok(Heads { at, strides: [0, 1, 2].map(|i| strides[i] as i64) })
    }

    /// An array whose last two axes are turned, if their rows are dense.
    pub(super) fn turned(ctx: &mut Ctx<'_>, array: &Array) -> Result<Option<Heads>> {
        let own = &array.evaluated().layout.strides;
        if own[2] != 1 && array.dim(2) > 1 {
            return Ok(None);
        }
        Ok(Some(Heads { at: ctx.input(array)?, strides: [0, 1, 3].map(|i| own[i] as i64) }))
    }

    /// Whether rows are whole aligned quads.
    pub(super) fn quads(&self, width: usize, dtype: Dtype) -> bool {
        width.is_multiple_of(4)
            && self.strides.iter().all(|s| s % 4 == 0)
            && self.at.is_aligned(4 * dtype.size() as u64)
    }

    /// From head to head if the heads of all batches, so many each, are that far apart.
    pub(super) fn counted_through(&self, [batches, heads]: [usize; 2]) -> Option<i64> {
        let [batch, head, _] = self.strides;
        match (batches, heads) {
            (..=1, _) => Some(head),
            (_, 1) => Some(batch),
            _ => (batch == heads as i64 * head).then_some(head),
        }
    }

    /// Its `rows` of `width` elements in each of so many batches and heads, to be scaled.
    pub(super) fn rows<'a>(&self, heads: &'a [usize; 2], rows: usize, width: usize) -> Source<'a> {
        let [batch, head, leading] = self.strides;
        let strides = smallvec![batch as isize, head as isize];
        Source { at: self.at, leading, rows, width, shape: heads, strides }
    }

    /// What was scaled, with rows of so many elements that follow one another without a gap.
    pub(super) fn scaled<const N: usize>(scaled: &Scaled<N>, widths: [usize; N]) -> [Heads; N] {
        array::from_fn(|i| {
            let [batch, head] = [0, 1].map(|axis| scaled.strides[i][axis] as i64);
            Heads { at: scaled.at[i], strides: [batch, head, widths[i] as i64] }
        })
    }

    /// Whether rows lie on octets of elements of two bytes.
    pub(super) fn vectors(&self) -> bool {
        self.strides.iter().all(|s| s % 8 == 0) && self.at.is_aligned(16)
    }
}
