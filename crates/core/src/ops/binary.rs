//! Elementwise functions of two arrays, and comparisons.

use std::convert::identity;

use crate::{
    Array, Dtype, Error, Result, Shape,
    ops::{self, Operand, into_dtype, operands},
    primitives::BinaryOp,
    transforms::trace,
};

/// Converts both to `dtype`, broadcasts them and applies `op`.
fn apply(name: &'static str, a: Array, b: Array, op: BinaryOp, dtype: Dtype) -> Result<Array> {
    let (mut a, mut b) = (into_dtype(a, dtype)?, into_dtype(b, dtype)?);
    if a.shape() != b.shape() || trace::is_shapeless() {
        [a, b] = ops::broadcast_together(name, [&a, &b], &[])?;
    }
    let shape = Shape::from_slice(a.shape());
    ops::checked_node(op, [a, b], shape, op.output_dtype(dtype))
}

/// Functions of operands in a dtype that follows from the promoted one; a sentence says how.
macro_rules! functions {
    ($how:literal, $dtype:expr; $($(#[$doc:meta])* $name:ident => $op:ident;)*) => {$(
        $(#[$doc])*
        ///
        #[doc = $how]
        ///
        /// # Errors
        /// When the shapes do not broadcast.
        pub fn $name(a: impl Operand, b: impl Operand) -> Result<Array> {
            let (a, b) = operands(a, b)?;
            let dtype: fn(Dtype) -> Dtype = $dtype;
            let dtype = dtype(a.dtype().promote(b.dtype()));
            apply(stringify!($name), a, b, BinaryOp::$op, dtype)
        }
    )*};
}

functions! {
    "Broadcasts, and promotes the dtypes.", identity;
    /// `a + b`; logical or for bools.
    add => Add;
    /// The larger one; NaN if either is.
    maximum => Maximum;
    /// The smaller one; NaN if either is.
    minimum => Minimum;
    /// `a * b`; logical and for bools.
    multiply => Multiply;
    /// `a` to the power of `b`.
    power => Power;
}

functions! {
    "Broadcasts, and compares in the promoted dtype.", identity;
    /// Whether `a == b`.
    equal => Equal;
    /// Whether `a > b`.
    greater => Greater;
    /// Whether `a >= b`.
    greater_equal => GreaterEqual;
    /// Whether `a < b`.
    less => Less;
    /// Whether `a <= b`.
    less_equal => LessEqual;
    /// Whether `a != b`.
    not_equal => NotEqual;
}

functions! {
    "Broadcasts; integers become float32.", Dtype::at_least_float;
    /// `a / b`.
    divide => Divide;
    /// `log(exp(a) + exp(b))` without overflow.
    logaddexp => LogAddExp;
}

/// Angle of the point `(b, a)`, in radians. Broadcasts; integers become float32.
///
/// # Errors
/// For complex64, or when the shapes do not broadcast.
pub fn arctan2(a: impl Operand, b: impl Operand) -> Result<Array> {
    let (a, b) = operands(a, b)?;
    let dtype = a.dtype().promote(b.dtype()).at_least_float();
    if dtype == Dtype::Complex64 {
        return Err(Error::invalid("arctan2", "Not supported for complex64."));
    }
    apply("arctan2", a, b, BinaryOp::Arctan2, dtype)
}

functions! {
    "Broadcasts.", |_| Dtype::Bool;
    /// Whether both are nonzero.
    logical_and => LogicalAnd;
    /// Whether either is nonzero.
    logical_or => LogicalOr;
    /// Whether one of both is nonzero.
    logical_xor => NotEqual;
}

/// Functions of bits.
macro_rules! bitwise {
    ($($(#[$doc:meta])* $name:ident => $op:ident, $bool:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// For floating point dtypes, or when the shapes do not broadcast.
        pub fn $name(a: impl Operand, b: impl Operand) -> Result<Array> {
            let (a, b) = operands(a, b)?;
            let dtype = bit_dtype(stringify!($name), &a, &b, $bool)?;
            apply(stringify!($name), a, b, BinaryOp::$op, dtype)
        }
    )*};
}

bitwise! {
    /// Bits set in both.
    bitwise_and => BitwiseAnd, Dtype::Bool;
    /// Bits set in either.
    bitwise_or => BitwiseOr, Dtype::Bool;
    /// Bits set in one only.
    bitwise_xor => BitwiseXor, Dtype::Bool;
    /// `a << b`; bools become uint8.
    left_shift => LeftShift, Dtype::Uint8;
    /// `a >> b`; bools become uint8.
    right_shift => RightShift, Dtype::Uint8;
}

fn bit_dtype(name: &'static str, a: &Array, b: &Array, for_bool: Dtype) -> Result<Dtype> {
    match a.dtype().promote(b.dtype()) {
        Dtype::Bool => Ok(for_bool),
        dtype if dtype.is_integer() => Ok(dtype),
        _ => {
            let message = format!(
                "Only allowed on integer or boolean types but got types {} and {}.",
                a.dtype(),
                b.dtype()
            );
            // Not ValueError, for which one would take it: upstream raises RuntimeError.
            Err(Error::runtime(name, message))
        }
    }
}

/// `a - b`.
///
/// # Errors
/// For two bools, or when the shapes do not broadcast.
pub fn subtract(a: impl Operand, b: impl Operand) -> Result<Array> {
    let (a, b) = operands(a, b)?;
    let dtype = a.dtype().promote(b.dtype());
    apply("subtract", a, b, BinaryOp::Subtract, dtype)
}

/// `floor(a / b)`, for integers too. Complex quotients keep their fractions.
///
/// # Errors
/// When the shapes do not broadcast.
pub fn floor_divide(a: impl Operand, b: impl Operand) -> Result<Array> {
    let (a, b) = operands(a, b)?;
    let dtype = a.dtype().promote(b.dtype());
    let complex = dtype == Dtype::Complex64;
    let op = if complex { BinaryOp::Divide } else { BinaryOp::FloorDivide };
    apply("floor_divide", a, b, op, dtype)
}

/// Remainder with the sign of the divisor. Broadcasts, and promotes the dtypes.
///
/// # Errors
/// For complex64, or when the shapes do not broadcast.
pub fn remainder(a: impl Operand, b: impl Operand) -> Result<Array> {
    let (a, b) = operands(a, b)?;
    let dtype = a.dtype().promote(b.dtype());
    if dtype == Dtype::Complex64 {
        return Err(Error::invalid("remainder", "Complex type not supported."));
    }
    apply("remainder", a, b, BinaryOp::Remainder, dtype)
}

/// Quotient and remainder: [`floor_divide`] and [`remainder`].
///
/// # Errors
/// When the shapes do not broadcast.
pub fn divmod(a: impl Operand, b: impl Operand) -> Result<(Array, Array)> {
    let (a, b) = operands(a, b)?;
    // As upstream has it, neither has a derivative.
    let flat = |a: Result<Array>| ops::stop_gradient(&a?);
    Ok((flat(floor_divide(&a, &b))?, flat(remainder(&a, &b))?))
}

/// Whether all elements are equal; arrays of different shapes are not.
///
/// # Errors
/// When there is no stream to run on.
pub fn array_equal(a: &Array, b: &Array, equal_nan: bool) -> Result<Array> {
    if a.shape() != b.shape() {
        return Array::scalar(crate::dtype::Bool8::from(false));
    }
    let dtype = a.dtype().promote(b.dtype());
    let op = if equal_nan && dtype.is_inexact() { BinaryOp::NanEqual } else { BinaryOp::Equal };
    ops::all(&apply("array_equal", a.clone(), b.clone(), op, dtype)?, &[], false)
}

/// Whether `|a - b| <= atol + rtol * |b|`, elementwise; infinities are close to themselves.
///
/// # Errors
/// When the shapes do not broadcast.
pub fn isclose(a: &Array, b: &Array, rtol: f64, atol: f64, equal_nan: bool) -> Result<Array> {
    let bound = add(atol, &multiply(rtol, &ops::abs(b)?)?)?;
    let near = less_equal(&ops::abs(&subtract(a, b)?)?, &bound)?;
    let infinite = logical_or(&ops::isinf(a)?, &ops::isinf(b)?)?;
    let close = ops::where_(&infinite, &equal(a, b)?, &near)?;
    match equal_nan {
        false => Ok(close),
        true => logical_or(&close, &logical_and(&ops::isnan(a)?, &ops::isnan(b)?)?),
    }
}

/// Whether all elements are close; see [`isclose`].
///
/// # Errors
/// When the shapes do not broadcast.
pub fn allclose(a: &Array, b: &Array, rtol: f64, atol: f64, equal_nan: bool) -> Result<Array> {
    ops::all(&isclose(a, b, rtol, atol, equal_nan)?, &[], false)
}

macro_rules! operators {
    ($($trait:ident, $method:ident, $function:ident;)*) => {$(
        impl<T: Operand> std::ops::$trait<T> for &Array {
            type Output = Array;

            /// # Panics
            /// Where the function of the same meaning returns an error.
            fn $method(self, other: T) -> Array {
                $function(self, other).unwrap_or_else(|e| panic!("{e}"))
            }
        }

        impl<T: Operand> std::ops::$trait<T> for Array {
            type Output = Array;

            /// # Panics
            /// Where the function of the same meaning returns an error.
            fn $method(self, other: T) -> Array {
                $function(&self, other).unwrap_or_else(|e| panic!("{e}"))
            }
        }
    )*};
}

operators! {
    Add, add, add;
    Sub, sub, subtract;
    Mul, mul, multiply;
    Div, div, divide;
    Rem, rem, remainder;
}
