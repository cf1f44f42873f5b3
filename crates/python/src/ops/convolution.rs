//! Convolutions.

// Python's signatures are as they are.
#![allow(clippy::too_many_arguments)]

use mlx::{
    Error,
    ops::{self, ConvOptions},
};
use pyo3::{exceptions::PyTypeError, prelude::*, types::PyModule};
use smallvec::{SmallVec, smallvec};

use crate::{
    arguments::{ArrayArg, Integers, Size, dimension, integers, one},
    array::{PyArray, apply},
    functions,
    stream::Target,
};

/// A number for each of `N` axes, or one for all of them.
#[derive(Clone, Copy)]
struct Spatial<const N: usize>([isize; N]);

type Spatial1 = Spatial<1>;
type Spatial2 = Spatial<2>;
type Spatial3 = Spatial<3>;

impl<const N: usize> Spatial<N> {
    const ZERO: Self = Spatial([0; N]);
    const ONE: Self = Spatial([1; N]);

    /// As numbers that must not be negative.
    fn sizes(self, what: &str) -> mlx::Result<[usize; N]> {
        match self.0.iter().any(|&number| number < 0) {
            false => Ok(self.0.map(|number| number as usize)),
            true => {
                let message = format!("{what} must not be negative. Got {:?}.", self.0);
                Err(Error::invalid("conv", message))
            }
        }
    }
}

impl<'a, 'py, const N: usize> FromPyObject<'a, 'py> for Spatial<N> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if one(&object)?.is_some() {
            return Ok(Spatial([dimension(&object)?; N]));
        }
        let numbers = integers::<isize>(&object)?;
        <[isize; N]>::try_from(numbers.as_slice()).map(Spatial).map_err(|_| {
            let message = format!("{N} integers are asked for, not {}", numbers.len());
            PyTypeError::new_err(message)
        })
    }
}

/// Convolutions over a number of axes, and transposed ones.
macro_rules! convolutions {
    ($(
        $numbers:ident:
        $(#[$doc:meta])* $conv:ident,
        $(#[$transpose_doc:meta])* $transpose:ident;
    )*) => {$(
        $(#[$doc])*
        ///
        /// Args:
        ///     input (array): Input of shape ``(N, ..., C_in)``.
        ///     weight (array): Weight of shape ``(C_out, ..., C_in)``.
        ///     stride (int or tuple(int), optional): Distance of neighbouring windows. Default: ``1``.
        ///     padding (int or tuple(int), optional): Zeros before and behind. Default: ``0``.
        ///     dilation (int or tuple(int), optional): Distance of a window's elements. Default: ``1``.
        ///     groups (int, optional): Groups of channels that do not mix. Default: ``1``.
        ///
        /// Returns:
        ///     array: The convolved array.
        #[pyfunction]
        #[pyo3(
            signature = (
                input, weight, /, stride=Spatial::ONE, padding=Spatial::ZERO,
                dilation=Spatial::ONE, groups=Size(1), *, stream=None
            ),
            text_signature = "(input, weight, /, stride=1, padding=0, dilation=1, groups=1, *, \
                              stream=None)"
        )]
        fn $conv(
            input: ArrayArg,
            weight: ArrayArg,
            stride: $numbers,
            padding: $numbers,
            dilation: $numbers,
            groups: Size,
            stream: Option<Target>,
        ) -> PyResult<PyArray> {
            // As upstream, one number serves inputs of more axes, too.
            let options = ConvOptions {
                stride: &stride.0,
                padding: (&padding.0, &padding.0),
                kernel_dilation: &dilation.0,
                groups: groups.0,
                ..ConvOptions::default()
            };
            apply(stream, || ops::conv_general(&input, &weight, options))
        }

        $(#[$transpose_doc])*
        ///
        /// Args:
        ///     input (array): Input of shape ``(N, ..., C_in)``.
        ///     weight (array): Weight of shape ``(C_out, ..., C_in)``.
        ///     stride (int or tuple(int), optional): Distance of neighbouring windows. Default: ``1``.
        ///     padding (int or tuple(int), optional): Elements cut off before and behind. Default: ``0``.
        ///     dilation (int or tuple(int), optional): Distance of a window's elements. Default: ``1``.
        ///     output_padding (int or tuple(int), optional): More elements behind. Default: ``0``.
        ///     groups (int, optional): Groups of channels that do not mix. Default: ``1``.
        ///
        /// Returns:
        ///     array: The convolved array.
        #[pyfunction]
        #[pyo3(
            signature = (
                input, weight, /, stride=Spatial::ONE, padding=Spatial::ZERO,
                dilation=Spatial::ONE, output_padding=Spatial::ZERO, groups=Size(1), *, stream=None
            ),
            text_signature = "(input, weight, /, stride=1, padding=0, dilation=1, output_padding=0, \
                              groups=1, *, stream=None)"
        )]
        fn $transpose(
            input: ArrayArg,
            weight: ArrayArg,
            stride: $numbers,
            padding: $numbers,
            dilation: $numbers,
            output_padding: $numbers,
            groups: Size,
            stream: Option<Target>,
        ) -> PyResult<PyArray> {
            apply(stream, || {
                let (stride, dilation) = (stride.sizes("Strides")?, dilation.sizes("Dilations")?);
                let more = output_padding.sizes("Output paddings")?;
                ops::$transpose(&input, &weight, stride, padding.0, dilation, more, groups.0)
            })
        }
    )*};
}

