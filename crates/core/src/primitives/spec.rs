//! What is known of an array before it is evaluated.

use smallvec::SmallVec;

use crate::{Dtype, Shape, shape::checked_nbytes};

/// Shape and dtype of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spec<S = Shape> {
    /// Sizes of the axes.
    pub shape: S,
    /// Element type.
    pub dtype: Dtype,
}

/// Shape and dtype of an array that is there.
pub type SpecRef<'a> = Spec<&'a [usize]>;

/// Shapes and dtypes of a primitive's outputs; most have one.
pub type Specs = SmallVec<[Spec; 1]>;

impl Spec {
    /// The same, borrowed.
    pub fn as_ref(&self) -> SpecRef<'_> {
        Spec { shape: &self.shape, dtype: self.dtype }
    }

    /// Whether an array of it, dense, has no more bytes than distances within memory can be.
    pub(crate) fn has_addresses(&self) -> bool {
        checked_nbytes(&self.shape, self.dtype).is_some_and(|bytes| isize::try_from(bytes).is_ok())
    }
}

impl SpecRef<'_> {
    /// The same, with a shape of its own.
    pub fn to_spec(self) -> Spec {
        Spec { shape: self.shape.into(), dtype: self.dtype }
    }

    /// Number of axes.
    pub fn ndim(self) -> usize {
        self.shape.len()
    }

    /// Whether dtype and shape are the same.
    pub(super) fn is_like(self, other: Self) -> bool {
        self == other
    }

    /// Whether dtype and shape are the same but for the size of an axis, which must exist.
    pub(super) fn is_like_except(self, axis: usize, other: Self) -> bool {
        self.dtype == other.dtype && same_except(axis, self.shape, other.shape)
    }
}

impl std::fmt::Display for SpecRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}", self.shape, self.dtype)
    }
}

/// Whether shapes are the same but for the size of an axis, which must exist.
pub(super) fn same_except(axis: usize, a: &[usize], b: &[usize]) -> bool {
    axis < a.len() && a.len() == b.len() && a[..axis] == b[..axis] && a[axis + 1..] == b[axis + 1..]
}

/// The only output of a primitive.
pub(super) fn one(shape: impl Into<Shape>, dtype: Dtype) -> Option<Specs> {
    Some(SmallVec::from_buf([Spec { shape: shape.into(), dtype }]))
}

/// The shape with another size of an axis, if it is there.
pub(super) fn with_size(shape: &[usize], axis: usize, size: usize) -> Option<Shape> {
    let mut shape = Shape::from(shape);
    *shape.get_mut(axis)? = size;
    Some(shape)
}

/// The shape with another size of the last axis, if there is one.
pub(super) fn with_last(shape: &[usize], size: usize) -> Option<Shape> {
    with_size(shape, shape.len().checked_sub(1)?, size)
}

/// Axes of batches, rows and columns of matrices.
pub(super) fn matrices(shape: &[usize]) -> Option<(&[usize], usize, usize)> {
    match shape {
        [batch @ .., rows, columns] => Some((batch, *rows, *columns)),
        _ => None,
    }
}

/// The shape of matrices.
pub(super) fn of_matrices(batch: &[usize], rows: usize, columns: usize) -> Shape {
    let mut shape = Shape::from(batch);
    shape.extend([rows, columns]);
    shape
}
