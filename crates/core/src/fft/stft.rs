//! Short-time Fourier transforms: transforms of windowed, overlapping frames.

use super::{Norm, fft, ifft, irfft, rfft};
use crate::{
    Array, Dtype, Error, Result,
    ops::{self, astype},
};

/// How a signal continues at its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PadMode {
    /// Mirrored, without repeating the last element.
    #[default]
    Reflect,
    /// With zeros.
    Constant,
    /// With the last element.
    Edge,
}

/// Frames of [`stft`] and [`istft`].
#[derive(Debug, Clone, Copy)]
pub struct Frames<'a> {
    /// Elements of a transform.
    pub n_fft: usize,
    /// Distance of neighbouring frames; a quarter of `n_fft` if not given.
    pub hop_length: Option<usize>,
    /// Length of a window of ones, which stands in the middle of a frame; a given window has its own.
    pub win_length: Option<usize>,
    /// Factors of a frame's elements; ones if not given.
    pub window: Option<&'a Array>,
    /// The signal is padded so that frame `i` is centred at element `i * hop_length`.
    pub center: bool,
    /// How transforms are scaled.
    pub norm: Norm,
    /// Only frequencies that are not negative.
    pub onesided: Option<bool>,
}

impl Frames<'_> {
    /// Frames of `n` elements with MLX's defaults.
    pub fn of(n_fft: usize) -> Self {
        Frames {
            n_fft,
            hop_length: None,
            win_length: None,
            window: None,
            center: true,
            norm: Norm::Backward,
            onesided: None,
        }
    }

    fn hop(&self, op: &'static str) -> Result<usize> {
        if self.n_fft == 0 {
            return Err(Error::invalid(op, "n_fft must be positive."));
        }
        match self.hop_length.unwrap_or(self.n_fft / 4) {
            0 => Err(Error::invalid(op, "hop_length must be positive.")),
            hop => Ok(hop),
        }
    }

    /// The window with zeros on both sides, float32.
    fn whole_window(&self, op: &'static str) -> Result<Array> {
        if let Some(window) = self.window.filter(|w| w.ndim() != 1) {
            let message = format!(
                "window must be a one-dimensional array but has shape {:?}.",
                window.shape()
            );
            return Err(Error::invalid(op, message));
        }
        let window = match self.window {
            Some(window) => astype(window, Dtype::Float32)?,
            None => ops::ones(&[self.win_length.unwrap_or(self.n_fft)], Dtype::Float32)?,
        };
        if window.size() > self.n_fft {
            return Err(Error::invalid(op, "window length must not exceed n_fft."));
        }
        let left = (self.n_fft - window.size()) / 2;
        let right = self.n_fft - window.size() - left;
        let zeros = |n: usize| ops::zeros(&[n], Dtype::Float32);
        ops::concatenate(&[&zeros(left)?, &window, &zeros(right)?], 0)
    }
}

/// Short-time Fourier transform of the last axis, complex64 (…, frequencies, frames). Frequencies are
/// one-sided for real signals, unless asked otherwise.
///
/// # Errors
/// When the input is a scalar or shorter than a frame, or the frames' parameters do not fit together.
pub fn stft(x: &Array, frames: Frames<'_>, pad_mode: PadMode) -> Result<Array> {
    let op = "stft";
    if x.ndim() == 0 {
        return Err(Error::invalid(op, "Input must have at least one dimension."));
    }
    let (n, hop) = (frames.n_fft, frames.hop(op)?);
    let window = frames.whole_window(op)?;
    let x = if frames.center { padded(x, n / 2, pad_mode)? } else { x.clone() };
    let size = x.dim(-1);
    if size < n {
        return Err(Error::invalid(op, "Input is too short for the given n_fft."));
    }
    let mut shape = x.shape().to_vec();
    let mut strides = crate::shape::row_major_strides(&shape);
    shape.pop();
    strides.pop();
    shape.extend([(size - n) / hop + 1, n]);
    strides.extend([hop as isize, 1]);
    let framed = ops::multiply(&ops::as_strided(&x, &shape, &strides, 0)?, &window)?;
    let real = x.dtype() != Dtype::Complex64;
    let spectrum = match (frames.onesided.unwrap_or(real), real) {
        (true, true) => rfft(&framed, None, -1, frames.norm)?,
        (true, false) => {
            let whole = fft(&framed, None, -1, frames.norm)?;
            ops::slice_axis(&whole, -1, 0, (n / 2 + 1) as isize)?
        }
        (false, _) => fft(&framed, None, -1, frames.norm)?,
    };
    ops::swapaxes(&spectrum, -1, -2)
}

