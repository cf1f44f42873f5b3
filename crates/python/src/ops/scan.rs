//! Cumulative reductions and differences.

use mlx::{Error, ops};
use pyo3::{prelude::*, types::PyModule};

use super::aliases;
use crate::{
    arguments::ArrayArg,
    array::{PyArray, apply},
    dtype::PyDtype,
    functions,
    stream::Target,
};

/// Scans as functions and methods; `typed` functions, not their methods, take a dtype.
macro_rules! scans {
    (
        typed { $($(#[$typed_doc:meta])* $typed:ident;)* }
        others { $($(#[$doc:meta])* $name:ident;)* }
    ) => {
        $(
            $(#[$typed_doc])*
            ///
            /// Args:
            ///     a (array): Input array.
            ///     axis (int, optional): The axis to go along; without one the array is flattened.
            ///     reverse (bool): Start at the end. Default: ``False``.
            ///     inclusive (bool): Each element counts itself in. Default: ``True``.
            ///     dtype (Dtype, optional): Convert the elements first. Default: that of ``a``.
            ///
            /// Returns:
            ///     array: One result for each element.
            #[pyfunction]
            #[pyo3(signature = (
                a, /, axis=None, *, reverse=false, inclusive=true, dtype=None, stream=None
            ))]
            fn $typed(
                a: ArrayArg,
                axis: Option<isize>,
                reverse: bool,
                inclusive: bool,
                dtype: Option<PyDtype>,
                stream: Option<Target>,
            ) -> PyResult<PyArray> {
                let dtype = dtype.map(|dtype| dtype.0);
                apply(stream, || ops::$typed(&a, axis, reverse, inclusive, dtype))
            }
        )*

        $(
            $(#[$doc])*
            ///
            /// Args:
            ///     a (array): Input array.
            ///     axis (int, optional): The axis to go along; without one the array is flattened.
            ///     reverse (bool): Start at the end. Default: ``False``.
            ///     inclusive (bool): Each element counts itself in. Default: ``True``.
            ///
            /// Returns:
            ///     array: One result for each element.
            #[pyfunction]
            #[pyo3(signature = (a, /, axis=None, *, reverse=false, inclusive=true, stream=None))]
            fn $name(
                a: ArrayArg,
                axis: Option<isize>,
                reverse: bool,
                inclusive: bool,
                stream: Option<Target>,
            ) -> PyResult<PyArray> {
                apply(stream, || ops::$name(&a, axis, reverse, inclusive))
            }
        )*

        #[pymethods]
        impl PyArray {
            $(
                $(#[$typed_doc])*
                #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
                fn $typed(
                    &self,
                    axis: Option<isize>,
                    reverse: bool,
                    inclusive: bool,
                    stream: Option<Target>,
                ) -> PyResult<PyArray> {
                    apply(stream, || ops::$typed(&self.array(), axis, reverse, inclusive, None))
                }
            )*

            $(
                $(#[$doc])*
                #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
                fn $name(
                    &self,
                    axis: Option<isize>,
                    reverse: bool,
                    inclusive: bool,
                    stream: Option<Target>,
                ) -> PyResult<PyArray> {
                    apply(stream, || ops::$name(&self.array(), axis, reverse, inclusive))
                }
            )*
        }

        fn register_scans(module: &Bound<'_, PyModule>) -> PyResult<()> {
            functions!(module: $($typed)* $($name)*);
            Ok(())
        }
    };
}

scans! {
    typed {
        /// Running product.
        cumprod;
        /// Running sum.
        cumsum;
    }
    others {
        /// Running maximum.
        cummax;
        /// Running minimum.
        cummin;
        /// Running logarithm of the sum of the exponentials.
        logcumsumexp;
    }
}

/// Differences of neighbours along an axis.
///
/// Args:
///     a (array): Input array.
///     n (int): How many times differences are taken. Default: ``1``.
///     axis (int): The axis. Default: ``-1``.
///
/// Returns:
///     array: The differences; the axis is ``n`` elements shorter.
#[pyfunction]
#[pyo3(
    signature = (a, /, n=1, axis=-1, *, stream=None),
    text_signature = "(a, /, n=1, axis=-1, *, stream=None)"
)]
fn diff(a: ArrayArg, n: isize, axis: isize, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || {
        let message = || format!("Order must not be negative but got {n}.");
        let n = usize::try_from(n).map_err(|_| Error::invalid("diff", message()))?;
        ops::diff(&a, n, axis)
    })
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_scans(module)?;
    functions!(module: diff);
    aliases(module, &[("cumulative_prod", "cumprod"), ("cumulative_sum", "cumsum")])
}
