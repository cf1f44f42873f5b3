//! `mlx.core.fft`.

// Functions below have the name of core's module.
use mlx::fft::{self as transforms, Frames, Norm, PadMode};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyModule};

use crate::{
    arguments::{ArrayArg, Axes, Integers, Size, dimension},
    array::{PyArray, apply},
    error::OrRaise,
    functions,
    stream::Target,
};

pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = &PyModule::new(parent.py(), "mlx.core.fft")?;
    register_transforms(module)?;
    functions!(module: fftshift ifftshift fftfreq rfftfreq stft istft);
    parent.add("fft", module)
}

/// How a transform is scaled.
struct PyNorm(Norm);

impl<'a, 'py> FromPyObject<'a, 'py> for PyNorm {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        object.extract::<String>()?.parse::<Norm>().map(PyNorm).or_raise()
    }
}

/// A size that core refuses if it is not positive.
fn size(n: isize) -> usize {
    usize::try_from(n).unwrap_or(0)
}

/// Sizes of several axes.
fn sizes(s: &Option<Integers>) -> Option<Vec<usize>> {
    s.as_ref().map(|sizes| sizes.0.iter().map(|&n| size(n)).collect())
}

/// The last two axes.
fn last_two() -> Option<Axes> {
    Some(Axes::Several([-2, -1].into_iter().collect()))
}

macro_rules! transforms {
    ($($(#[$doc:meta])* $one:ident $two:ident $several:ident;)*) => {
        $(
            $(#[$doc])*
            ///
            /// Args:
            ///     a (array): Input array.
            ///     n (int, optional): Size of the axis: the input is cut off or continued with zeros.
            ///       Default: the size that it has.
            ///     axis (int, optional): The axis to transform. Default: the last one.
            ///     norm (str, optional): Which direction is scaled: ``"backward"`` (the inverse),
            ///       ``"forward"``, or ``"ortho"`` (both). Default: ``"backward"``.
            ///
            /// Returns:
            ///     array: The transform.
            #[pyfunction]
            #[pyo3(
                signature = (a, n=None, axis=-1, norm=PyNorm(Norm::Backward), stream=None),
                text_signature = "(a, n=None, axis=-1, norm='backward', stream=None)"
            )]
            fn $one(
                a: ArrayArg,
                n: Option<isize>,
                axis: isize,
                norm: PyNorm,
                stream: Option<Target>,
            ) -> PyResult<PyArray> {
                apply(stream, || transforms::$one(&a, n.map(size), axis, norm.0))
            }

            $(#[$doc])*
            ///
            /// Args:
            ///     a (array): Input array.
            ///     s (list(int), optional): Sizes of the axes: the input is cut off or continued with zeros.
            ///       Default: the sizes that it has.
            ///     axes (list(int), optional): The axes to transform. Default: the last two.
            ///     norm (str, optional): Which direction is scaled: ``"backward"`` (the inverse),
            ///       ``"forward"``, or ``"ortho"`` (both). Default: ``"backward"``.
            ///
            /// Returns:
            ///     array: The transform.
            #[pyfunction]
            #[pyo3(
                signature = (a, s=None, axes=last_two(), norm=PyNorm(Norm::Backward), stream=None),
                text_signature = "(a, s=None, axes=[-2, -1], norm='backward', stream=None)"
            )]
            fn $two(
                a: ArrayArg,
                s: Option<Integers>,
                axes: Option<Axes>,
                norm: PyNorm,
                stream: Option<Target>,
            ) -> PyResult<PyArray> {
                $several(a, s, axes, norm, stream)
            }

            $(#[$doc])*
            ///
            /// Args:
            ///     a (array): Input array.
            ///     s (list(int), optional): Sizes of the axes: the input is cut off or continued with zeros.
            ///       Default: the sizes that it has.
            ///     axes (list(int), optional): The axes to transform. Default: all, or the last ones if there
            ///       are sizes.
            ///     norm (str, optional): Which direction is scaled: ``"backward"`` (the inverse),
            ///       ``"forward"``, or ``"ortho"`` (both). Default: ``"backward"``.
            ///
            /// Returns:
            ///     array: The transform.
            #[pyfunction]
            #[pyo3(
                signature = (a, s=None, axes=None, norm=PyNorm(Norm::Backward), stream=None),
                text_signature = "(a, s=None, axes=None, norm='backward', stream=None)"
            )]
            fn $several(
                a: ArrayArg,
                s: Option<Integers>,
                axes: Option<Axes>,
                norm: PyNorm,
                stream: Option<Target>,
            ) -> PyResult<PyArray> {
                let (s, axes) = (sizes(&s), axes.as_ref().map(Axes::as_slice));
                apply(stream, || transforms::$several(&a, s.as_deref(), axes, norm.0))
            }
        )*

        fn register_transforms(module: &Bound<'_, PyModule>) -> PyResult<()> {
            functions!(module: $($one $two $several)*);
            Ok(())
        }
    };
}

