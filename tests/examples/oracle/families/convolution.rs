//! Convolutions.

use mlx::{
    Result,
    ops::{self, ConvOptions, ConvolveMode},
};

use super::{Table, one};
use crate::argument::Argument;

/// As many numbers as there are axes.
fn counts<const N: usize>(x: Argument<'_>) -> Result<[usize; N]> {
    Ok(x.sizes()?.try_into().expect("one for each axis"))
}

fn integers<const N: usize>(x: Argument<'_>) -> [isize; N] {
    x.ints().try_into().expect("one for each axis")
}

macro_rules! plain {
    ($name:ident) => {
        |x| {
            let (stride, dilation) = (counts(x.at("stride"))?, counts(x.at("dilation"))?);
            let (padding, groups) = (integers(x.at("padding")), x.at("groups").count()?);
            one(ops::$name(&x.array(0)?, &x.array(1)?, stride, padding, dilation, groups))
        }
    };
}

macro_rules! transposed {
    ($name:ident) => {
        |x| {
            let (stride, dilation) = (counts(x.at("stride"))?, counts(x.at("dilation"))?);
            let (padding, groups) = (integers(x.at("padding")), x.at("groups").count()?);
            let extra = counts(x.at("output_padding"))?;
            let (input, weight) = (x.array(0)?, x.array(1)?);
            one(ops::$name(&input, &weight, stride, padding, dilation, extra, groups))
        }
    };
}

pub(super) const TABLE: Table = &[
    ("conv1d", plain!(conv1d)),
    ("conv2d", plain!(conv2d)),
    ("conv3d", plain!(conv3d)),
    ("conv_transpose1d", transposed!(conv_transpose1d)),
    ("conv_transpose2d", transposed!(conv_transpose2d)),
    ("conv_transpose3d", transposed!(conv_transpose3d)),
    ("conv_general", |x| {
        let [low, high] = [0, 1].map(|i| x.at("padding").items()[i].ints());
        let options = ConvOptions {
            stride: &x.at("stride").ints(),
            padding: (&low, &high),
            kernel_dilation: &x.at("kernel_dilation").ints(),
            input_dilation: &x.at("input_dilation").ints(),
            groups: x.at("groups").count()?,
            flip: x.at("flip").flag(),
        };
        one(ops::conv_general(&x.array(0)?, &x.array(1)?, options))
    }),
    ("convolve", |x| {
        let mode: ConvolveMode = x.at("mode").text().parse()?;
        one(ops::convolve(&x.array(0)?, &x.array(1)?, mode))
    }),
];
