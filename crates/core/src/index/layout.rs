//! What an index means for the axes of an array, and where they are in the result.

use smallvec::SmallVec;

use crate::{
    Array, Dtype, Error, Result, Shape,
    index::Index,
    ops::{self, SliceBounds},
    primitives::Indices,
};

/// What becomes of one axis of the indexed array.
#[derive(Clone)]
pub(super) enum Part {
    /// One element.
    Int(usize),
    /// `count` elements from `start` on.
    Slice { start: isize, step: isize, count: usize },
    /// Those at indices.
    Array(Array),
}

/// One axis, or several, of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dim {
    /// The joint axes of all arrays of indices.
    Arrays,
    /// What is left of an axis of the indexed array.
    Axis(usize),
    /// A new axis.
    New,
}

/// An index that was fitted to an array.
pub(super) struct Layout {
    /// One part for each axis of the array.
    pub(super) parts: SmallVec<[Part; 4]>,
    /// The axes of the result.
    pub(super) dims: SmallVec<[Dim; 8]>,
    /// Joint shape of the arrays of indices.
    pub(super) arrays: Shape,
}

/// Which parts must be neighbours for the arrays' axes to stay where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Neighbours {
    /// Arrays and, beside an array, integers: reading.
    ArraysAndInts,
    /// Arrays only: writing.
    Arrays,
}

impl Layout {
    /// Fits an index to an array.
    ///
    /// The axes of arrays of indices stand where the first of them stands, or in front of all if
    /// slices or new axes are between them.
    pub(super) fn new(a: &Array, index: &[Index], neighbours: Neighbours) -> Result<Layout> {
        let entries = expand(a, index)?;
        let (mut parts, mut dims) = (SmallVec::with_capacity(a.ndim()), SmallVec::new());
        let has_arrays = entries.iter().any(|e| matches!(e, Index::Array(_)));
        let joins = |entry: &Index| match entry {
            Index::Array(_) => true,
            Index::Int(_) => has_arrays && neighbours == Neighbours::ArraysAndInts,
            _ => false,
        };
        let (mut first, mut gap, mut apart) = (None, false, false);
        for &entry in &entries {
            if joins(entry) {
                apart |= gap;
                first.get_or_insert(dims.len());
            } else if matches!(entry, Index::Slice(_) | Index::NewAxis) {
                gap |= first.is_some();
            }
            if matches!(entry, Index::NewAxis) {
                dims.push(Dim::New);
                continue;
            }
            let axis = parts.len();
            let part = fit(entry, a.shape()[axis], axis)?;
            if matches!(part, Part::Slice { .. }) {
                dims.push(Dim::Axis(axis));
            }
            parts.push(part);
        }
        if has_arrays {
            dims.insert(if apart { 0 } else { first.unwrap_or(0) }, Dim::Arrays);
        }
        let arrays = parts.iter().try_fold(Shape::new(), |shape, part| match part {
            Part::Array(x) => ops::broadcast_shape("gather", &shape, x.shape()),
            _ => Ok(shape),
        })?;
        Ok(Layout { parts, dims, arrays })
    }

    /// Whether there is an array of indices.
    pub(super) fn has_arrays(&self) -> bool {
        self.dims.contains(&Dim::Arrays)
    }

    /// Shape of the result.
    pub(super) fn shape(&self) -> Shape {
        let mut shape = Shape::new();
        for dim in &self.dims {
            match dim {
                Dim::Arrays => shape.extend_from_slice(&self.arrays),
                Dim::Axis(axis) => shape.push(self.count(*axis)),
                Dim::New => shape.push(1),
            }
        }
        shape
    }

    /// Elements that are left of an axis.
    pub(super) fn count(&self, axis: usize) -> usize {
        match self.parts[axis] {
            Part::Slice { count, .. } => count,
            _ => 1,
        }
    }

    /// The new axes, as axes of the result.
    pub(super) fn new_axes(&self) -> Vec<isize> {
        let mut at = 0;
        let mut axes = Vec::new();
        for dim in &self.dims {
            if *dim == Dim::New {
                axes.push(at);
            }
            at += if *dim == Dim::Arrays { self.arrays.len() as isize } else { 1 };
        }
        axes
    }

    /// The slices, integers as those of one element, arrays as whole axes.
    pub(super) fn bounds(&self, a: &Array) -> SliceBounds {
        let mut bounds =
            SliceBounds { start: Indices::new(), strides: Indices::new(), sizes: Shape::new() };
        for (part, &n) in self.parts.iter().zip(a.shape()) {
            let (from, step, count) = match *part {
                Part::Int(i) => (i as isize, 1, 1),
                Part::Slice { start, step, count } => (start, step, count),
                Part::Array(_) => (0, 1, n),
            };
            bounds.start.push(from);
            bounds.strides.push(step);
            bounds.sizes.push(count);
        }
        bounds
    }
}

/// The index with whole slices for the ellipsis and for the axes that it does not name.
fn expand<'a>(a: &Array, index: &'a [Index]) -> Result<SmallVec<[&'a Index; 4]>> {
    const WHOLE: Index = Index::Slice(super::Slice::ALL);
    let named = index.iter().filter(|i| !matches!(i, Index::NewAxis | Index::Ellipsis)).count();
    if named > a.ndim() {
        let message = match (a.ndim(), index) {
            (0, [_]) => "too many indices for array: array is 0-dimensional".into(),
            (ndim, _) => format!("Too many indices for array with {ndim} dimensions."),
        };
        return Err(Error::invalid("index", message));
    }
    let ellipses = index.iter().filter(|i| matches!(i, Index::Ellipsis)).count();
    if ellipses > 1 {
        return Err(Error::invalid("index", "An index can only have a single ellipsis (...)"));
    }
    let whole = || std::iter::repeat_n(&WHOLE, a.ndim() - named);
    let mut entries = SmallVec::new();
    for part in index {
        match part {
            Index::Ellipsis => entries.extend(whole()),
            part => entries.push(part),
        }
    }
    if ellipses == 0 {
        entries.extend(whole());
    }
    Ok(entries)
}

/// A part for an axis of `n` elements.
fn fit(entry: &Index, n: usize, axis: usize) -> Result<Part> {
    match entry {
        Index::Int(i) => {
            let at = if *i < 0 { i + n as isize } else { *i };
            if !(0..n as isize).contains(&at) {
                let message = format!("Index {i} is out of bounds for axis {axis} with size {n}.");
                return Err(Error::out_of_range("index", message));
            }
            Ok(Part::Int(at as usize))
        }
        Index::Slice(slice) => {
            let (start, stop, step) = slice.bounds(n);
            if step == 0 {
                return Err(Error::invalid("slice", "Slice strides must not be zero."));
            }
            let (start, count) = ops::slice_of_axis(n, start, stop, step);
            Ok(Part::Slice { start, step, count })
        }
        Index::Array(x) if x.dtype() == Dtype::Bool => {
            Err(Error::invalid("index", "boolean indices are not yet supported"))
        }
        Index::Array(x) if !x.dtype().is_integer() => Err(Error::invalid(
            "gather",
            "Got indices with invalid dtype. Indices must be integral.",
        )),
        Index::Array(x) => Ok(Part::Array(x.clone())),
        Index::NewAxis | Index::Ellipsis => unreachable!("they stand for no axis here"),
    }
}
