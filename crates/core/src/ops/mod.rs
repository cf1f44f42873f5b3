//! Operations with MLX's names, argument order, defaults and errors.
//!
//! Each checks its arguments, promotes dtypes, broadcasts and adds a node to the graph; nothing
//! runs until [`crate::eval()`]. They run on [`crate::current_stream`]; [`crate::with_stream`] and
//! [`crate::with_device`] choose another, as MLX's `stream=` does.

mod arange;
mod arrange;
mod binary;
mod convolution;
mod copy;
mod diagonal;
mod einsum;
mod fp_quantized;
mod gathered;
mod gathered_quantized;
mod hadamard;
mod indexing;
mod masked;
mod matmul;
mod minifloat;
mod operand;
mod pad;
mod pass;
mod products;
mod quantized;
mod reduce;
mod scan;
mod scatter;
mod shape;
mod softmax;
mod sort;
mod ternary;
mod unary;
mod unique;
mod windows;

pub use arange::*;
pub use arrange::*;
pub use binary::*;
pub use convolution::*;
pub use copy::*;
pub use diagonal::*;
pub use einsum::{einsum, einsum_path};
pub use fp_quantized::*;
pub use gathered::{gather_mm, segmented_mm};
pub use gathered_quantized::*;
pub use hadamard::*;
pub use indexing::*;
pub use masked::*;
pub use matmul::*;
pub use minifloat::*;
pub use operand::{Operand, dtype_of_int, int_scalar, weak_int_scalar};
pub use pad::*;
pub use pass::*;
pub use products::*;
pub use quantized::*;
pub use reduce::*;
pub use scan::*;
pub use scatter::*;
pub use shape::*;
pub use softmax::*;
pub use sort::*;
pub use ternary::*;
pub use unary::*;
pub use unique::*;
pub use windows::*;

pub(crate) use operand::operands;

use crate::{
    Array, Dtype, Error, Result, Shape,
    graph::{self, Inputs},
    primitives::{Axes, Primitive, Spec},
};

/// Adds a node with one output.
pub(crate) fn node(
    primitive: impl Into<Primitive>,
    inputs: impl IntoIterator<Item = Array>,
) -> Result<Array> {
    let mut outputs = graph::apply(primitive.into(), inputs.into_iter().collect())?;
    Ok(outputs.pop().expect("every primitive has an output"))
}

/// Adds a node with one output of this shape and dtype, which must be what [`Primitive::output_specs`] says:
/// for operations that have checked their inputs and are called many times a token.
pub(crate) fn checked_node<const N: usize>(
    primitive: impl Into<Primitive>,
    inputs: [Array; N],
    shape: Shape,
    dtype: Dtype,
) -> Result<Array> {
    graph::apply_checked(primitive.into(), listed(inputs), Spec { shape, dtype })
}

/// Inputs of a node.
pub(crate) fn listed<const N: usize>(arrays: [Array; N]) -> Inputs {
    let mut inputs = Inputs::new();
    for array in arrays {
        inputs.push(array);
    }
    inputs
}

/// Adds a node with `N` outputs.
pub(crate) fn nodes<const N: usize>(
    primitive: impl Into<Primitive>,
    inputs: impl IntoIterator<Item = Array>,
) -> Result<[Array; N]> {
    let outputs = graph::apply(primitive.into(), inputs.into_iter().collect())?;
    Ok(outputs.into_vec().try_into().expect("the primitive has this number of outputs"))
}

/// `axis` as an index into `ndim` axes; negative ones count from the end.
pub(crate) fn normalize_axis(op: &'static str, axis: isize, ndim: usize) -> Result<usize> {
    let positive = if axis < 0 { axis + ndim as isize } else { axis };
    if (0..ndim as isize).contains(&positive) {
        return Ok(positive as usize);
    }
    let message = format!("Axis {axis} is out of bounds for array with {ndim} dimensions.");
    Err(Error::out_of_range(op, message))
}

/// Axes as ascending indices, each at most once; an empty list means all axes.
pub(crate) fn normalize_axes(op: &'static str, axes: &[isize], ndim: usize) -> Result<Axes> {
    if axes.is_empty() {
        return Ok((0..ndim).collect());
    }
    let mut out = axes.iter().map(|&a| normalize_axis(op, a, ndim)).collect::<Result<Axes>>()?;
    out.sort_unstable();
    if out.windows(2).any(|w| w[0] == w[1]) {
        return Err(Error::invalid(op, format!("Duplicate axes {axes:?}.")));
    }
    Ok(out)
}

/// The shape that both broadcast to.
pub(crate) fn broadcast_shape(op: &'static str, a: &[usize], b: &[usize]) -> Result<Shape> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut shape = Shape::from(long);
    let skipped = long.len() - short.len();
    for (out, &dim) in shape[skipped..].iter_mut().zip(short) {
        *out = match (*out, dim) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => {
                let message = format!("Shapes {a:?} and {b:?} cannot be broadcast.");
                return Err(Error::invalid(op, message));
            }
        };
    }
    Ok(shape)
}
