//! Convolutions: both derivatives are convolutions with other parameters.

use super::{Applied, Mapped, Outputs, Rules, mapping, sum, with_axis};
use crate::{
    Array, Result, Shape,
    graph::Inputs,
    ops,
    primitives::{Convolution, Primitive, Spatial},
};

impl Rules for Box<Convolution> {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        let cotangent = &cotangents[0];
        let derivative = |&i: &usize| {
            if node.inputs.iter().chain(cotangents).any(|a| a.size() == 0) {
                return ops::zeros_like(&node.inputs[i]);
            }
            match i {
                0 => self.by_input(&node.inputs[0], &node.inputs[1], cotangent),
                _ => self.by_weight(&node.inputs[0], &node.inputs[1], cotangent),
            }
        };
        wanted.iter().map(derivative).collect()
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        let along = |i: usize| {
            let Some(tangent) = &tangents[i] else { return Ok(None) };
            let mut inputs: Inputs = node.inputs.into();
            inputs[i] = tangent.clone();
            ops::node(self.clone(), inputs).map(Some)
        };
        sum([along(0), along(1)])
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let count = mapping::size(inputs, axes);
        let (input, weight) = (&inputs[0], &inputs[1]);
        match (axes[0], axes[1]) {
            (Some(axis), None) => {
                let front = ops::moveaxis(input, axis as isize, 0)?;
                let sizes = [count as isize, front.dim(1) as isize];
                let output =
                    ops::node(self.clone(), [ops::flatten(&front, 0, 1)?, weight.clone()])?;
                Mapped::one(ops::unflatten(&output, 0, &sizes)?, 0)
            }
            _ if count == 0 => self.of_nothing(inputs, axes),
            (None, _) => self.of_weights(input, &mapping::to_front(weight, axes[1])?),
            (Some(axis), Some(_)) => {
                let last = input.ndim() as isize - 2;
                let input = ops::flatten(&ops::moveaxis(input, axis as isize, last)?, -2, -1)?;
                let weight = mapping::to_front(weight, axes[1])?;
                let sizes = [count as isize, weight.dim(1) as isize];
                let mut grouped = self.clone();
                grouped.groups *= count;
                let output = ops::node(grouped, [input, ops::flatten(&weight, 0, 1)?])?;
                Mapped::one(ops::unflatten(&output, -1, &sizes)?, output.ndim() - 1)
            }
        }
    }
}

impl Convolution {
    /// The derivative by the input: the cotangent, spread by the strides, meets the weight backwards.
    fn by_input(&self, input: &Array, weight: &Array, cotangent: &Array) -> Result<Array> {
        let mut convolution = self.transposed(&self.input_dilation, &self.kernel_dilation);
        let mut padding = Vec::new();
        for axis in 0..self.stride.len() {
            let reach = span(weight, axis, &self.kernel_dilation) - 1;
            let low = reach - self.padding_low[axis] as isize;
            let whole = span(input, axis, &self.input_dilation) + reach;
            padding.push((low, whole - span(cotangent, axis, &self.stride) - low));
        }
        convolution.groups = self.groups;
        convolution.flip = !self.flip;
        // The channels of each group change places with its outputs.
        let each = self.grouped(weight, 0)?;
        let turned = ops::flatten(&ops::swapaxes(&each, 1, -1)?, 0, 1)?;
        convolution.padded(cotangent, &padding, turned)
    }

    /// The derivative by the weight: the input meets the cotangent, and both are summed over the batch.
    fn by_weight(&self, input: &Array, weight: &Array, cotangent: &Array) -> Result<Array> {
        let mut convolution = self.transposed(&self.kernel_dilation, &self.stride);
        let mut padding = Vec::new();
        for axis in 0..self.stride.len() {
            let reach = span(weight, axis, &self.kernel_dilation) - 1;
            let low = self.padding_low[axis] as isize;
            let whole = span(cotangent, axis, &self.stride) + reach;
            padding.push((low, whole - span(input, axis, &self.input_dilation) - low));
        }
        convolution.input_dilation = self.input_dilation.clone();
        convolution.groups = self.groups;
        // The batches of a group are its channels, and the channels are the batches.
        let each = self.grouped(input, -1)?;
        let turned = ops::flatten(&ops::swapaxes(&each, 0, -1)?, -2, -1)?;
        let output = convolution.padded(&turned, &padding, ops::swapaxes(cotangent, 0, -1)?)?;
        let derivative = ops::swapaxes(&output, 0, -1)?;
        if !self.flip {
            return Ok(derivative);
        }
        let spatial: Vec<isize> = (1..=self.stride.len() as isize).collect();
        ops::flip(&derivative, &spatial)
    }

