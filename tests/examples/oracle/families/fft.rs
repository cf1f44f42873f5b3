//! Fourier transforms, and the Hadamard transform.

use mlx::{
    Array, Result,
    fft::{self, Frames, Norm, PadMode},
    ops,
};

use super::{Table, one};
use crate::argument::{Args, Argument};

fn norm(x: &Args<'_>) -> Result<Norm> {
    x.at("norm").text().parse()
}

/// Sizes, if there are any.
fn sizes(x: &Args<'_>) -> Result<Option<Vec<usize>>> {
    x.at("s").given().map(Argument::sizes).transpose()
}

fn axes(x: &Args<'_>) -> Option<Vec<isize>> {
    x.at("axes").given().map(Argument::ints)
}

/// Frames of what is transformed piece by piece.
fn frames<'a>(x: &Args<'_>, window: Option<&'a Array>) -> Result<Frames<'a>> {
    let count = |name| x.at(name).given().map(Argument::count).transpose();
    Ok(Frames {
        n_fft: x.at(1).count()?,
        hop_length: count("hop_length")?,
        win_length: count("win_length")?,
        window,
        center: x.at("center").flag(),
        norm: norm(x)?,
        onesided: x.at("onesided").given().map(Argument::flag),
    })
}

fn pad_mode(x: &Args<'_>) -> PadMode {
    match x.at("pad_mode").text() {
        "constant" => PadMode::Constant,
        "edge" => PadMode::Edge,
        _ => PadMode::Reflect,
    }
}

macro_rules! one_axis {
    ($name:ident) => {
        |x| {
            let n = x.at(1).given().map(Argument::count).transpose()?;
            one(fft::$name(&x.array(0)?, n, x.at("axis").int(), norm(x)?))
        }
    };
}

macro_rules! several {
    ($name:ident) => {
        |x| {
            let (sizes, axes) = (sizes(x)?, axes(x));
            one(fft::$name(&x.array(0)?, sizes.as_deref(), axes.as_deref(), norm(x)?))
        }
    };
}

pub(super) const TABLE: Table = &[
    ("fft.fft", one_axis!(fft)),
    ("fft.ifft", one_axis!(ifft)),
    ("fft.rfft", one_axis!(rfft)),
    ("fft.irfft", one_axis!(irfft)),
    ("fft.fft2", several!(fft2)),
    ("fft.ifft2", several!(ifft2)),
    ("fft.rfft2", several!(rfft2)),
    ("fft.irfft2", several!(irfft2)),
    ("fft.fftn", several!(fftn)),
    ("fft.ifftn", several!(ifftn)),
    ("fft.rfftn", several!(rfftn)),
    ("fft.irfftn", several!(irfftn)),
    ("fft.stft", |x| {
        let window = x.at("window").maybe_array()?;
        one(fft::stft(&x.array(0)?, frames(x, window.as_ref())?, pad_mode(x)))
    }),
    ("fft.istft", |x| {
        let window = x.at("window").maybe_array()?;
        let length = x.at("length").given().map(Argument::count).transpose()?;
        one(fft::istft(&x.array(0)?, frames(x, window.as_ref())?, length))
    }),
    ("fft.fftshift", |x| one(fft::fftshift(&x.array(0)?, axes(x).as_deref()))),
    ("fft.ifftshift", |x| one(fft::ifftshift(&x.array(0)?, axes(x).as_deref()))),
    ("fft.fftfreq", |x| one(fft::fftfreq(x.at(0).count()?, x.at("d").real()))),
    ("fft.rfftfreq", |x| one(fft::rfftfreq(x.at(0).count()?, x.at("d").real()))),
    ("hadamard_transform", |x| {
        let scale = x.at("scale").given().map(Argument::single);
        one(ops::hadamard_transform(&x.array(0)?, scale))
    }),
];
