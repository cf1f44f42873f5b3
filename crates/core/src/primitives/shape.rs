//! Views with other axes, slices and joining.

use smallvec::SmallVec;
use strum::{EnumDiscriminants, EnumIter, IntoEnumIterator};

use super::{
    Axes, Family, Indices, Input, SpecRef, Specs,
    spec::{one, with_size},
};
use crate::{Dtype, Shape, Strides, shape::checked_num_elements};

/// How [`ShapeOp::Reshape`] gets the shape of its output. Only shapeless traces need another one than
/// [`To::Exact`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum To {
    /// It is this one.
    Exact(Shape),
    /// It is this one; a size of -1 follows from the others.
    Infer(Indices),
    /// These axes become one.
    Flatten {
        /// The first of them.
        start: usize,
        /// The last of them.
        end: usize,
    },
    /// An axis becomes several.
    Unflatten {
        /// The axis.
        axis: usize,
        /// Their sizes; one of -1 follows from the others.
        sizes: Indices,
    },
}

/// How [`ShapeOp::Broadcast`] gets the shape of its output. Only shapeless traces need another one than
/// [`Rule::Exact`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Rule {
    /// It is this one.
    Exact(Shape),
    /// It is the one that all inputs broadcast to, of which the first is broadcast.
    Joint,
    /// The same, but the first input keeps its sizes of these axes, which count from the end.
    JointExcept(Indices),
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
    /// View of the first input with axes of size 1 or missing leading axes repeated.
    Broadcast(Rule),
    /// How many elements some axes of the input have in all, as a scalar.
    NumberOfElements {
        /// The axes.
        axes: Axes,
        /// One over it.
        inverted: bool,
        /// The dtype of the output.
        dtype: Dtype,
    },
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
    /// The first input in the middle of an array of one value, which the second one, a scalar, is.
    Pad {
        /// Elements before each axis.
        low: Shape,
        /// Elements behind each axis.
        high: Shape,
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
            | Self::NumberOfElements { .. }
            | Self::ExpandDims { .. }
            | Self::Squeeze { .. }
            | Self::SliceUpdate { .. }
            | Self::Pad { .. }
            | Self::Concatenate { .. } => false,
        }
    }
}

