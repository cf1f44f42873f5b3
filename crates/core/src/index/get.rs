//! Reading: `a[…]`.

use crate::{
    Array, Result,
    index::{
        Index,
        layout::{Dim, Layout, Neighbours, Part},
    },
    ops::{self, expand_dims, gather, squeeze, take, transpose},
};

impl Array {
    /// `a[index]`: slices are views, arrays of indices gather. Arrays broadcast with one another,
    /// and with integers beside them; their axes come first if slices are between them.
    ///
    /// # Errors
    /// When there are more parts than axes, two ellipses, an integer out of bounds, a step of
    /// zero, or arrays that are no integers or do not broadcast.
    pub fn get_item(&self, index: &[Index]) -> Result<Array> {
        let layout = Layout::new(self, index, Neighbours::ArraysAndInts)?;
        let cut = ops::bounded_slice(self, layout.bounds(self))?;
        let kept = match layout.has_arrays() {
            true => gathered(&cut, &layout)?,
            false => squeeze_axes(&cut, &ints(&layout))?,
        };
        expand_dims(&kept, &layout.new_axes())
    }
}

/// Axes of which an integer takes one element.
fn ints(layout: &Layout) -> Vec<isize> {
    let taken = layout.parts.iter().enumerate().filter(|(_, p)| matches!(p, Part::Int(_)));
    taken.map(|(axis, _)| axis as isize).collect()
}

/// [`squeeze`] for which no axes means none.
pub(super) fn squeeze_axes(a: &Array, axes: &[isize]) -> Result<Array> {
    if axes.is_empty() { Ok(a.clone()) } else { squeeze(a, axes) }
}

/// The slices of a cut array at the arrays of indices, whose axes are put where they belong.
fn gathered(cut: &Array, layout: &Layout) -> Result<Array> {
    let mut arrays = Vec::new();
    let mut axes = Vec::new();
    let mut sizes = cut.shape().to_vec();
    for (axis, part) in layout.parts.iter().enumerate() {
        if let Part::Array(x) = part {
            arrays.push(x);
            axes.push(axis as isize);
            sizes[axis] = 1;
        }
    }
    if let ([array], [axis], true) = (&arrays[..], &axes[..], ints(layout).is_empty()) {
        return take(cut, array, *axis);
    }
    let picked = gather(cut, &arrays, &axes, &sizes)?;
    let joint = layout.arrays.len();
    let gone = axes.iter().chain(&ints(layout)).map(|&x| x + joint as isize).collect::<Vec<_>>();
    let picked = squeeze(&picked, &gone)?;
    // Now the arrays' axes are first, the others behind them in order.
    let kept = layout.dims.iter().filter(|d| **d != Dim::New);
    let before = kept.take_while(|d| **d != Dim::Arrays).count();
    let first = joint as isize..(joint + before) as isize;
    let rest = (joint + before) as isize..picked.ndim() as isize;
    transpose_to(&picked, first.chain(0..joint as isize).chain(rest).collect())
}

/// [`transpose`] for which no axes means that there are none.
pub(super) fn transpose_to(a: &Array, axes: Vec<isize>) -> Result<Array> {
    if axes.is_empty() { Ok(a.clone()) } else { transpose(a, &axes) }
}
