//! What transforms make of each primitive; a module per family, under the family's name.
//!
//! Rules are written in [`crate::ops`], so their results are graphs that transforms can be applied to again.

use smallvec::SmallVec;

use crate::{
    Array, Dtype, Error, Result, Shape, graph::Inputs, ops, primitives::Primitive,
    transforms::Transform,
};

mod arange;
mod attention;
mod binary;
mod composed;
mod convolution;
mod copy;
mod delta;
mod elementwise;
mod fft;
mod gathered;
mod hadamard;
mod indexing;
mod kernel;
mod linalg;
mod load;
mod mapping;
mod matmul;
mod norm;
mod pass;
mod program;
mod quantized;
mod random;
mod reduce;
mod rope;
mod scan;
mod scatter;
mod shape;
mod softmax;
mod sort;
mod ternary;
mod unary;

pub(crate) use mapping::Mapped;

/// Outputs of a primitive; most have one.
pub(crate) type Outputs = SmallVec<[Array; 1]>;

/// A node that is differentiated.
pub(crate) struct Applied<'a> {
    /// What it reads.
    pub(crate) inputs: &'a [Array],
    /// What it gives.
    pub(crate) outputs: &'a [Array],
}

/// The rules of a family. Where it has several members, they are exhaustive matches, so that a new member
/// does not compile until it has all of them. They run on the stream of the node.
pub(crate) trait Rules {
    /// The derivatives by the `wanted` inputs along `cotangents`, which there is one of for each output; in
    /// the order of `wanted`. Complex derivatives are conjugated.
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs>;

    /// The derivatives of the outputs along `tangents` of the inputs, at least one of which is not zero.
    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs>;

    /// The primitive on inputs with one more axis each, where one is named, as if it ran for every index of
    /// that axis alone. At least one is named.
    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped>;
}

/// There is no such rule.
fn refused<T>(transform: Transform, primitive: impl Into<Primitive>) -> Result<T> {
    let op = match transform {
        Transform::Vjp => "Primitive::vjp",
        Transform::Jvp => "Primitive::jvp",
        Transform::Vmap => "Primitive::vmap",
    };
    Err(Error::invalid(op, format!("Not implemented for {}.", primitive.into().name())))
}

/// Zeros for each of the `wanted` inputs, on which nothing depends smoothly.
fn no_derivatives(node: &Applied<'_>, wanted: &[usize]) -> Result<Inputs> {
    wanted.iter().map(|&i| ops::zeros_like(&node.inputs[i])).collect()
}

/// Zeros for each of the outputs, which depend on nothing smoothly.
fn no_tangents(node: &Applied<'_>) -> Result<Outputs> {
    node.outputs.iter().map(ops::zeros_like).collect()
}

/// The only output.
fn one(output: Array) -> Result<Outputs> {
    Ok(SmallVec::from_buf([output]))
}

/// The sum of those that there are; of which there is at least one.
fn sum(terms: impl IntoIterator<Item = Result<Option<Array>>>) -> Result<Outputs> {
    let mut sum: Option<Array> = None;
    for term in terms {
        sum = match (sum, term?) {
            (Some(sum), Some(term)) => Some(ops::add(&sum, &term)?),
            (sum, term) => sum.or(term),
        };
    }
    one(sum.expect("rules are asked only where there is a tangent"))
}

/// The tangent of the only input.
fn only(tangents: &[Option<Array>]) -> &Array {
    match tangents {
        [Some(tangent)] => tangent,
        _ => unreachable!("rules are asked only where there is a tangent"),
    }
}

/// A tangent, or zeros like the input where there is none.
fn tangent_or_zeros(node: &Applied<'_>, tangents: &[Option<Array>], i: usize) -> Result<Array> {
    tangents[i].clone().map_or_else(|| ops::zeros_like(&node.inputs[i]), Ok)
}

/// The same for some inputs that must have one dtype: tangents of masks are masks, or floats.
fn alike(
    node: &Applied<'_>,
    tangents: &[Option<Array>],
    which: impl IntoIterator<Item = usize>,
) -> Result<Inputs> {
    let all = which.into_iter().map(|i| tangent_or_zeros(node, tangents, i));
    let all = all.collect::<Result<Inputs>>()?;
    match all.iter().map(Array::dtype).reduce(Dtype::promote) {
        Some(dtype) => all.iter().map(|tangent| ops::astype(tangent, dtype)).collect(),
        None => Ok(all),
    }
}

/// The shape with another axis.
fn with_axis(shape: &[usize], axis: usize, size: usize) -> Shape {
    let mut shape = Shape::from(shape);
    shape.insert(axis, size);
    shape
}