convolutions! {
    Spatial1:
        /// Convolution over one spatial axis, channels last.
        conv1d,
        /// Transposed convolution over one spatial axis, channels last.
        conv_transpose1d;
    Spatial2:
        /// Convolution over two spatial axes, channels last.
        conv2d,
        /// Transposed convolution over two spatial axes, channels last.
        conv_transpose2d;
    Spatial3:
        /// Convolution over three spatial axes, channels last.
        conv3d,
        /// Transposed convolution over three spatial axes, channels last.
        conv_transpose3d;
}

/// Padding of any convolution: of each axis, the same on both sides or not.
struct Padding {
    low: SmallVec<[isize; 4]>,
    high: SmallVec<[isize; 4]>,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Padding {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if one(&object)?.is_none() && object.len()? == 2 {
            let (low, high) = (object.get_item(0)?, object.get_item(1)?);
            if one(&low)?.is_none() {
                return Ok(Padding { low: integers(&low)?, high: integers(&high)? });
            }
        }
        let both = Integers::extract(object)?.0;
        Ok(Padding { low: both.clone(), high: both })
    }
}

/// Convolution over any spatial axes, channels last.
///
/// Args:
///     input (array): Input of shape ``(N, ..., C_in)``.
///     weight (array): Weight of shape ``(C_out, ..., C_in)``.
///     stride (int or list(int), optional): Distance of neighbouring windows. Default: ``1``.
///     padding (int, list(int) or tuple(list(int), list(int)), optional): Zeros before and behind, or two
///       lists if they differ. Default: ``0``.
///     kernel_dilation (int or list(int), optional): Distance of a window's elements. Default: ``1``.
///     input_dilation (int or list(int), optional): Distance that the input is spread to. Default: ``1``.
///     groups (int, optional): Groups of channels that do not mix. Default: ``1``.
///     flip (bool, optional): Turn the weight round, as convolutions in mathematics do. Default: ``False``.
///
/// Returns:
///     array: The convolved array.
#[pyfunction]
#[pyo3(
    signature = (
        input, weight, /, stride=Integers(smallvec![1]),
        padding=Padding { low: smallvec![0], high: smallvec![0] },
        kernel_dilation=Integers(smallvec![1]), input_dilation=Integers(smallvec![1]),
        groups=Size(1), flip=false, *, stream=None
    ),
    text_signature = "(input, weight, /, stride=1, padding=0, kernel_dilation=1, input_dilation=1, \
                      groups=1, flip=False, *, stream=None)"
)]
fn conv_general(
    input: ArrayArg,
    weight: ArrayArg,
    stride: Integers,
    padding: Padding,
    kernel_dilation: Integers,
    input_dilation: Integers,
    groups: Size,
    flip: bool,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let options = ConvOptions {
        stride: &stride.0,
        padding: (padding.low.as_slice(), padding.high.as_slice()),
        kernel_dilation: &kernel_dilation.0,
        input_dilation: &input_dilation.0,
        groups: groups.0,
        flip,
    };
    apply(stream, || ops::conv_general(&input, &weight, options))
}

/// The discrete convolution of two vectors.
///
/// Args:
///     a (array): A vector.
///     v (array): A vector.
///     mode (str, optional): ``"full"``: wherever they overlap. ``"valid"``: where they overlap wholly.
///       ``"same"``: as many elements as the longer one has. Default: ``"full"``.
///
/// Returns:
///     array: The convolution.
#[pyfunction]
#[pyo3(signature = (a, v, /, mode="full", *, stream=None))]
fn convolve(a: ArrayArg, v: ArrayArg, mode: &str, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::convolve(&a, &v, mode.parse()?))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d);
    functions!(module: conv_general convolve);
    Ok(())
}