transforms! {
    /// Discrete Fourier transform.
    fft fft2 fftn;
    /// Inverse of the discrete Fourier transform.
    ifft ifft2 ifftn;
    /// Discrete Fourier transform of real numbers: the half of it that the other half follows from.
    rfft rfft2 rfftn;
    /// Inverse of the discrete Fourier transform of real numbers.
    irfft irfft2 irfftn;
}

/// Puts frequency zero into the middle of axes.
///
/// Args:
///     a (array): A transform.
///     axes (int or list(int), optional): The axes. Default: all.
///
/// Returns:
///     array: An array of the same shape.
#[pyfunction]
#[pyo3(signature = (a, axes=None, stream=None))]
fn fftshift(a: ArrayArg, axes: Option<Axes>, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || transforms::fftshift(&a, axes.as_ref().map(Axes::as_slice)))
}

/// Undoes :func:`fftshift`.
///
/// Args:
///     a (array): A shifted transform.
///     axes (int or list(int), optional): The axes. Default: all.
///
/// Returns:
///     array: An array of the same shape.
#[pyfunction]
#[pyo3(signature = (a, axes=None, stream=None))]
fn ifftshift(a: ArrayArg, axes: Option<Axes>, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || transforms::ifftshift(&a, axes.as_ref().map(Axes::as_slice)))
}

/// Frequencies of the coefficients of :func:`fft`.
///
/// Args:
///     n (int): Number of samples.
///     d (float, optional): Their distance. Default: 1.
///
/// Returns:
///     array: ``n`` frequencies.
#[pyfunction]
#[pyo3(signature = (n, d=1.0, stream=None))]
fn fftfreq(n: isize, d: f64, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || transforms::fftfreq(size(n), d))
}

/// Frequencies of the coefficients of :func:`rfft`.
///
/// Args:
///     n (int): Number of samples.
///     d (float, optional): Their distance. Default: 1.
///
/// Returns:
///     array: ``n // 2 + 1`` frequencies.
#[pyfunction]
#[pyo3(signature = (n, d=1.0, stream=None))]
fn rfftfreq(n: isize, d: f64, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || transforms::rfftfreq(size(n), d))
}

/// A number of elements that fits 32 bits; one that is negative is none.
struct Elements(usize);

impl<'a, 'py> FromPyObject<'a, 'py> for Elements {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        dimension(&object).map(|n| Elements(size(n)))
    }
}

/// How a signal continues at its ends.
struct PyPadMode(PadMode);

impl<'a, 'py> FromPyObject<'a, 'py> for PyPadMode {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<String>()?.as_str() {
            "reflect" => Ok(PyPadMode(PadMode::Reflect)),
            "constant" => Ok(PyPadMode(PadMode::Constant)),
            "edge" => Ok(PyPadMode(PadMode::Edge)),
            other => {
                let message = format!("[stft] Invalid pad_mode '{other}'.");
                Err(PyValueError::new_err(message))
            }
        }
    }
}

