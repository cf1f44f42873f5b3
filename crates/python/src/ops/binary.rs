//! Functions of two arrays, element by element.

use mlx::{
    Array,
    ops::{self, Operand as _},
};
use pyo3::{prelude::*, types::PyModule};

use super::aliases;
use crate::{
    arguments::{AnyArray, ArrayArg, Operand},
    array::{PyArray, apply},
    functions,
    stream::Target,
};

macro_rules! binary {
    ($register:ident $signature:tt: $($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            ///
            /// The shapes broadcast, and the dtypes promote; a Python scalar follows the array beside it.
            ///
            /// Args:
            ///     a (array): Input array or scalar.
            ///     b (array): Input array or scalar.
            ///
            /// Returns:
            ///     array: The result for each pair of elements.
            #[pyfunction]
            #[pyo3(signature = $signature)]
            fn $name(a: Operand, b: Operand, stream: Option<Target>) -> PyResult<PyArray> {
                apply(stream, || ops::$name(a, b))
            }
        )*

        fn $register(module: &Bound<'_, PyModule>) -> PyResult<()> {
            functions!(module: $($name)*);
            Ok(())
        }
    };
}

binary! { register_named (a, b, stream=None):
    /// ``a + b``.
    add;
    /// Bits set in both; logical and for booleans.
    bitwise_and;
    /// Bits set in either; logical or for booleans.
    bitwise_or;
    /// Bits set in one only.
    bitwise_xor;
    /// ``a / b``.
    divide;
    /// Whether ``a == b``.
    equal;
    /// ``a / b`` rounded down.
    floor_divide;
    /// Whether ``a > b``.
    greater;
    /// Whether ``a >= b``.
    greater_equal;
    /// ``a << b``.
    left_shift;
    /// Whether ``a < b``.
    less;
    /// Whether ``a <= b``.
    less_equal;
    /// ``a * b``.
    multiply;
    /// Whether ``a != b``.
    not_equal;
    /// What is left of ``a / b`` rounded down; it has the sign of ``b``.
    remainder;
    /// ``a >> b``.
    right_shift;
    /// ``a - b``.
    subtract;
}

binary! { register_by_position (a, b, /, *, stream=None):
    /// The angle of the point ``(b, a)``, in radians.
    arctan2;
    /// ``log(exp(a) + exp(b))`` without overflow.
    logaddexp;
    /// The larger one; NaN if either is.
    maximum;
    /// The smaller one; NaN if either is.
    minimum;
    /// ``a`` to the power of ``b``.
    power;
}

macro_rules! logical {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            ///
            /// The shapes broadcast; what is not zero is true.
            ///
            /// Args:
            ///     a (array): Input array or scalar.
            ///     b (array): Input array or scalar.
            ///
            /// Returns:
            ///     array: The result for each pair of elements, of dtype ``bool``.
            #[pyfunction]
            #[pyo3(signature = (a, b, /, *, stream=None))]
            fn $name(a: AnyArray, b: AnyArray, stream: Option<Target>) -> PyResult<PyArray> {
                apply(stream, || ops::$name(&a.0, &b.0))
            }
        )*

        fn register_logical(module: &Bound<'_, PyModule>) -> PyResult<()> {
            functions!(module: $($name)*);
            Ok(())
        }
    };
}

logical! {
    /// Whether both are true.
    logical_and;
    /// Whether either is true.
    logical_or;
    /// Whether one of both is true.
    logical_xor;
}

/// Quotients rounded down, and remainders: ``(a // b, a % b)``.
///
/// Args:
///     a (array): Input array or scalar.
///     b (array): Input array or scalar.
///
/// Returns:
///     list(array): Quotients and remainders.
#[pyfunction]
#[pyo3(signature = (a, b, stream=None))]
fn divmod(a: Operand, b: Operand, stream: Option<Target>) -> PyResult<Vec<PyArray>> {
    apply(stream, || ops::divmod(a, b).map(|(quotients, remainders)| vec![quotients, remainders]))
}

/// Both as arrays; a scalar follows the array beside it.
fn arrays(a: &Operand, b: &Operand) -> mlx::Result<(Array, Array)> {
    Ok((a.to_array(b.strong_dtype())?, b.to_array(a.strong_dtype())?))
}

/// Whether two arrays have the same shape and elements.
///
/// Args:
///     a (array): Input array or scalar.
///     b (array): Input array or scalar.
///     equal_nan (bool): NaN equals NaN. Default: ``False``.
///
/// Returns:
///     array: A single boolean.
#[pyfunction]
#[pyo3(signature = (a, b, equal_nan=false, stream=None))]
fn array_equal(
    a: Operand,
    b: Operand,
    equal_nan: bool,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || {
        let (a, b) = arrays(&a, &b)?;
        ops::array_equal(&a, &b, equal_nan)
    })
}

macro_rules! closeness {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Elements are close if ``abs(a - b) <= atol + rtol * abs(b)``; infinities are if they are equal.
        ///
        /// Args:
        ///     a (array): Input array.
        ///     b (array): Input array.
        ///     rtol (float): Tolerance relative to ``b``. Default: ``1e-5``.
        ///     atol (float): Absolute tolerance. Default: ``1e-8``.
        ///     equal_nan (bool): NaN is close to NaN. Default: ``False``.
        ///
        /// Returns:
        ///     array: Booleans.
        #[pyfunction]
        #[pyo3(signature = (a, b, /, rtol=1e-5, atol=1e-8, *, equal_nan=false, stream=None))]
        fn $name(
            a: ArrayArg,
            b: ArrayArg,
            rtol: f64,
            atol: f64,
            equal_nan: bool,
            stream: Option<Target>,
        ) -> PyResult<PyArray> {
            apply(stream, || ops::$name(&a, &b, rtol, atol, equal_nan))
        }
    )*};
}

closeness! {
    /// Whether all elements of two arrays are close.
    allclose;
    /// Which elements of two arrays are close.
    isclose;
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_named(module)?;
    register_by_position(module)?;
    register_logical(module)?;
    functions!(module: divmod array_equal allclose isclose);
    let names = [
        ("atan2", "arctan2"),
        ("bitwise_left_shift", "left_shift"),
        ("bitwise_right_shift", "right_shift"),
        ("pow", "power"),
    ];
    aliases(module, &names)
}
