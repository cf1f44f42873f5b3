//! Views with other axes, slices and joining.

use smallvec::smallvec;

use super::{
    Applied, Mapped, Outputs, Rules, alike,
    mapping::{self, behind},
    no_derivatives, no_tangents, one, only, tangent_or_zeros, with_axis,
};
use crate::{
    Array, Dtype, Error, Result, Shape,
    graph::Inputs,
    ops,
    primitives::{Axes, Indices, MatmulOp, Primitive, Rule, ShapeOp, SpecRef, To},
    shape::num_elements,
};

impl Rules for ShapeOp {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        let (a, cotangent) = (&node.inputs[0], &cotangents[0]);
        Ok(match self {
            Self::NumberOfElements { .. } => no_derivatives(node, wanted)?,
            Self::Reshape(_) => smallvec![reshaped(cotangent, a.shape())?],
            Self::Transpose { axes } => {
                let inverse = (0..axes.len()).map(|x| axes.iter().position(|&y| y == x));
                let axes: Axes = inverse.map(|x| x.expect("it is a permutation")).collect();
                smallvec![match turned_product(cotangent, &axes)? {
                    Some(product) => product,
                    None => ops::node(Self::Transpose { axes }, [cotangent.clone()])?,
                }]
            }
            // The others only say how far.
            Self::Broadcast(_) => {
                let derivative = |&i: &usize| match i {
                    0 => summed_to(cotangent, a.shape()),
                    _ => ops::zeros_like(&node.inputs[i]),
                };
                wanted.iter().map(derivative).collect::<Result<_>>()?
            }
            Self::ExpandDims { axes } => {
                smallvec![ops::node(Self::Squeeze { axes: axes.clone() }, [cotangent.clone()])?]
            }
            Self::Squeeze { axes } => {
                smallvec![ops::node(Self::ExpandDims { axes: axes.clone() }, [cotangent.clone()])?]
            }
            Self::AsStrided { shape, strides, offset } => {
                smallvec![strided_vjp(a, cotangent, shape, strides, *offset)?]
            }
            Self::Slice { start, strides, .. } => {
                let update = Self::SliceUpdate { start: start.clone(), strides: strides.clone() };
                smallvec![ops::node(update, [ops::zeros_like(a)?, cotangent.clone()])?]
            }
            Self::SliceUpdate { start, strides } => {
                let update = &node.inputs[1];
                let derivative = |&i: &usize| match i {
                    0 => ops::node(self.clone(), [cotangent.clone(), ops::zeros_like(update)?]),
                    _ => {
                        let (start, strides) = (start.clone(), strides.clone());
                        let sizes = Shape::from(update.shape());
                        ops::node(Self::Slice { start, strides, sizes }, [cotangent.clone()])
                    }
                };
                wanted.iter().map(derivative).collect::<Result<_>>()?
            }
            Self::Pad { low, .. } => {
                let derivative = |&i: &usize| padded_vjp(a, cotangent, low, i == 0);
                wanted.iter().map(derivative).collect::<Result<_>>()?
            }
            Self::Concatenate { axis } => {
                let end = |i: usize| node.inputs[..i].iter().map(|a| a.shape()[*axis]).sum();
                let part = |&i: &usize| {
                    let (start, stop): (usize, usize) = (end(i), end(i + 1));
                    ops::slice_axis(cotangent, *axis as isize, start as isize, stop as isize)
                };
                wanted.iter().map(part).collect::<Result<_>>()?
            }
        })
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        match self {
            Self::NumberOfElements { .. } => no_tangents(node),
            Self::Reshape(_)
            | Self::Transpose { .. }
            | Self::Broadcast(_)
            | Self::ExpandDims { .. }
            | Self::Squeeze { .. }
            | Self::Slice { .. } => {
                // Of a broadcast the others only say how far.
                let mut inputs = node.inputs.iter().cloned().collect::<Inputs>();
                inputs[0] = tangent_or_zeros(node, tangents, 0)?;
                one(ops::node(self.clone(), inputs)?)
            }
            Self::SliceUpdate { .. } | Self::Pad { .. } | Self::Concatenate { .. } => {
                one(ops::node(self.clone(), alike(node, tangents, 0..tangents.len())?)?)
            }
            // A tangent may lie otherwise than the input, whose layout does not matter to the result.
            Self::AsStrided { .. } => {
                one(ops::node(self.clone(), [ops::contiguous(only(tangents), false)?])?)
            }
        }
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        match self {
            Self::SliceUpdate { .. } | Self::Concatenate { .. } => {
                let (inputs, axis) = mapping::joined(inputs, axes)?;
                Mapped::one(ops::node(self.with_axis(axis, &inputs[0]), inputs)?, axis)
            }
            Self::Transpose { .. } | Self::Slice { .. } => {
                let (input, axis) = mapping::only(inputs, axes);
                Mapped::one(ops::node(self.with_axis(axis, input), [input.clone()])?, axis)
            }
            // Upstream maps no value either.
            Self::Pad { .. } => {
                let (Some(axis), None) = (axes[0], axes[1]) else {
                    let message = "Vmap over padding value is not supported.";
                    return Err(Error::invalid("Pad::vmap", message));
                };
                let padded = self.with_axis(axis, &inputs[0]);
                Mapped::one(ops::node(padded, inputs.iter().cloned())?, axis)
            }
            Self::ExpandDims { .. } | Self::Squeeze { .. } => {
                let (input, axis) = mapping::only(inputs, axes);
                let output = ops::node(self.with_axis(axis, input), [input.clone()])?;
                Mapped::one(output, self.moved(axis))
            }
            Self::Broadcast(Rule::Joint | Rule::JointExcept(_)) => {
                Mapped::one(ops::node(self.clone(), against_front(inputs, axes)?)?, 0)
            }
            Self::Reshape(_) | Self::Broadcast(Rule::Exact(_)) | Self::AsStrided { .. } => {
                let front = mapping::all_to_front(inputs, axes)?;
                Mapped::one(self.for_each(&front)?, 0)
            }
            // The same for every index, of which there is one more axis now.
            Self::NumberOfElements { axes: counted, .. } => {
                let (input, axis) = mapping::only(inputs, axes);
                let one = ops::take(input, &Array::scalar(0i32)?, axis as isize)?;
                debug_assert!(counted.iter().all(|&x| x < one.ndim()));
                let count = ops::node(self.clone(), [one])?;
                Mapped::one(mapping::repeated(&count, 0, input.shape()[axis])?, 0)
            }
        }
    }
}

