//! MLX's `a[…]`, `a[…] = v` and `a.at[…].add(v)`.
//!
//! An index is a list of parts, as it stands between the brackets in Python:
//!
//! ```no_run
//! use mlx_vulkan_core::{Array, Index, Slice, ops};
//! # fn main() -> mlx_vulkan_core::Result<()> {
//! let a = ops::zeros(&[4, 5, 6], mlx_vulkan_core::Dtype::Float32)?;
//! let rows = Array::from_slice(&[0i32, 2, 2], &[3])?;
//! let b = a.get_item(&[(&rows).into(), Index::Ellipsis, Slice::new(1, None, 2).into()])?;
//! assert_eq!(b.shape(), [3, 5, 3]);
//! let c = a.at(&[(&rows).into()]).add(1.0f32)?;
//! # Ok(()) }
//! ```

mod get;
mod layout;
mod set;

pub use set::ArrayAt;

use std::ops::{Range, RangeFrom, RangeFull, RangeTo};

use crate::Array;

/// One part of an index.
#[derive(Clone)]
pub enum Index {
    /// One element of an axis, which goes away; negative ones count from the end.
    Int(isize),
    /// Some elements of an axis.
    Slice(Slice),
    /// Whole axes, as many as the other parts leave.
    Ellipsis,
    /// A new axis of size 1: Python's `None`.
    NewAxis,
    /// The elements of an axis at an array's integers, whose axes replace it; or, alone and of
    /// dtype bool, the elements where the array is true (for assignment only).
    Array(Array),
}

/// Python's `start:stop:step`: what is missing means the end in the direction of the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slice {
    /// First element; negative ones count from the end.
    pub start: Option<isize>,
    /// The element before which it ends.
    pub stop: Option<isize>,
    /// Distance of elements, 1 if missing; may be negative.
    pub step: Option<isize>,
}

impl Slice {
    /// All elements of an axis.
    pub const ALL: Slice = Slice { start: None, stop: None, step: None };

    /// `start:stop:step`.
    pub fn new(
        start: impl Into<Option<isize>>,
        stop: impl Into<Option<isize>>,
        step: impl Into<Option<isize>>,
    ) -> Self {
        Slice { start: start.into(), stop: stop.into(), step: step.into() }
    }

    /// First element, end and step for an axis of `n` elements, as [`crate::ops::slice`] takes them.
    pub(crate) fn bounds(self, n: usize) -> (isize, isize, isize) {
        let (n, step) = (n as isize, self.step.unwrap_or(1));
        let (first, end) = if step < 0 { (n - 1, -n - 1) } else { (0, n) };
        (self.start.unwrap_or(first), self.stop.unwrap_or(end), step)
    }
}

macro_rules! indices_from {
    ($($from:ty: $value:ident => $index:expr;)*) => {$(
        impl From<$from> for Index {
            fn from($value: $from) -> Self {
                $index
            }
        }
    )*};
}

indices_from! {
    isize: i => Index::Int(i);
    i32: i => Index::Int(i as isize);
    Slice: s => Index::Slice(s);
    RangeFull: _all => Index::Slice(Slice::ALL);
    Range<isize>: r => Index::Slice(Slice::new(r.start, r.end, None));
    Range<i32>: r => Index::Slice(Slice::new(r.start as isize, r.end as isize, None));
    RangeFrom<isize>: r => Index::Slice(Slice::new(r.start, None, None));
    RangeFrom<i32>: r => Index::Slice(Slice::new(r.start as isize, None, None));
    RangeTo<isize>: r => Index::Slice(Slice::new(None, r.end, None));
    RangeTo<i32>: r => Index::Slice(Slice::new(None, r.end as isize, None));
    Array: a => Index::Array(a);
    &Array: a => Index::Array(a.clone());
}
