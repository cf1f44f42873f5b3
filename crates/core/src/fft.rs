//! Fourier transforms: MLX's `mx.fft`.

mod stft;

pub use stft::{Frames, PadMode, istft, stft};

use crate::{
    Array, Dtype, Error, Result, Shape,
    ops::{self, astype},
    primitives::{Axes, Fft},
};

/// Which direction of a transform is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Norm {
    /// The inverse, by `1/n`.
    #[default]
    Backward,
    /// Both, by `1/√n`.
    Ortho,
    /// The forward transform, by `1/n`.
    Forward,
}

impl std::str::FromStr for Norm {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "backward" => Ok(Norm::Backward),
            "ortho" => Ok(Norm::Ortho),
            "forward" => Ok(Norm::Forward),
            _ => Err(Error::invalid(
                "fft",
                "Invalid norm. Expected one of {'backward', 'ortho', 'forward'}.",
            )),
        }
    }
}

impl Norm {
    /// What is left to multiply with after a transform whose inverse has the factor `1/n`.
    fn factor(self, n: f64, inverse: bool) -> f64 {
        match (self, inverse) {
            (Norm::Backward, _) => 1.0,
            (Norm::Ortho, true) => n.sqrt(),
            (Norm::Ortho, false) => 1.0 / n.sqrt(),
            (Norm::Forward, true) => n,
            (Norm::Forward, false) => 1.0 / n,
        }
    }
}

/// Kind of a transform.
#[derive(Clone, Copy)]
struct Kind {
    real: bool,
    inverse: bool,
}

const FORWARD: Kind = Kind { real: false, inverse: false };
const INVERSE: Kind = Kind { real: false, inverse: true };
const FROM_REAL: Kind = Kind { real: true, inverse: false };
const TO_REAL: Kind = Kind { real: true, inverse: true };

/// Sizes of the transformed axes, and the axes; MLX's defaults where one is missing.
fn sizes_and_axes(
    a: &Array,
    s: Option<&[usize]>,
    axes: Option<&[isize]>,
    kind: Kind,
) -> Result<(Vec<usize>, Axes)> {
    let invalid = |message: String| Error::invalid("fftn", message);
    if a.ndim() == 0 {
        return Err(invalid("Requires array with at least one dimension.".into()));
    }
    let ndim = a.ndim() as isize;
    let axes: Vec<isize> = match (axes, s) {
        (Some(axes), _) => axes.to_vec(),
        (None, Some(_)) => {
            return Err(invalid("`axes` should not be `None` if `s` is not `None`.".into()));
        }
        (None, None) => (0..ndim).collect(),
    };
    if s.is_some_and(|s| s.len() != axes.len()) {
        return Err(invalid("Shape and axes have different sizes.".into()));
    }
    let mut normalized = Axes::new();
    for &axis in &axes {
        let axis = if axis < 0 { axis + ndim } else { axis };
        if !(0..ndim).contains(&axis) {
            let message = format!("Invalid axis received for array with {ndim} dimensions.");
            return Err(invalid(message));
        }
        if normalized.contains(&(axis as usize)) {
            return Err(invalid(format!("Duplicated axis received {axes:?}")));
        }
        normalized.push(axis as usize);
    }
    let mut sizes: Vec<usize> =
        s.map_or_else(|| normalized.iter().map(|&x| a.shape()[x]).collect(), <[usize]>::to_vec);
    if let (None, true, true, Some(last)) = (s, kind.real, kind.inverse, sizes.last_mut()) {
        *last = 2 * last.saturating_sub(1);
    }
    if sizes.contains(&0) {
        return Err(invalid(format!("Invalid FFT output size requested {sizes:?}")));
    }
    Ok((sizes, normalized))
}

fn transform(
    a: &Array,
    s: Option<&[usize]>,
    axes: Option<&[isize]>,
    norm: Norm,
    kind: Kind,
) -> Result<Array> {
    let (sizes, axes) = sizes_and_axes(a, s, axes, kind)?;
    let (Some(&last), Some(&size)) = (axes.last(), sizes.last()) else { return Ok(a.clone()) };
    let mut shape = Shape::from(a.shape());
    axes.iter().zip(&sizes).for_each(|(&axis, &n)| shape[axis] = n);
    if kind.real && kind.inverse {
        shape[last] = size / 2 + 1;
    }
    let input = resized(a, &shape)?;
    let (input_dtype, dtype) = match (kind.real, kind.inverse) {
        (true, false) => (Dtype::Float32, Dtype::Complex64),
        (true, true) => (Dtype::Complex64, Dtype::Float32),
        (false, _) => (Dtype::Complex64, Dtype::Complex64),
    };
    let fft = Fft { axes, inverse: kind.inverse, real: kind.real.then_some(size) };
    let out = ops::node(fft, [astype(&input, input_dtype)?])?;
    let n: f64 = sizes.iter().map(|&n| n as f64).product();
    match norm.factor(n, kind.inverse) {
        1.0 => Ok(out),
        factor => ops::multiply(&out, &Array::scalar_of(factor, dtype)?),
    }
}

/// Cut off or filled up with zeros at the end of each axis.
fn resized(a: &Array, shape: &[usize]) -> Result<Array> {
    let ones = vec![1; a.ndim()];
    let zeros = vec![0; a.ndim()];
    let stop: Vec<isize> =
        a.shape().iter().zip(shape).map(|(&old, &new)| old.min(new) as isize).collect();
    let cut = ops::slice(a, &zeros, &stop, &ones)?;
    if cut.shape() == shape {
        return Ok(cut);
    }
    ops::slice_update(&ops::zeros(shape, a.dtype())?, &cut, &zeros, &stop, &ones)
}