impl ShapeOp {
    /// The same primitive when its inputs, of which `input` is the first one, have another axis.
    fn with_axis(&self, axis: usize, input: &Array) -> Self {
        let shifted = |axes: &Axes| axes.iter().map(|&x| behind(x, axis)).collect::<Axes>();
        let mut op = self.clone();
        match &mut op {
            Self::Transpose { axes } => {
                *axes = shifted(axes);
                axes.insert(axis, axis);
            }
            Self::Slice { start, strides, sizes } => {
                start.insert(axis, 0);
                strides.insert(axis, 1);
                sizes.insert(axis, input.shape()[axis]);
            }
            Self::SliceUpdate { start, strides } => {
                start.insert(axis, 0);
                strides.insert(axis, 1);
            }
            Self::Pad { low, high } => {
                low.insert(axis, 0);
                high.insert(axis, 0);
            }
            Self::Concatenate { axis: along } => *along = behind(*along, axis),
            Self::Squeeze { axes } => *axes = shifted(axes),
            // Counted in the output, where the mapped axis is at another place.
            Self::ExpandDims { axes } => {
                let axis = self.moved(axis);
                *axes = axes.iter().map(|&x| behind(x, axis)).collect();
            }
            Self::Reshape(_)
            | Self::Broadcast(_)
            | Self::AsStrided { .. }
            | Self::NumberOfElements { .. } => {
                unreachable!("they need the mapped axis at the front")
            }
        }
        op
    }

    /// Where the mapped axis of the input is in the output.
    fn moved(&self, axis: usize) -> usize {
        match self {
            // Each new axis that is not behind it moves it on.
            Self::ExpandDims { axes } => axes.iter().fold(axis, |at, &x| at + usize::from(x <= at)),
            Self::Squeeze { axes } => axis - axes.iter().filter(|&&x| x < axis).count(),
            _ => axis,
        }
    }

    /// The primitive for each index of the first axis of all inputs.
    fn for_each(&self, inputs: &[Array]) -> Result<Array> {
        let (input, count) = (&inputs[0], inputs[0].shape()[0]);
        let each: Vec<SpecRef<'_>> = inputs
            .iter()
            .map(|input| SpecRef { shape: &input.shape()[1..], dtype: input.dtype() })
            .collect();
        let spec = Primitive::from(self.clone()).output_specs(&each)?.remove(0);
        let shape = with_axis(&spec.shape, 0, count);
        match self {
            Self::Reshape(_) => reshaped(input, &shape),
            Self::Broadcast(_) => {
                let new: Vec<isize> = (1..=(shape.len() - input.ndim()) as isize).collect();
                ops::broadcast_to(&ops::expand_dims(input, &new)?, &shape)
            }
            Self::AsStrided { strides, offset, .. } => {
                let mut strides = strides.clone();
                strides.insert(0, num_elements(each[0].shape) as isize);
                let dense = ops::contiguous(input, false)?;
                ops::node(Self::AsStrided { shape, strides, offset: *offset }, [dense])
            }
            _ => unreachable!("the others take the mapped axis where it is"),
        }
    }
}

