//! Examples of primitives, from which the support table and its test are made.

use super::{Primitive, SpecRef};
use crate::{Dtype, Shape};

/// A primitive with inputs that it can be applied to.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The primitive.
    pub primitive: Primitive,
    /// The dtype it stands for: one that [`Primitive::takes`].
    pub dtype: Dtype,
    /// What it is applied to.
    pub inputs: Vec<Input>,
}

/// An input of an example.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Sizes of the axes.
    pub shape: Shape,
    /// Element type.
    pub dtype: Dtype,
    /// The elements in row-major order; `None` for any small positive numbers, and truth values.
    pub values: Option<Vec<f64>>,
    /// Whether the array is to be the transpose of a dense one, so that a dense result is a copy.
    pub transposed: bool,
}

impl Input {
    /// Shape and dtype.
    pub fn spec(&self) -> SpecRef<'_> {
        SpecRef { shape: &self.shape, dtype: self.dtype }
    }

    /// An input of any values.
    pub(super) fn new(shape: &[usize], dtype: Dtype) -> Self {
        Input { shape: shape.into(), dtype, values: None, transposed: false }
    }

    /// An input of these values.
    pub(super) fn of(values: &[f64], shape: &[usize], dtype: Dtype) -> Self {
        Input { values: Some(values.into()), ..Input::new(shape, dtype) }
    }

    /// The transpose of a dense array.
    pub(super) fn transposed(self) -> Self {
        Input { transposed: true, ..self }
    }
}