/// Short-time Fourier transform: of overlapping, windowed frames of a signal.
///
/// Args:
///     x (array): Signals along the last axis.
///     n_fft (int, optional): Elements of a frame. Default: 2048.
///     hop_length (int, optional): Distance of neighbouring frames. Default: ``n_fft // 4``.
///     win_length (int, optional): Length of the window. Default: ``n_fft``.
///     window (array, optional): Factors of a frame's elements. Default: ones.
///     center (bool, optional): Pad the signal so that frame ``i`` is centred at element ``i * hop_length``.
///       Default: ``True``.
///     pad_mode (str, optional): How it is padded: ``"reflect"``, ``"constant"`` or ``"edge"``. Default:
///       ``"reflect"``.
///     norm (str, optional): As for :func:`fft`. Default: ``"backward"``.
///     onesided (bool, optional): Only frequencies that are not negative. Default: whether ``x`` is real.
///
/// Returns:
///     array: Coefficients, of shape (..., frequencies, frames).
#[pyfunction]
#[pyo3(
    signature = (x, n_fft=Elements(2048), hop_length=None, win_length=None, window=None, center=true,
        pad_mode=PyPadMode(PadMode::Reflect), norm=PyNorm(Norm::Backward), onesided=None, stream=None),
    text_signature = "(x, n_fft=2048, hop_length=None, win_length=None, window=None, center=True, \
                      pad_mode='reflect', norm='backward', onesided=None, stream=None)"
)]
#[expect(clippy::too_many_arguments, reason = "upstream's signature")]
fn stft(
    x: ArrayArg,
    n_fft: Elements,
    hop_length: Option<Elements>,
    win_length: Option<Elements>,
    window: Option<ArrayArg>,
    center: bool,
    pad_mode: PyPadMode,
    norm: PyNorm,
    onesided: Option<bool>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let frames = Frames {
        n_fft: n_fft.0,
        hop_length: hop_length.map(|n| n.0),
        win_length: win_length.map(|n| n.0),
        window: window.as_deref(),
        center,
        norm: norm.0,
        onesided,
    };
    apply(stream, || transforms::stft(&x, frames, pad_mode.0))
}

/// Inverse of :func:`stft`, by adding up overlapping frames.
///
/// Args:
///     stft_matrix (array): Coefficients, of shape (..., frequencies, frames).
///     n_fft (int, optional): Elements of a frame. Default: what the number of frequencies says.
///     hop_length (int, optional): Distance of neighbouring frames. Default: ``n_fft // 4``.
///     win_length (int, optional): Length of the window. Default: ``n_fft``.
///     window (array, optional): Factors of a frame's elements. Default: ones.
///     center (bool, optional): Whether the signal was padded. Default: ``True``.
///     norm (str, optional): As for :func:`fft`. Default: ``"backward"``.
///     onesided (bool, optional): Whether there are only frequencies that are not negative. Default:
///       ``True``.
///     length (int, optional): Length of the signal. Default: what the frames give.
///
/// Returns:
///     array: Signals along the last axis.
#[pyfunction]
#[pyo3(
    signature = (stft_matrix, n_fft=None, hop_length=None, win_length=None, window=None, center=true,
        norm=PyNorm(Norm::Backward), onesided=None, length=None, stream=None),
    text_signature = "(stft_matrix, n_fft=None, hop_length=None, win_length=None, window=None, center=True, \
                      norm='backward', onesided=None, length=None, stream=None)"
)]
#[expect(clippy::too_many_arguments, reason = "upstream's signature")]
fn istft(
    stft_matrix: ArrayArg,
    n_fft: Option<Elements>,
    hop_length: Option<Elements>,
    win_length: Option<Elements>,
    window: Option<ArrayArg>,
    center: bool,
    norm: PyNorm,
    onesided: Option<bool>,
    length: Option<Size>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let frequencies = stft_matrix.shape().iter().rev().nth(1).copied().unwrap_or_default();
    let whole = match onesided {
        Some(false) => frequencies,
        _ => 2 * frequencies.saturating_sub(1),
    };
    let frames = Frames {
        n_fft: n_fft.map_or(whole, |n| n.0),
        hop_length: hop_length.map(|n| n.0),
        win_length: win_length.map(|n| n.0),
        window: window.as_deref(),
        center,
        norm: norm.0,
        onesided,
    };
    apply(stream, || transforms::istft(&stft_matrix, frames, length.map(|n| n.0)))
}
