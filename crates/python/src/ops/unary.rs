//! Functions of one array, element by element.

use mlx::ops;
use pyo3::{prelude::*, types::PyModule};

use super::aliases;
use crate::{
    arguments::AnyArray,
    array::{PyArray, apply},
    functions,
    stream::Target,
};

/// Functions with an array of the same shape as their result; some are methods too.
macro_rules! unary {
    (
        methods { $($(#[$method_doc:meta])* $method:ident;)* }
        functions { $($(#[$doc:meta])* $name:ident;)* }
    ) => {
        $(
            $(#[$method_doc])*
            ///
            /// Args:
            ///     a (array): Input array.
            ///
            /// Returns:
            ///     array: An array of the same shape.
            #[pyfunction]
            #[pyo3(signature = (a, /, *, stream=None))]
            fn $method(a: AnyArray, stream: Option<Target>) -> PyResult<PyArray> {
                apply(stream, || ops::$method(&a))
            }
        )*

        $(
            $(#[$doc])*
            ///
            /// Args:
            ///     a (array): Input array.
            ///
            /// Returns:
            ///     array: An array of the same shape.
            #[pyfunction]
            #[pyo3(signature = (a, /, *, stream=None))]
            fn $name(a: AnyArray, stream: Option<Target>) -> PyResult<PyArray> {
                apply(stream, || ops::$name(&a))
            }
        )*

        #[pymethods]
        impl PyArray {$(
            $(#[$method_doc])*
            #[pyo3(signature = (*, stream=None))]
            fn $method(&self, stream: Option<Target>) -> PyResult<PyArray> {
                apply(stream, || ops::$method(&self.array()))
            }
        )*}

        fn register_unary(module: &Bound<'_, PyModule>) -> PyResult<()> {
            functions!(module: $($method)* $($name)*);
            Ok(())
        }
    };
}

unary! {
    methods {
        /// Absolute value; the modulus of complex numbers.
        abs;
        /// Cosine of radians.
        cos;
        /// Exponential.
        exp;
        /// Natural logarithm.
        log;
        /// Logarithm to base 10.
        log10;
        /// ``log(1 + a)`` without cancellation near zero.
        log1p;
        /// Logarithm to base 2.
        log2;
        /// ``1 / a``.
        reciprocal;
        /// ``1 / sqrt(a)``.
        rsqrt;
        /// Sine of radians.
        sin;
        /// Square root.
        sqrt;
        /// The square.
        square;
    }
    functions {
        /// Inverse cosine, in radians.
        arccos;
        /// Inverse hyperbolic cosine.
        arccosh;
        /// Inverse sine, in radians.
        arcsin;
        /// Inverse hyperbolic sine.
        arcsinh;
        /// Inverse tangent, in radians.
        arctan;
        /// Inverse hyperbolic tangent.
        arctanh;
        /// The next integer above.
        ceil;
        /// Hyperbolic cosine.
        cosh;
        /// Error function.
        erf;
        /// Inverse of the error function.
        erfinv;
        /// ``exp(a) - 1`` without cancellation near zero.
        expm1;
        /// The next integer below.
        floor;
        /// Imaginary part of complex numbers; 0 for others.
        imag;
        /// Whether elements are zero or false.
        logical_not;
        /// ``-a``.
        negative;
        /// The array itself.
        positive;
        /// Real part of complex numbers; others themselves.
        real;
        /// ``1 / (1 + exp(-a))``.
        sigmoid;
        /// Sign: -1, 0 or 1; ``a / abs(a)`` for complex numbers.
        sign;
        /// Hyperbolic sine.
        sinh;
        /// Tangent of radians.
        tan;
        /// Hyperbolic tangent.
        tanh;
        /// The integer towards zero.
        trunc;
        /// Degrees of radians.
        degrees;
        /// Radians of degrees.
        radians;
    }
}

/// Questions about elements, and what else takes its stream by position.
macro_rules! questions {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            ///
            /// Args:
            ///     a (array): Input array.
            ///
            /// Returns:
            ///     array: An array of the same shape.
            #[pyfunction]
            #[pyo3(signature = (a, stream=None))]
            fn $name(a: AnyArray, stream: Option<Target>) -> PyResult<PyArray> {
                apply(stream, || ops::$name(&a))
            }
        )*

        fn register_questions(module: &Bound<'_, PyModule>) -> PyResult<()> {
            functions!(module: $($name)*);
            Ok(())
        }
    };
}

questions! {
    /// Flips every bit; the logical negation of booleans.
    bitwise_invert;
    /// Whether elements are neither infinite nor NaN.
    isfinite;
    /// Whether elements are positive or negative infinity.
    isinf;
    /// Whether elements are NaN.
    isnan;
    /// Whether elements are negative infinity.
    isneginf;
    /// Whether elements are positive infinity.
    isposinf;
}

/// The complex conjugate.
///
/// Args:
///     a (array): Input array.
///
/// Returns:
///     array: An array of the same shape.
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn conj(a: AnyArray, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::conjugate(&a))
}

/// The complex conjugate: :func:`conj`.
///
/// Args:
///     a (array): Input array.
///
/// Returns:
///     array: An array of the same shape.
#[pyfunction]
#[pyo3(signature = (a, *, stream=None))]
fn conjugate(a: AnyArray, stream: Option<Target>) -> PyResult<PyArray> {
    conj(a, stream)
}

/// Rounds to a number of decimals; halves go to the even neighbour.
///
/// Args:
///     a (array): Input array.
///     decimals (int): Digits behind the point; negative ones count before it. Default: ``0``.
///
/// Returns:
///     array: An array of the same shape and dtype.
#[pyfunction]
#[pyo3(signature = (a, /, decimals=0, stream=None))]
fn round(a: AnyArray, decimals: i32, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::round(&a, decimals))
}

#[pymethods]
impl PyArray {
    /// The complex conjugate.
    #[pyo3(signature = (*, stream=None))]
    fn conj(&self, stream: Option<Target>) -> PyResult<PyArray> {
        apply(stream, || ops::conjugate(&self.array()))
    }

    /// Rounds to a number of decimals; halves go to the even neighbour.
    #[pyo3(signature = (decimals=0, *, stream=None))]
    fn round(&self, decimals: i32, stream: Option<Target>) -> PyResult<PyArray> {
        apply(stream, || ops::round(&self.array(), decimals))
    }

    /// Real part of complex numbers; others themselves.
    #[getter]
    fn real(&self) -> PyResult<PyArray> {
        apply(None, || ops::real(&self.array()))
    }

    /// Imaginary part of complex numbers; 0 for others.
    #[getter]
    fn imag(&self) -> PyResult<PyArray> {
        apply(None, || ops::imag(&self.array()))
    }
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_unary(module)?;
    register_questions(module)?;
    functions!(module: conj conjugate round);
    aliases(
        module,
        &[
            ("acos", "arccos"),
            ("acosh", "arccosh"),
            ("asin", "arcsin"),
            ("asinh", "arcsinh"),
            ("atan", "arctan"),
            ("atanh", "arctanh"),
        ],
    )
}