    /// A convolution without groups, padding and flipping, whose input is spread by the strides of this one.
    fn transposed(&self, stride: &Spatial<usize>, kernel_dilation: &Spatial<usize>) -> Self {
        let none = Spatial::from_elem(0, self.stride.len());
        Convolution {
            stride: stride.clone(),
            padding_low: none.clone(),
            padding_high: none,
            kernel_dilation: kernel_dilation.clone(),
            input_dilation: self.stride.clone(),
            groups: 1,
            flip: false,
        }
    }

    /// The convolution of an input that is padded so after it was spread; less than zero cuts off.
    fn padded(mut self, input: &Array, padding: &[(isize, isize)], weight: Array) -> Result<Array> {
        let mut input = input.clone();
        let (mut start, mut stop) = (vec![0; input.ndim()], signed(input.shape()));
        for (axis, &(low, high)) in padding.iter().enumerate() {
            let dilation = self.input_dilation[axis] as isize;
            // Elements that are cut off, and zeros after them that are not.
            let cut = |padding: isize| {
                let elements = ((-padding).max(0) + dilation - 1) / dilation;
                (elements, (padding + elements * dilation) as usize)
            };
            let ((first, left), (last, right)) = (cut(low), cut(high));
            start[axis + 1] = first;
            stop[axis + 1] -= last;
            (self.padding_low[axis], self.padding_high[axis]) = (left, right);
            if start[axis + 1] >= stop[axis + 1] {
                // Zeros alone are left: an axis of one of them can be padded to as many.
                let zeros = low + span(&input, axis, &self.input_dilation) + high;
                (start[axis + 1], stop[axis + 1]) = (0, 1);
                (self.padding_low[axis], self.padding_high[axis]) = (0, zeros as usize - 1);
                input = ops::zeros_like(&input)?;
            }
        }
        let cut = ops::slice(&input, &start, &stop, &vec![1; input.ndim()])?;
        ops::node(Box::new(self), [cut, weight])
    }

    /// An array whose `axis` became two: groups, and what is in each.
    fn grouped(&self, a: &Array, axis: isize) -> Result<Array> {
        let each = a.dim(axis) / self.groups;
        ops::unflatten(a, axis, &[self.groups as isize, each as isize])
    }

    /// The convolution of one input with several weights, which become outputs of the groups.
    fn of_weights(&self, input: &Array, weights: &Array) -> Result<Mapped> {
        let (count, groups) = (weights.dim(0) as isize, self.groups as isize);
        let each = ops::unflatten(weights, 1, &[groups, weights.dim(1) as isize / groups])?;
        let weight = ops::flatten(&ops::swapaxes(&each, 0, 1)?, 0, 2)?;
        let output = ops::node(Box::new(self.clone()), [input.clone(), weight])?;
        let sizes = [groups, count, weights.dim(1) as isize / groups];
        let output = ops::swapaxes(&ops::unflatten(&output, -1, &sizes)?, -3, -2)?;
        let axis = output.ndim() - 3;
        Mapped::one(ops::flatten(&output, -2, -1)?, axis)
    }

    /// What is mapped over no index.
    fn of_nothing(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let mut each: Vec<_> = inputs.iter().map(|a| a.spec().to_spec()).collect();
        for (spec, axis) in each.iter_mut().zip(axes) {
            axis.map(|axis| spec.shape.remove(axis));
        }
        let specs: Vec<_> = each.iter().map(|spec| spec.as_ref()).collect();
        let output = Primitive::from(Box::new(self.clone())).output_specs(&specs)?;
        let shape: Shape = with_axis(&output[0].shape, 0, 0);
        Mapped::one(ops::zeros(&shape, output[0].dtype)?, 0)
    }
}

/// Elements that a spatial axis, which is not empty, spans when its elements are `dilation` apart.
fn span(a: &Array, axis: usize, dilation: &[usize]) -> isize {
    ((a.shape()[axis + 1] - 1) * dilation[axis] + 1) as isize
}

fn signed(sizes: &[usize]) -> Vec<isize> {
    sizes.iter().map(|&size| size as isize).collect()
}