impl Family for ShapeOp {
    fn name(&self) -> &'static str {
        match self {
            Self::Reshape(To::Exact(_) | To::Infer(_)) => "Reshape",
            Self::Reshape(To::Flatten { .. }) => "Flatten",
            Self::Reshape(To::Unflatten { .. }) => "Unflatten",
            Self::Transpose { .. } => "Transpose",
            Self::Broadcast(Rule::Exact(_) | Rule::Joint) => "Broadcast",
            Self::Broadcast(Rule::JointExcept(_)) => "BroadcastAxes",
            Self::NumberOfElements { .. } => "NumberOfElements",
            Self::ExpandDims { .. } => "ExpandDims",
            Self::Squeeze { .. } => "Squeeze",
            Self::AsStrided { .. } => "AsStrided",
            Self::Slice { .. } => "Slice",
            Self::SliceUpdate { .. } => "SliceUpdate",
            Self::Pad { .. } => "Pad",
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
            | Self::Slice { .. }
            | Self::NumberOfElements { .. } => true,
            Self::Reshape(_)
            | Self::SliceUpdate { .. }
            | Self::Pad { .. }
            | Self::Concatenate { .. } => false,
        }
    }

    fn takes(&self, _dtype: Dtype) -> bool {
        true
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let a = inputs.first()?;
        let shape = match (self, &inputs[1..]) {
            (Self::Reshape(to), []) => reshaped(a.shape, to)?,
            (Self::Transpose { axes }, []) => permuted(a.shape, axes)?,
            (Self::Broadcast(Rule::Exact(shape)), []) => {
                broadcasts(a.shape, shape).then(|| shape.clone())?
            }
            (Self::Broadcast(Rule::Joint), _) => joint_shape(inputs, &[])?,
            (Self::Broadcast(Rule::JointExcept(axes)), _) => joint_shape(inputs, axes)?,
            (Self::NumberOfElements { axes, dtype, .. }, []) => {
                let known = axes.iter().all(|&axis| axis < a.ndim());
                return known.then(|| one(Shape::new(), *dtype))?;
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
            (Self::Pad { low, high }, [value]) => {
                let fits = value.dtype == a.dtype && value.shape.is_empty();
                fits.then(|| padded(a.shape, low, high))??
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
            Member::NumberOfElements => {
                let (axes, inverted) = (shape(&[0, 1]), false);
                (Self::NumberOfElements { axes, inverted, dtype }, vec![dense.clone()])
            }
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
            Member::Pad => {
                let (low, high) = (shape(&[1, 0]), shape(&[2, 3]));
                (Self::Pad { low, high }, vec![dense.clone(), Input::new(&[], dtype)])
            }
            Member::Concatenate => {
                (Self::Concatenate { axis: 1 }, vec![dense.clone(), transposed.clone()])
            }
        };
        Member::iter().map(example).collect()
    }
}

/// The shape of a reshaped array, if it has as many elements.
fn reshaped(from: &[usize], to: &To) -> Option<Shape> {
    let shape = match to {
        To::Exact(shape) => shape.clone(),
        To::Infer(sizes) => inferred(checked_num_elements(from)?, sizes)?,
        To::Flatten { start, end } => {
            let joined = from.get(*start..end.checked_add(1)?)?;
            let mut shape = Shape::from_slice(&from[..*start]);
            shape.push(checked_num_elements(joined)?);
            shape.extend_from_slice(&from[end + 1..]);
            shape
        }
        To::Unflatten { axis, sizes } => {
            let mut shape = Shape::from_slice(from.get(..*axis)?);
            shape.extend(inferred(*from.get(*axis)?, sizes)?);
            shape.extend_from_slice(&from[axis + 1..]);
            shape
        }
    };
    (checked_num_elements(&shape)? == checked_num_elements(from)?).then_some(shape)
}

/// The sizes of axes with so many elements, at most one of which is -1.
fn inferred(elements: usize, sizes: &[isize]) -> Option<Shape> {
    let mut known = sizes.iter().filter(|&&size| size != -1);
    let known = known.try_fold(1usize, |n, &size| n.checked_mul(usize::try_from(size).ok()?))?;
    let unknown = sizes.iter().filter(|&&size| size == -1).count();
    let rest = match unknown {
        0 => 1,
        1 if known != 0 && elements.is_multiple_of(known) => elements / known,
        _ => return None,
    };
    Some(sizes.iter().map(|&size| if size == -1 { rest } else { size as usize }).collect())
}

/// The shape that arrays broadcast to, but for axes that count from the end, whose sizes are the first one's.
fn joint_shape(arrays: &[SpecRef<'_>], except: &[isize]) -> Option<Shape> {
    let without = |array: &SpecRef<'_>| {
        let mut shape = Shape::from_slice(array.shape);
        for axis in except {
            let axis = shape.len().checked_add_signed(*axis)?;
            *shape.get_mut(axis)? = 1;
        }
        Some(shape)
    };
    let mut joint = Shape::new();
    for array in arrays {
        joint = crate::ops::broadcast_shape("broadcast", &joint, &without(array)?).ok()?;
    }
    let first = arrays.first()?.shape;
    for axis in except {
        let (to, from) =
            (joint.len().checked_add_signed(*axis)?, first.len().checked_add_signed(*axis)?);
        *joint.get_mut(to)? = *first.get(from)?;
    }
    Some(joint)
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

fn padded(shape: &[usize], low: &[usize], high: &[usize]) -> Option<Shape> {
    let widths = low.iter().zip(high);
    let size = |(&size, (&low, &high)): (&usize, _)| size.checked_add(low)?.checked_add(high);
    let fits = [low.len(), high.len()] == [shape.len(); 2];
    fits.then(|| shape.iter().zip(widths).map(size).collect())?
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
