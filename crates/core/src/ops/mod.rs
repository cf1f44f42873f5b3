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

use crate::{
    Array, Dtype, Error, Result, Shape,
    graph::{self, Inputs},
    iinfo,
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

/// An argument that is an array or a Rust number. Numbers are weak: they take the other
/// operand's dtype where it can hold their kind. An integer that such a dtype of integers has not is
/// refused, as upstream refuses Python's.
pub trait Operand {
    /// The argument as an array beside an operand of dtype `other`.
    ///
    /// # Errors
    /// When the dtype that an integer takes has it not, or memory is out.
    fn to_array(&self, other: Option<Dtype>) -> Result<Array>;

    /// The dtype, unless the argument is a weak scalar.
    fn strong_dtype(&self) -> Option<Dtype>;

    /// The value of a weak integer.
    fn weak_int(&self) -> Option<i64> {
        None
    }
}

impl Operand for Array {
    fn to_array(&self, _: Option<Dtype>) -> Result<Array> {
        Ok(self.clone())
    }

    fn strong_dtype(&self) -> Option<Dtype> {
        Some(self.dtype())
    }
}

impl<T: Operand + ?Sized> Operand for &T {
    fn to_array(&self, other: Option<Dtype>) -> Result<Array> {
        (**self).to_array(other)
    }

    fn strong_dtype(&self) -> Option<Dtype> {
        (**self).strong_dtype()
    }

    fn weak_int(&self) -> Option<i64> {
        (**self).weak_int()
    }
}

macro_rules! weak_scalars {
    ($($t:ty => $default:ident, $keeps:expr, $int:expr;)*) => {$(
        impl Operand for $t {
            fn to_array(&self, other: Option<Dtype>) -> Result<Array> {
                let keeps: fn(Dtype) -> bool = $keeps;
                let dtype = other.filter(|&d| keeps(d)).unwrap_or(Dtype::$default);
                self.weak_int().map_or(Ok(()), |value| expect_in(dtype, value))?;
                Array::scalar_of((*self).into(), dtype)
            }

            fn strong_dtype(&self) -> Option<Dtype> {
                None
            }

            fn weak_int(&self) -> Option<i64> {
                let int: fn($t) -> Option<i64> = $int;
                int(*self)
            }
        }
    )*};
}

weak_scalars! {
    f32 => Float32, Dtype::is_inexact, |_| None;
    f64 => Float32, Dtype::is_inexact, |_| None;
    i32 => Int32, |d| d != Dtype::Bool, |i| Some(i.into());
    u32 => Int32, |d| d != Dtype::Bool, |i| Some(i.into());
}

/// Refuses a number that a dtype of integers has not.
fn expect_in(dtype: Dtype, value: i64) -> Result<()> {
    if !dtype.is_integer() {
        return Ok(());
    }
    let info = iinfo(dtype)?;
    if value >= info.min && (value < 0 || value as u64 <= info.max) {
        return Ok(());
    }
    let message = format!("Converting {value} to {dtype} would result in overflow.");
    Err(Error::invalid("array", message))
}

impl Operand for bool {
    fn to_array(&self, other: Option<Dtype>) -> Result<Array> {
        Array::scalar_of(*self as u8 as f64, other.unwrap_or(Dtype::Bool))
    }

    fn strong_dtype(&self) -> Option<Dtype> {
        None
    }
}

/// Both operands as arrays of their own dtypes, scalars following the other operand.
pub(crate) fn operands(a: impl Operand, b: impl Operand) -> Result<(Array, Array)> {
    let (da, db) = (a.strong_dtype(), b.strong_dtype());
    Ok((a.to_array(db)?, b.to_array(da)?))
}
