//! Views with other axes, slices and joining.

use smallvec::SmallVec;
use strum::{EnumDiscriminants, EnumIter, IntoEnumIterator};

use super::{
    Axes, Family, Indices, Input, SpecRef, Specs,
    spec::{one, with_size},
};
use crate::{Dtype, Shape, Strides, shape::checked_num_elements};

/// How [`ShapeOp::Reshape`] gets the shape of its output.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum To {
    /// It is this one.
    Exact(Shape),
}

/// How [`ShapeOp::Broadcast`] gets the shape of its output.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Rule {
    /// It is this one.
    Exact(Shape),
}

/// Views with other axes, slices and joining.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EnumDiscriminants)]
#[strum_discriminants(name(Member), derive(EnumIter), vis(pub(super)))]
pub enum ShapeOp {
    /// The same elements, row-major, in another shape; a view where strides allow.
    Reshape(To),
    /// View with permuted axes: output axis `i` is input axis `axes[i]`.
    Transpose {
        /// The permutation.
        axes: Axes,
    },
    /// View with axes of size 1 or missing leading axes repeated.
    Broadcast(Rule),
    /// View with new axes of size 1, which become these axes of the output.
    ExpandDims {
        /// Axes of the output, ascending.
        axes: Axes,
    },
    /// View without these axes of size 1.
    Squeeze {
        /// Axes of the input.
        axes: Axes,
    },
    /// View of the flattened input, which is dense, with any strides.
    AsStrided {
        /// Shape of the output.
        shape: Shape,
        /// Strides in elements.
        strides: Strides,
        /// First element.
        offset: usize,
    },
    /// View of every `strides[i]`-th element from `start[i]`.
    Slice {
        /// First index of each axis.
        start: Indices,
        /// Steps, may be negative.
        strides: Indices,
        /// Elements of each axis: the shape of the output.
        sizes: Shape,
    },
    /// A copy of the first input with a slice of it replaced by the second.
    SliceUpdate {
        /// First index of each axis.
        start: Indices,
        /// Steps, may be negative.
        strides: Indices,
    },
    /// The inputs one after the other along an axis.
    Concatenate {
        /// The axis.
        axis: usize,
    },
}

impl ShapeOp {
    /// Whether it holds sizes that mean something else for inputs of other sizes. Those of
    /// [`ShapeOp::Reshape`] and [`ShapeOp::Broadcast`] either fit other inputs or are refused.
    pub(crate) fn has_sizes(&self) -> bool {
        match self {
            Self::Slice { .. } | Self::AsStrided { .. } => true,
            Self::Reshape(_)
            | Self::Transpose { .. }
            | Self::Broadcast(_)
            | Self::ExpandDims { .. }
            | Self::Squeeze { .. }
            | Self::SliceUpdate { .. }
            | Self::Concatenate { .. } => false,
        }
    }
}

