//! Where the mapped axes of a primitive's inputs and outputs are.

use smallvec::{SmallVec, smallvec};

use super::{Outputs, with_axis};
use crate::{Array, Result, graph::Inputs, ops};

/// Outputs of a primitive that was mapped.
pub(crate) struct Mapped {
    /// The outputs.
    pub(crate) outputs: Outputs,
    /// Which axis of each is the mapped one.
    pub(crate) axes: SmallVec<[Option<usize>; 1]>,
}

impl Mapped {
    /// One output with its mapped axis.
    pub(crate) fn one(output: Array, axis: usize) -> Result<Self> {
        Ok(Mapped { outputs: smallvec![output], axes: smallvec![Some(axis)] })
    }

    /// Outputs that are the same for every index.
    pub(crate) fn none(outputs: Outputs) -> Result<Self> {
        let axes = outputs.iter().map(|_| None).collect();
        Ok(Mapped { outputs, axes })
    }

    /// Outputs that all have the same mapped axis.
    pub(crate) fn all(outputs: Outputs, axis: usize) -> Result<Self> {
        let axes = outputs.iter().map(|_| Some(axis)).collect();
        Ok(Mapped { outputs, axes })
    }
}

/// Number of indices that are mapped.
pub(super) fn size(inputs: &[Array], axes: &[Option<usize>]) -> usize {
    let mut sizes =
        inputs.iter().zip(axes).filter_map(|(input, axis)| Some(input.shape()[(*axis)?]));
    sizes.next().expect("rules are asked only where an input is mapped")
}

/// The only input of a primitive that has one, and its mapped axis.
pub(super) fn only<'a>(inputs: &'a [Array], axes: &[Option<usize>]) -> (&'a Array, usize) {
    match (inputs, axes) {
        ([input], [Some(axis)]) => (input, *axis),
        _ => unreachable!("rules are asked only where an input is mapped"),
    }
}

/// The input with its mapped axis moved to the front, where it has one.
pub(super) fn to_front(input: &Array, axis: Option<usize>) -> Result<Array> {
    match axis {
        Some(axis) => ops::moveaxis(input, axis as isize, 0),
        None => Ok(input.clone()),
    }
}

/// The input of a primitive that runs along the last axis, and its mapped axis, which is moved to the front
/// if it is the last one.
pub(super) fn before_last(input: &Array, axis: usize) -> Result<(Array, usize)> {
    match axis + 1 == input.ndim() {
        true => Ok((ops::moveaxis(input, axis as isize, 0)?, 0)),
        false => Ok((input.clone(), axis)),
    }
}

/// All inputs with their mapped axes at the front; those that have none are repeated along a new one.
pub(super) fn all_to_front(inputs: &[Array], axes: &[Option<usize>]) -> Result<Inputs> {
    align(inputs, axes, 0)
}

/// All inputs with their mapped axes at one place, which is the second result: that of the first one that
/// has any, so that mostly nothing moves. Those that have none are repeated along a new one.
pub(super) fn joined(inputs: &[Array], axes: &[Option<usize>]) -> Result<(Inputs, usize)> {
    let axis = axes.iter().flatten().next();
    let axis = *axis.expect("rules are asked only where an input is mapped");
    Ok((align(inputs, axes, axis)?, axis))
}

fn align(inputs: &[Array], axes: &[Option<usize>], to: usize) -> Result<Inputs> {
    let size = size(inputs, axes);
    let aligned = |(input, axis): (&Array, &Option<usize>)| match *axis {
        Some(from) => ops::moveaxis(input, from as isize, to as isize),
        None => repeated(input, to, size),
    };
    inputs.iter().zip(axes).map(aligned).collect()
}

/// The input with a new axis along which it is repeated.
pub(super) fn repeated(input: &Array, axis: usize, size: usize) -> Result<Array> {
    let one = ops::expand_dims(input, &[axis as isize])?;
    ops::broadcast_to(&one, &with_axis(input.shape(), axis, size))
}

/// Where an axis is once there is another one at `new`.
pub(super) fn behind(axis: usize, new: usize) -> usize {
    axis + usize::from(axis >= new)
}