/// Inputs that broadcast against each other for each index: the mapped axes are in front of all others, and
/// no size is used, so that it holds for other sizes, too.
fn against_front(inputs: &[Array], axes: &[Option<usize>]) -> Result<Inputs> {
    let ndim = |(input, axis): (&Array, &Option<usize>)| input.ndim() + usize::from(axis.is_none());
    let most = inputs.iter().zip(axes).map(ndim).max().unwrap_or_default();
    let aligned = |(input, axis): (&Array, &Option<usize>)| match axis {
        Some(_) => {
            let front = mapping::to_front(input, *axis)?;
            let new: Vec<isize> = (1..=(most - front.ndim()) as isize).collect();
            ops::expand_dims(&front, &new)
        }
        None => Ok(input.clone()),
    };
    inputs.iter().zip(axes).map(aligned).collect()
}

fn reshaped(a: &Array, shape: &[usize]) -> Result<Array> {
    ops::node(ShapeOp::Reshape(To::Exact(shape.into())), [a.clone()])
}

/// The sum over the axes along which an array of `shape` was broadcast.
pub(super) fn summed_to(a: &Array, shape: &[usize]) -> Result<Array> {
    let new = a.ndim() - shape.len();
    let broadcast = |x: &usize| *x < new || (shape[x - new] == 1 && a.shape()[*x] != 1);
    let axes: Vec<isize> = (0..a.ndim()).filter(broadcast).map(|x| x as isize).collect();
    if axes.is_empty() {
        return Ok(a.clone());
    }
    if let Some(product) = summed_products(a, shape)? {
        return Ok(product);
    }
    let sum = ops::sum(a, &axes, true)?;
    let leading: Vec<isize> = (0..new as isize).collect();
    if leading.is_empty() { Ok(sum) } else { ops::squeeze(&sum, &leading) }
}

/// The sum of products, of which each has the shape of the sum, as one product: the derivative by a matrix
/// that batches of rows share. It is rounded once then, and no product of a batch takes memory.
fn summed_products(a: &Array, shape: &[usize]) -> Result<Option<Array>> {
    if shape.len() != 2 || !a.shape().ends_with(shape) {
        return Ok(None);
    }
    let Some([left, right]) = factors(a) else { return Ok(None) };
    let left = ops::flatten(&ops::swapaxes(&left, -1, -2)?, 0, -2)?;
    let right = ops::flatten(&right, 0, -2)?;
    ops::matmul(&ops::swapaxes(&left, 0, 1)?, &right).map(Some)
}

/// The transpose of a product as the product of the transposes: the derivative by a matrix that rows are
/// multiplied by the transpose of. It lies as the matrix does then, so what updates that reads it in order.
fn turned_product(a: &Array, axes: &[usize]) -> Result<Option<Array>> {
    let Some(factors) = factors(a).filter(|_| axes == [1, 0]) else { return Ok(None) };
    let [left, right] = factors.map(|factor| ops::swapaxes(&factor, 0, 1));
    ops::matmul(&right?, &left?).map(Some)
}

/// The factors of a product that is not evaluated yet.
fn factors(a: &Array) -> Option<[Array; 2]> {
    let node = a.node()?;
    match (&node.primitive, &node.inputs[..]) {
        (Primitive::Matmul(MatmulOp::Matmul), [left, right]) => Some([left.clone(), right.clone()]),
        _ => None,
    }
}

/// What of a padded array's cotangent belongs to the array, or to the value around it.
fn padded_vjp(a: &Array, cotangent: &Array, low: &[usize], of_array: bool) -> Result<Array> {
    let (start, strides): (Indices, Indices) = low.iter().map(|&low| (low as isize, 1)).unzip();
    if of_array {
        let sizes = Shape::from(a.shape());
        return ops::node(ShapeOp::Slice { start, strides, sizes }, [cotangent.clone()]);
    }
    let around = ShapeOp::SliceUpdate { start, strides };
    ops::sum(&ops::node(around, [cotangent.clone(), ops::zeros_like(a)?])?, &[], false)
}

/// Each element of a strided view adds to the element of the input that it is.
fn strided_vjp(
    a: &Array,
    cotangent: &Array,
    shape: &[usize],
    strides: &[isize],
    offset: usize,
) -> Result<Array> {
    let numbers = ops::arange(0.0, a.size() as f64, 1.0, Dtype::Uint32)?;
    let picked = ops::as_strided(&numbers, shape, strides, offset)?;
    let (places, values) = (ops::flatten(&picked, 0, -1)?, ops::flatten(cotangent, 0, -1)?);
    let zeros = ops::zeros(&[a.size()], cotangent.dtype())?;
    reshaped(&ops::scatter_add_axis(&zeros, &places, &values, 0)?, a.shape())
}