impl Family for ShapeOp {
    fn name(&self) -> &'static str {
        match self {
            Self::Reshape(To::Exact(_)) => "Reshape",
            Self::Transpose { .. } => "Transpose",
            Self::Broadcast(Rule::Exact(_)) => "Broadcast",
            Self::ExpandDims { .. } => "ExpandDims",
            Self::Squeeze { .. } => "Squeeze",
            Self::AsStrided { .. } => "AsStrided",
            Self::Slice { .. } => "Slice",
            Self::SliceUpdate { .. } => "SliceUpdate",
            Self::Concatenate { .. } => "Concatenate",
        }
    }

    fn is_view(&self) -> bool {
        match self {
            Self::Transpose { .. }
            | Self::Broadcast(_)
            | Self::ExpandDims { .. }
            | Self::Squeeze { .. }
            | Self::AsStrided { .. }
            | Self::Slice { .. } => true,
            Self::Reshape(_) | Self::SliceUpdate { .. } | Self::Concatenate { .. } => false,
        }
    }

    fn takes(&self, _dtype: Dtype) -> bool {
        match self {
            Self::Reshape(_)
            | Self::Transpose { .. }
            | Self::Broadcast(_)
            | Self::ExpandDims { .. }
            | Self::Squeeze { .. }
            | Self::AsStrided { .. }
            | Self::Slice { .. }
            | Self::SliceUpdate { .. }
            | Self::Concatenate { .. } => true,
        }
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let a = inputs.first()?;
        let shape = match (self, &inputs[1..]) {
            (Self::Reshape(To::Exact(shape)), []) => {
                let same = checked_num_elements(shape)? == checked_num_elements(a.shape)?;
                same.then(|| shape.clone())?
            }
            (Self::Transpose { axes }, []) => permuted(a.shape, axes)?,
            (Self::Broadcast(Rule::Exact(shape)), []) => {
                broadcasts(a.shape, shape).then(|| shape.clone())?
            }
            (Self::ExpandDims { axes }, []) => expanded(a.shape, axes)?,
            (Self::Squeeze { axes }, []) => squeezed(a.shape, axes)?,
            (Self::AsStrided { shape, strides, offset }, []) => {
                let inside = reaches_inside(a.shape, shape, strides, *offset);
                inside.then(|| shape.clone())?
            }
            (Self::Slice { start, strides, sizes }, []) => {
                lies_inside(a.shape, start, strides, sizes).then(|| sizes.clone())?
            }
            (Self::SliceUpdate { start, strides }, [update]) => {
                let fits =
                    update.dtype == a.dtype && lies_inside(a.shape, start, strides, update.shape);
                fits.then(|| a.shape.into())?
            }
            (Self::Concatenate { axis }, rest) => {
                let fits = rest.iter().all(|b| a.is_like_except(*axis, *b));
                let sizes = inputs.iter().map(|b| b.shape.get(*axis).copied());
                let sum = |sum: usize, size: Option<usize>| sum.checked_add(size?);
                fits.then(|| with_size(a.shape, *axis, sizes.into_iter().try_fold(0, sum)?))??
            }
            _ => return None,
        };
        one(shape, a.dtype)
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let (dense, transposed) =
            (Input::new(&[4, 6], dtype), Input::new(&[4, 6], dtype).transposed());
        let shape = |sizes: &[usize]| Shape::from(sizes);
        let steps = |values: &[isize]| SmallVec::from(values);
        let example = |member| match member {
            Member::Reshape => (Self::Reshape(To::Exact(shape(&[24]))), vec![transposed.clone()]),
            Member::Transpose => (Self::Transpose { axes: shape(&[1, 0]) }, vec![dense.clone()]),
            Member::Broadcast => {
                (Self::Broadcast(Rule::Exact(shape(&[2, 4, 6]))), vec![dense.clone()])
            }
            Member::ExpandDims => (Self::ExpandDims { axes: shape(&[0]) }, vec![dense.clone()]),
            Member::Squeeze => {
                (Self::Squeeze { axes: shape(&[0]) }, vec![Input::new(&[1, 5], dtype)])
            }
            Member::AsStrided => {
                let (shape, strides) = (shape(&[3, 3]), steps(&[2, 5]));
                (Self::AsStrided { shape, strides, offset: 1 }, vec![dense.clone()])
            }
            Member::Slice => {
                let (start, strides, sizes) = (steps(&[3, 1]), steps(&[-1, 2]), shape(&[3, 3]));
                (Self::Slice { start, strides, sizes }, vec![dense.clone()])
            }
            Member::SliceUpdate => {
                let (start, strides) = (steps(&[1, 0]), steps(&[1, 2]));
                let update = Input::new(&[2, 3], dtype);
                (Self::SliceUpdate { start, strides }, vec![dense.clone(), update])
            }
            Member::Concatenate => {
                (Self::Concatenate { axis: 1 }, vec![dense.clone(), transposed.clone()])
            }
        };
        Member::iter().map(example).collect()
    }
}

fn permuted(shape: &[usize], axes: &[usize]) -> Option<Shape> {
    let is_permutation = axes.len() == shape.len() && (0..shape.len()).all(|x| axes.contains(&x));
    is_permutation.then(|| axes.iter().map(|&x| shape[x]).collect())
}

fn broadcasts(from: &[usize], to: &[usize]) -> bool {
    let new = to.len().checked_sub(from.len());
    new.is_some_and(|new| from.iter().zip(&to[new..]).all(|(&f, &t)| f == t || f == 1))
}

fn expanded(shape: &[usize], axes: &[usize]) -> Option<Shape> {
    let mut out = Shape::from(shape);
    let ascending = axes.windows(2).all(|pair| pair[0] < pair[1]);
    for &axis in axes {
        let inside = ascending && axis <= out.len();
        inside.then(|| out.insert(axis, 1))?;
    }
    Some(out)
}

fn squeezed(shape: &[usize], axes: &[usize]) -> Option<Shape> {
    let kept = (0..shape.len()).filter(|x| !axes.contains(x)).map(|x| shape[x]);
    axes.iter().all(|&x| shape.get(x) == Some(&1)).then(|| kept.collect())
}

/// Whether every element of a strided view lies in a dense array of shape `from`.
pub(crate) fn reaches_inside(
    from: &[usize],
    shape: &[usize],
    strides: &[isize],
    offset: usize,
) -> bool {
    if shape.len() != strides.len() || checked_num_elements(shape).is_none() {
        return false;
    }
    if shape.contains(&0) {
        return true;
    }
    let (mut low, mut high) = (offset as i128, offset as i128);
    for (&size, &stride) in shape.iter().zip(strides) {
        let reach = (size as i128 - 1) * stride as i128;
        if reach < 0 { low += reach } else { high += reach }
    }
    low >= 0 && checked_num_elements(from).is_some_and(|n| high < n as i128)
}

/// Whether a slice of `sizes` elements takes its elements from within each axis.
fn lies_inside(shape: &[usize], start: &[isize], strides: &[isize], sizes: &[usize]) -> bool {
    let n = shape.len();
    let inside = |x: usize| {
        let last = (sizes[x] as i128 - 1) * strides[x] as i128 + start[x] as i128;
        let axis = 0..shape[x] as i128;
        sizes[x] == 0 || (axis.contains(&(start[x] as i128)) && axis.contains(&last))
    };
    [start.len(), strides.len(), sizes.len()] == [n; 3] && (0..n).all(inside)
}