/// Declares the functions of one axis, of two and of any.
macro_rules! transforms {
    ($($(#[$doc:meta])* $kind:ident: $one:ident, $two:ident, $any:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// `n` is the size that the transformed side has before a forward and after an inverse
        /// transform: elements are cut off or zeros added.
        ///
        /// # Errors
        /// When the array is a scalar, the axis is out of bounds, or a size is zero.
        pub fn $one(a: &Array, n: Option<usize>, axis: isize, norm: Norm) -> Result<Array> {
            let size = n.map(|n| [n]);
            transform(a, size.as_ref().map(|s| &s[..]), Some(&[axis]), norm, $kind)
        }

        #[doc = concat!("[`", stringify!($any), "`] of the last two axes, if none are given.")]
        ///
        /// # Errors
        #[doc = concat!("As [`", stringify!($any), "`].")]
        pub fn $two(
            a: &Array,
            s: Option<&[usize]>,
            axes: Option<&[isize]>,
            norm: Norm,
        ) -> Result<Array> {
            transform(a, s, Some(axes.unwrap_or(&[-2, -1])), norm, $kind)
        }

        #[doc = concat!("[`", stringify!($one), "`] of several axes; of all if none are given.")]
        ///
        /// # Errors
        /// When the array is a scalar, an axis is out of bounds or given twice, a size is zero, or
        /// sizes are given without axes.
        pub fn $any(
            a: &Array,
            s: Option<&[usize]>,
            axes: Option<&[isize]>,
            norm: Norm,
        ) -> Result<Array> {
            transform(a, s, axes, norm, $kind)
        }
    )*};
}

transforms! {
    /// Discrete Fourier transform `Σ x[j] exp(-2πi jk/n)` as complex64.
    FORWARD: fft, fft2, fftn;
    /// Inverse transform `1/n Σ x[k] exp(2πi jk/n)` as complex64.
    INVERSE: ifft, ifft2, ifftn;
    /// Transform of real numbers: the first `n/2 + 1` coefficients, complex64; the others are their
    /// conjugates. Of several axes the last one is halved.
    FROM_REAL: rfft, rfft2, rfftn;
    /// Inverse transform to `n` real numbers, float32, from their first `n/2 + 1` coefficients.
    TO_REAL: irfft, irfft2, irfftn;
}

/// Moves the zero frequency to the middle of each axis (of all, if none are given).
///
/// # Errors
/// When an axis is out of bounds.
pub fn fftshift(a: &Array, axes: Option<&[isize]>) -> Result<Array> {
    shift("fftshift", a, axes, |n| n - n / 2)
}

/// Undoes [`fftshift`].
///
/// # Errors
/// When an axis is out of bounds.
pub fn ifftshift(a: &Array, axes: Option<&[isize]>) -> Result<Array> {
    shift("ifftshift", a, axes, |n| n / 2)
}

/// Rotates axes of size `n` so that element `first(n)` comes first.
fn shift(
    op: &'static str,
    a: &Array,
    axes: Option<&[isize]>,
    first: impl Fn(isize) -> isize,
) -> Result<Array> {
    let all: Vec<isize> = (0..a.ndim() as isize).collect();
    let mut out = a.clone();
    for &axis in axes.unwrap_or(&all) {
        let ndim = a.ndim() as isize;
        if !(-ndim..ndim).contains(&axis) {
            let message = format!("Invalid axis {axis} for array with {ndim} dimensions.");
            return Err(Error::invalid(op, message));
        }
        let n = a.dim(axis) as isize;
        let from = first(n);
        let behind = ops::slice_axis(&out, axis, from, n)?;
        out = ops::concatenate(&[&behind, &ops::slice_axis(&out, axis, 0, from)?], axis)?;
    }
    Ok(out)
}

fn check_frequencies(op: &'static str, n: usize, d: f64) -> Result<f64> {
    if n == 0 {
        return Err(Error::invalid(op, "`n` must be greater than 0."));
    }
    if d == 0.0 {
        return Err(Error::invalid(op, "`d` must be non-zero."));
    }
    Ok(f64::from((1.0 / (n as f64 * d)) as f32))
}

/// Frequencies of the coefficients of [`fft()`] of `n` samples `d` apart: `k / (n d)`, the negative
/// ones in the second half.
///
/// # Errors
/// When `n` or `d` is zero.
pub fn fftfreq(n: usize, d: f64) -> Result<Array> {
    let scale = check_frequencies("fftfreq", n, d)?;
    let positive = ops::arange(0.0, n.div_ceil(2) as f64, 1.0, Dtype::Float32)?;
    let negative = ops::arange(-((n / 2) as f64), 0.0, 1.0, Dtype::Float32)?;
    ops::multiply(&ops::concatenate(&[&positive, &negative], 0)?, scale)
}

/// Frequencies of the coefficients of [`rfft`] of `n` samples `d` apart.
///
/// # Errors
/// When `n` or `d` is zero.
pub fn rfftfreq(n: usize, d: f64) -> Result<Array> {
    let scale = check_frequencies("rfftfreq", n, d)?;
    ops::multiply(&ops::arange(0.0, (n / 2 + 1) as f64, 1.0, Dtype::Float32)?, scale)
}
