//! Elementwise functions of one array.

use crate::{
    Array, Dtype, Error, Result, Shape,
    ops::{self, astype},
    primitives::UnaryOp,
};

/// Applies `op` to the elements as `dtype`.
fn apply(a: &Array, op: UnaryOp, dtype: Dtype) -> Result<Array> {
    let a = astype(a, dtype)?;
    let shape = Shape::from_slice(a.shape());
    ops::checked_node(op, [a], shape, op.output_dtype(dtype))
}

/// Functions that integers and bools enter as float32.
macro_rules! floating {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Integers and bools become float32.
        ///
        /// # Errors
        /// When there is no stream to run on.
        pub fn $name(a: &Array) -> Result<Array> {
            let dtype = a.dtype().at_least_float();
            apply(a, UnaryOp::$op, dtype)
        }
    )*};
}

floating! {
    /// Inverse cosine, in radians.
    arccos => Arccos;
    /// Inverse hyperbolic cosine.
    arccosh => Arccosh;
    /// Inverse sine, in radians.
    arcsin => Arcsin;
    /// Inverse hyperbolic sine.
    arcsinh => Arcsinh;
    /// Inverse tangent, in radians.
    arctan => Arctan;
    /// Inverse hyperbolic tangent.
    arctanh => Arctanh;
    /// Cosine of radians.
    cos => Cos;
    /// Hyperbolic cosine.
    cosh => Cosh;
    /// Exponential.
    exp => Exp;
    /// Natural logarithm.
    log => Log;
    /// Logarithm to base 10.
    log10 => Log10;
    /// `log(1 + x)` without cancellation near zero.
    log1p => Log1p;
    /// Logarithm to base 2.
    log2 => Log2;
    /// `1 / √x`.
    rsqrt => Rsqrt;
    /// Sine of radians.
    sin => Sin;
    /// Hyperbolic sine.
    sinh => Sinh;
    /// Square root.
    sqrt => Sqrt;
    /// Tangent of radians.
    tan => Tan;
    /// Hyperbolic tangent.
    tanh => Tanh;
}

/// Functions that keep the dtype.
macro_rules! keeping {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// When there is no stream to run on.
        pub fn $name(a: &Array) -> Result<Array> {
            apply(a, UnaryOp::$op, a.dtype())
        }
    )*};
}

keeping! {
    /// Sign: -1, 0 or 1; `z/|z|` for complex numbers.
    sign => Sign;
    /// The square.
    square => Square;
}

/// Functions of real numbers, which integers and bools enter as float32.
macro_rules! real_only {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Integers and bools become float32.
        ///
        /// # Errors
        /// For complex64.
        pub fn $name(a: &Array) -> Result<Array> {
            let dtype = a.dtype().at_least_float();
            match dtype {
                Dtype::Complex64 => {
                    Err(Error::invalid(stringify!($name), "Not supported for complex64."))
                }
                _ => apply(a, UnaryOp::$op, dtype),
            }
        }
    )*};
}

real_only! {
    /// Error function `2/√π ∫₀ˣ exp(-t²) dt`.
    erf => Erf;
    /// Inverse of the error function.
    erfinv => Erfinv;
    /// `exp(x) - 1` without cancellation near zero.
    expm1 => Expm1;
    /// `1 / (1 + exp(-x))`.
    sigmoid => Sigmoid;
}

/// Absolute value; the modulus as float32 for complex64.
///
/// # Errors
/// When there is no stream to run on.
pub fn abs(a: &Array) -> Result<Array> {
    match a.dtype() {
        Dtype::Complex64 => apply(a, UnaryOp::Abs, Dtype::Complex64),
        Dtype::Bool => Ok(a.clone()),
        dtype if dtype.is_unsigned_integer() => Ok(a.clone()),
        dtype => apply(a, UnaryOp::Abs, dtype),
    }
}

/// The negation.
///
/// # Errors
/// For bool.
pub fn negative(a: &Array) -> Result<Array> {
    if a.dtype() == Dtype::Bool {
        return Err(Error::invalid("negative", "Not supported for bool, use logical_not instead."));
    }
    apply(a, UnaryOp::Negative, a.dtype())
}

/// Largest integer not above; integers are returned as they are.
///
/// # Errors
/// For complex64.
pub fn floor(a: &Array) -> Result<Array> {
    rounding("floor", a, UnaryOp::Floor)
}

/// Smallest integer not below; integers are returned as they are.
///
/// # Errors
/// For complex64.
pub fn ceil(a: &Array) -> Result<Array> {
    rounding("ceil", a, UnaryOp::Ceil)
}

/// The integer towards zero; integers and bools are returned as they are.
///
/// # Errors
/// For complex64.
pub fn trunc(a: &Array) -> Result<Array> {
    match a.dtype() {
        Dtype::Complex64 => Err(Error::invalid("trunc", "Not supported for complex64.")),
        dtype if dtype.is_floating() => ops::where_(&ops::less(a, 0.0f32)?, &ceil(a)?, &floor(a)?),
        _ => Ok(a.clone()),
    }
}

