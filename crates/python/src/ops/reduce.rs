//! Reductions along axes.

use mlx::{Array, ops};
use pyo3::{prelude::*, types::PyModule};

use crate::{
    arguments::{ArrayArg, Axes},
    array::{PyArray, apply},
    functions,
    stream::Target,
};

/// What a reduction over `axes` returns. Core takes an empty list for all axes, Python for none.
pub(super) fn reduced<T>(
    a: &Array,
    axes: &Option<Axes>,
    keepdims: bool,
    op: impl FnOnce(&Array, &[isize], bool) -> mlx::Result<T>,
) -> mlx::Result<T> {
    match axes {
        // One element each.
        Some(axes) if axes.as_slice().is_empty() => op(&ops::expand_dims(a, &[-1])?, &[-1], false),
        axes => op(a, Axes::or_all(axes), keepdims),
    }
}

/// Reductions as functions and as methods: what they return with no axis to reduce over, `a` itself or
/// something that has to be computed.
macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident => $over_nothing:ident;)*) => {
        $(
            $(#[$doc])*
            ///
            /// Args:
            ///     a (array): Input array.
            ///     axis (int or list(int), optional): Axis or axes to reduce over; all if there is none.
            ///     keepdims (bool, optional): Keep reduced axes as axes of size 1. Default: ``False``.
            ///
            /// Returns:
            ///     array: The reduced array.
            #[pyfunction]
            #[pyo3(signature = (a, /, axis=None, keepdims=false, *, stream=None))]
            fn $name(
                a: ArrayArg,
                axis: Option<Axes>,
                keepdims: bool,
                stream: Option<Target>,
            ) -> PyResult<PyArray> {
                apply(stream, || $over_nothing(&a, &axis, keepdims, ops::$name))
            }
        )*

        #[pymethods]
        impl PyArray {$(
            $(#[$doc])*
            #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
            fn $name(
                &self,
                axis: Option<Axes>,
                keepdims: bool,
                stream: Option<Target>,
            ) -> PyResult<PyArray> {
                $name(ArrayArg(self.array()), axis, keepdims, stream)
            }
        )*}

        fn register_reductions(module: &Bound<'_, PyModule>) -> PyResult<()> {
            functions!(module: $($name)*);
            Ok(())
        }
    };
}

/// Reductions that leave `a` as it is, its dtype too, where there is no axis.
fn or_itself(
    a: &Array,
    axes: &Option<Axes>,
    keepdims: bool,
    op: impl FnOnce(&Array, &[isize], bool) -> mlx::Result<Array>,
) -> mlx::Result<Array> {
    match axes {
        Some(axes) if axes.as_slice().is_empty() => Ok(a.clone()),
        axes => op(a, Axes::or_all(axes), keepdims),
    }
}

reductions! {
    /// Whether all elements are true.
    all => reduced;
    /// Whether any element is true.
    any => reduced;
    /// The logarithm of the sum of the exponentials, without overflow.
    logsumexp => reduced;
    /// The largest element.
    max => or_itself;
    /// The mean of the elements.
    mean => reduced;
    /// The smallest element.
    min => or_itself;
    /// The product of the elements.
    prod => or_itself;
    /// The sum of the elements.
    sum => or_itself;
}

/// Positions of extremes as functions and as methods.
macro_rules! positions {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            ///
            /// Args:
            ///     a (array): Input array.
            ///     axis (int, optional): The axis to reduce over; without one the array is flattened.
            ///     keepdims (bool, optional): Keep reduced axes as axes of size 1. Default: ``False``.
            ///
            /// Returns:
            ///     array: Indices, ``uint32``.
            #[pyfunction]
            #[pyo3(signature = (a, /, axis=None, keepdims=false, *, stream=None))]
            fn $name(
                a: ArrayArg,
                axis: Option<isize>,
                keepdims: bool,
                stream: Option<Target>,
            ) -> PyResult<PyArray> {
                apply(stream, || ops::$name(&a, axis, keepdims))
            }
        )*

        #[pymethods]
        impl PyArray {$(
            $(#[$doc])*
            #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
            fn $name(
                &self,
                axis: Option<isize>,
                keepdims: bool,
                stream: Option<Target>,
            ) -> PyResult<PyArray> {
                apply(stream, || ops::$name(&self.array(), axis, keepdims))
            }
        )*}
    };
}

positions! {
    /// The index of the largest element, of the first one if there are several.
    argmax;
    /// The index of the smallest element, of the first one if there are several.
    argmin;
}

/// ``exp(a) / sum(exp(a))`` along axes, without overflow.
///
/// Args:
///     a (array): Input array.
///     axis (int or list(int), optional): Axis or axes that sum to 1; all together if there is none.
///     precise (bool): Compute in float32 where the dtype is smaller. Default: ``False``.
///
/// Returns:
///     array: The shares.
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, *, precise=false, stream=None))]
fn softmax(
    a: ArrayArg,
    axis: Option<Axes>,
    precise: bool,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || match &axis {
        Some(axes) if axes.as_slice().is_empty() => softmax_of_each(&a),
        axes => ops::softmax(&a, Axes::or_all(axes), precise),
    })
}

/// Each element's share of itself: one, or nan where it is not finite.
fn softmax_of_each(a: &Array) -> mlx::Result<Array> {
    if !a.dtype().is_inexact() {
        return ops::ones_like(a);
    }
    let exponential = ops::exp(&ops::subtract(a, a)?)?;
    ops::divide(&exponential, &exponential)
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_reductions(module)?;
    functions!(module: argmax argmin softmax);
    Ok(())
}