/// The last axis with `pad` more elements at both ends.
fn padded(x: &Array, pad: usize, mode: PadMode) -> Result<Array> {
    let n = x.dim(-1);
    if pad == 0 || n == 0 {
        return Ok(x.clone());
    }
    if mode == PadMode::Constant {
        let mut shape = x.shape().to_vec();
        *shape.last_mut().expect("an axis") = pad;
        let zeros = ops::zeros(&shape, x.dtype())?;
        return ops::concatenate(&[&zeros, x, &zeros], -1);
    }
    // Mirrored twice it is the signal again.
    let period = 2 * (n as isize - 1);
    let index = |i: isize| match mode {
        PadMode::Edge => i.clamp(0, n as isize - 1),
        _ if period == 0 => 0,
        _ => {
            let i = i.rem_euclid(period);
            i.min(period - i)
        }
    };
    let part = |first: isize| -> Result<Array> {
        let indices: Vec<i32> = (first..first + pad as isize).map(|i| index(i) as i32).collect();
        ops::take(x, &Array::from_slice(&indices, &[pad])?, -1)
    };
    ops::concatenate(&[&part(-(pad as isize))?, x, &part(n as isize)?], -1)
}

/// Inverse of [`stft`], float32: the frames' inverse transforms are windowed and added where they
/// overlap, and divided by the sum of the squared windows (at least 1e-8). `length` elements, or what
/// the frames cover.
///
/// # Errors
/// When the input has fewer than two axes, or the frames' parameters do not fit together.
pub fn istft(spectrum: &Array, frames: Frames<'_>, length: Option<usize>) -> Result<Array> {
    let op = "istft";
    if spectrum.ndim() < 2 {
        return Err(Error::invalid(op, "Input must have at least two dimensions (freq, frames)."));
    }
    let (n, hop) = (frames.n_fft, frames.hop(op)?);
    let window = frames.whole_window(op)?;
    let turned = ops::swapaxes(spectrum, -1, -2)?;
    let parts = match frames.onesided.unwrap_or(true) {
        true => irfft(&turned, Some(n), -1, frames.norm)?,
        false => ops::real(&ifft(&turned, Some(n), -1, frames.norm)?)?,
    };
    let added = overlap_add(&ops::multiply(&parts, &window)?, hop)?;
    let count = turned.dim(-2);
    let squares = ops::broadcast_to(&ops::square(&window)?, &[count, n])?;
    let envelope = ops::maximum(&overlap_add(&squares, hop)?, 1e-8)?;
    let signal = ops::divide(&added, &envelope)?;
    let start = if frames.center { n / 2 } else { 0 };
    let whole = n + hop * count.saturating_sub(1);
    let stop = length.map_or(whole - start.min(whole), |length| start + length);
    let stop = stop.max(start);
    let signal = match stop.checked_sub(whole) {
        None | Some(0) => signal,
        Some(missing) => {
            let mut shape = signal.shape().to_vec();
            *shape.last_mut().expect("an axis") = missing;
            ops::concatenate(&[&signal, &ops::zeros(&shape, signal.dtype())?], -1)?
        }
    };
    ops::slice_axis(&signal, -1, start as isize, stop as isize)
}

/// The sum of frames (…, count, n) that begin `hop` elements after one another.
fn overlap_add(frames: &Array, hop: usize) -> Result<Array> {
    let (count, n) = (frames.dim(-2), frames.dim(-1));
    let blocks = n.div_ceil(hop);
    let zeros = |like: &Array, axis: usize, size: usize| {
        let mut shape = like.shape().to_vec();
        shape[axis] = size;
        ops::zeros(&shape, like.dtype())
    };
    let last = frames.ndim() - 1;
    let missing = zeros(frames, last, blocks * hop - n)?;
    let frames = ops::concatenate(&[frames, &missing], -1)?;
    // Block `i` of a frame adds to the signal's block `i` after the frame's first one.
    let mut sum: Option<Array> = None;
    for i in 0..blocks {
        let block = ops::slice_axis(&frames, -1, (i * hop) as isize, ((i + 1) * hop) as isize)?;
        let before = zeros(&block, last - 1, i)?;
        let behind = zeros(&block, last - 1, blocks - 1 - i)?;
        let moved = ops::concatenate(&[&before, &block, &behind], -2)?;
        sum = Some(match sum {
            Some(sum) => ops::add(&sum, &moved)?,
            None => moved,
        });
    }
    let flat = ops::flatten(&sum.expect("at least one block"), -2, -1)?;
    ops::slice_axis(&flat, -1, 0, (n + hop * count.saturating_sub(1)) as isize)
}