/// The array itself.
///
/// # Errors
/// Never; it is fallible as every function is.
pub fn positive(a: &Array) -> Result<Array> {
    Ok(a.clone())
}

fn rounding(name: &'static str, a: &Array, op: UnaryOp) -> Result<Array> {
    match a.dtype() {
        Dtype::Complex64 => Err(Error::invalid(name, "Not supported for complex64.")),
        dtype if dtype.is_floating() => apply(a, op, dtype),
        _ => Ok(a.clone()),
    }
}

/// Rounds to `decimals` decimals, halves to even.
///
/// # Errors
/// When there is no stream to run on.
pub fn round(a: &Array, decimals: i32) -> Result<Array> {
    if decimals == 0 {
        return match a.dtype().is_inexact() {
            true => apply(a, UnaryOp::Round, a.dtype()),
            false => Ok(a.clone()),
        };
    }
    let dtype = a.dtype().at_least_float();
    let scale = Array::scalar_of(10f64.powi(decimals), dtype)?;
    let rounded = apply(&ops::multiply(a, &scale)?, UnaryOp::Round, dtype)?;
    astype(&ops::divide(&rounded, &scale)?, a.dtype())
}

/// Logical negation; the result is bool.
///
/// # Errors
/// When there is no stream to run on.
pub fn logical_not(a: &Array) -> Result<Array> {
    apply(a, UnaryOp::LogicalNot, Dtype::Bool)
}

/// Flips every bit; for bool the logical negation.
///
/// # Errors
/// For floating point arrays.
pub fn bitwise_invert(a: &Array) -> Result<Array> {
    match a.dtype() {
        dtype if dtype.is_inexact() => {
            let message = "Bitwise inverse only allowed on integer types.";
            Err(Error::invalid("bitwise_invert", message))
        }
        Dtype::Bool => logical_not(a),
        dtype => apply(a, UnaryOp::BitwiseInvert, dtype),
    }
}

/// Complex conjugate; real arrays are returned as they are.
///
/// # Errors
/// When there is no stream to run on.
pub fn conjugate(a: &Array) -> Result<Array> {
    match a.dtype() {
        Dtype::Complex64 => apply(a, UnaryOp::Conjugate, Dtype::Complex64),
        _ => Ok(a.clone()),
    }
}

/// Real part; real arrays are returned as they are.
///
/// # Errors
/// When there is no stream to run on.
pub fn real(a: &Array) -> Result<Array> {
    match a.dtype() {
        Dtype::Complex64 => apply(a, UnaryOp::Real, Dtype::Complex64),
        _ => Ok(a.clone()),
    }
}

/// Imaginary part; zeros for real arrays.
///
/// # Errors
/// When there is no stream to run on.
pub fn imag(a: &Array) -> Result<Array> {
    match a.dtype() {
        Dtype::Complex64 => apply(a, UnaryOp::Imag, Dtype::Complex64),
        _ => ops::zeros_like(a),
    }
}

/// `1 / x`.
///
/// # Errors
/// When there is no stream to run on.
pub fn reciprocal(a: &Array) -> Result<Array> {
    ops::divide(1.0f32, a)
}

/// Radians of degrees.
///
/// # Errors
/// When there is no stream to run on.
pub fn radians(a: &Array) -> Result<Array> {
    ops::multiply(a, std::f64::consts::PI / 180.0)
}

/// Degrees of radians.
///
/// # Errors
/// When there is no stream to run on.
pub fn degrees(a: &Array) -> Result<Array> {
    ops::multiply(a, 180.0 / std::f64::consts::PI)
}

/// Whether elements are NaN.
///
/// # Errors
/// When there is no stream to run on.
pub fn isnan(a: &Array) -> Result<Array> {
    match a.dtype().is_inexact() {
        true => ops::not_equal(a, a),
        false => ops::full(a.shape(), false, Dtype::Bool),
    }
}

/// Whether elements are positive or negative infinity.
///
/// # Errors
/// When there is no stream to run on.
pub fn isinf(a: &Array) -> Result<Array> {
    if a.dtype() == Dtype::Complex64 {
        return ops::logical_or(&isinf(&real(a)?)?, &isinf(&imag(a)?)?);
    }
    ops::logical_or(&isposinf(a)?, &isneginf(a)?)
}

/// Whether elements are neither infinite nor NaN.
///
/// # Errors
/// When there is no stream to run on.
pub fn isfinite(a: &Array) -> Result<Array> {
    logical_not(&ops::logical_or(&isinf(a)?, &isnan(a)?)?)
}

/// Whether elements are positive infinity.
///
/// # Errors
/// When there is no stream to run on.
pub fn isposinf(a: &Array) -> Result<Array> {
    equal_to(a, f64::INFINITY)
}

/// Whether elements are negative infinity.
///
/// # Errors
/// When there is no stream to run on.
pub fn isneginf(a: &Array) -> Result<Array> {
    equal_to(a, f64::NEG_INFINITY)
}

fn equal_to(a: &Array, value: f64) -> Result<Array> {
    match a.dtype().is_inexact() {
        true => ops::equal(a, value),
        false => ops::full(a.shape(), false, Dtype::Bool),
    }
}
