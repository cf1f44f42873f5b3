//! Reading and writing elements at indices.

use strum::{EnumDiscriminants, EnumIter, IntoEnumIterator};

use super::{
    Axes, Family, Input, SpecRef, Specs,
    operators::operators,
    spec::{one, same_except},
};
use crate::{Dtype, Shape};

operators! {
    /// How an update joins the element that it goes to.
    ScatterOp {
        /// It replaces it; of several updates of one place, one.
        Assign: "Scatter", any => same;
        /// Sum; logical or for bool.
        Sum: "Scatter Sum", any => same;
        /// Product; logical and for bool.
        Prod: "Scatter Prod", any => same;
        /// The larger one; NaN if either is.
        Max: "Scatter Max", any => same;
        /// The smaller one; NaN if either is.
        Min: "Scatter Min", any => same;
    }
}

/// Reading and writing elements at integer indices. Negative ones count from the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EnumDiscriminants)]
#[strum_discriminants(name(Member), derive(EnumIter), vis(pub(super)))]
pub enum IndexingOp {
    /// Slices of the first input along `axis` at the second input's indices, whose axes replace it.
    Take {
        /// The axis.
        axis: usize,
    },
    /// Elements of the first input at the second input's indices along `axis`; the other axes
    /// match.
    TakeAlongAxis {
        /// The axis.
        axis: usize,
    },
    /// Slices of the first input at the other inputs' indices into `axes`, which are all of one
    /// integer dtype and shape; the output's axes are the indices', then the slices'.
    Gather {
        /// The axis of each array of indices.
        axes: Axes,
        /// Sizes of a slice, one for each axis of the first input.
        slice_sizes: Shape,
    },
    /// The first input with the last one's slices joined to it at the indices between them, as
    /// [`IndexingOp::Gather`] reads them. Updates that lie outside are left out.
    Scatter {
        /// How updates join.
        op: ScatterOp,
        /// The axis of each array of indices.
        axes: Axes,
    },
    /// The first input with elements of the third one joined to it at the second one's indices
    /// along `axis`; the other axes match.
    ScatterAxis {
        /// How updates join: by replacing or adding.
        op: ScatterOp,
        /// The axis.
        axis: usize,
    },
}

impl Family for IndexingOp {
    fn name(&self) -> &'static str {
        match self {
            Self::Take { .. } => "Take",
            Self::TakeAlongAxis { .. } => "GatherAxis",
            Self::Gather { .. } => "Gather",
            Self::Scatter { op, .. } => op.name(),
            Self::ScatterAxis { op: ScatterOp::Sum, .. } => "ScatterAxis Sum",
            Self::ScatterAxis { .. } => "ScatterAxis",
        }
    }

    fn is_view(&self) -> bool {
        match self {
            Self::Take { .. }
            | Self::TakeAlongAxis { .. }
            | Self::Gather { .. }
            | Self::Scatter { .. }
            | Self::ScatterAxis { .. } => false,
        }
    }

    fn takes(&self, dtype: Dtype) -> bool {
        match self {
            Self::Take { .. } | Self::TakeAlongAxis { .. } | Self::Gather { .. } => true,
            Self::Scatter { op, .. } | Self::ScatterAxis { op, .. } => op.takes(dtype),
        }
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let (a, rest) = inputs.split_first()?;
        match (self, rest) {
            (&Self::Take { axis }, [indices]) if axis < a.ndim() && are_indices(rest) => {
                let mut shape = Shape::from(&a.shape[..axis]);
                shape.extend_from_slice(indices.shape);
                shape.extend_from_slice(&a.shape[axis + 1..]);
                one(shape, a.dtype)
            }
            (&Self::TakeAlongAxis { axis }, [indices])
                if same_except(axis, a.shape, indices.shape) && are_indices(rest) =>
            {
                one(indices.shape, a.dtype)
            }
            (Self::Gather { axes, slice_sizes }, indices)
                if selects(*a, axes, indices) && a.ndim() == slice_sizes.len() =>
            {
                let mut shape = Shape::from(indices.first().map_or(&[][..], |i| i.shape));
                shape.extend_from_slice(slice_sizes);
                let inside = fits(slice_sizes, a.shape);
                (inside || shape.contains(&0)).then(|| one(shape, a.dtype))?
            }
            (Self::Scatter { axes, .. }, [indices @ .., updates])
                if selects(*a, axes, indices) && a.dtype == updates.dtype =>
            {
                let batch = indices.first().map_or(&[][..], |i| i.shape);
                let slice = updates.shape.strip_prefix(batch)?;
                (slice.len() == a.ndim() && fits(slice, a.shape)).then(|| one(a.shape, a.dtype))?
            }
            (&Self::ScatterAxis { axis, .. }, [indices, values])
                if same_except(axis, a.shape, indices.shape) && are_indices(&rest[..1]) =>
            {
                let fits = values.shape == indices.shape && values.dtype == a.dtype;
                fits.then(|| one(a.shape, a.dtype))?
            }
            _ => None,
        }
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let a = Input::new(&[4, 6], dtype);
        let indices = |values: &[f64], shape: &[usize]| Input::of(values, shape, Dtype::Int32);
        let first = Axes::from_slice(&[0]);
        let scatter = |op| {
            let updates = Input::new(&[3, 1, 6], dtype);
            let inputs = vec![a.clone(), indices(&[3.0, 0.0, 1.0], &[3]), updates];
            (Self::Scatter { op, axes: first.clone() }, inputs)
        };
        let scatter_axis = |op| {
            let inputs = vec![a.clone(), indices(&[2.0; 6], &[1, 6]), Input::new(&[1, 6], dtype)];
            (Self::ScatterAxis { op, axis: 0 }, inputs)
        };
        let example = |member| match member {
            Member::Take => {
                vec![(Self::Take { axis: 0 }, vec![a.clone(), indices(&[3.0, 1.0], &[2])])]
            }
            Member::TakeAlongAxis => {
                let inputs = vec![a.clone(), indices(&[1.0; 6], &[1, 6])];
                vec![(Self::TakeAlongAxis { axis: 0 }, inputs)]
            }
            Member::Gather => {
                let slice_sizes = Shape::from_slice(&[1, 4]);
                let inputs = vec![a.clone(), indices(&[2.0, 0.0], &[2])];
                vec![(Self::Gather { axes: first.clone(), slice_sizes }, inputs)]
            }
            Member::Scatter => ScatterOp::ALL.into_iter().map(scatter).collect(),
            Member::ScatterAxis => {
                [ScatterOp::Assign, ScatterOp::Sum].into_iter().map(scatter_axis).collect()
            }
        };
        Member::iter().flat_map(example).collect()
    }
}

/// Whether all are integers.
fn are_indices(arrays: &[SpecRef<'_>]) -> bool {
    arrays.iter().all(|i| i.dtype.is_integer())
}

/// Whether there is an array of indices for each of some axes of `a`, all of one spec.
fn selects(a: SpecRef<'_>, axes: &[usize], indices: &[SpecRef<'_>]) -> bool {
    indices.len() == axes.len()
        && axes.iter().all(|&x| x < a.ndim())
        && are_indices(indices)
        && indices.windows(2).all(|pair| pair[0].is_like(pair[1]))
}

/// Whether a slice is no larger than an array of as many axes.
fn fits(slice: &[usize], shape: &[usize]) -> bool {
    slice.iter().zip(shape).all(|(size, dim)| size <= dim)
}
