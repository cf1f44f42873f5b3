//! Eight-bit floats: e4m3, with a sign, four bits of exponent and three of mantissa, no infinities,
//! and the largest value 448 (Micikevicius and others, FP8 Formats for Deep Learning, 2022).

use crate::{
    Array, Dtype, Error, Result,
    ops::{self, astype, view},
};

fn word(value: u32) -> Result<Array> {
    Array::scalar(value)
}

/// The nearest e4m3 numbers, ties to even, as uint8; what is too large becomes ±448.
///
/// # Errors
/// When the array is not floating.
pub fn to_fp8(x: &Array) -> Result<Array> {
    if !x.dtype().is_floating() {
        let message =
            format!("Only real floating types are supported but x.dtype() == {}.", x.dtype());
        return Err(Error::invalid("to_fp8", message));
    }
    let x = astype(x, Dtype::Float32)?;
    let bits = view(&x, Dtype::Uint32)?;
    let magnitude = ops::bitwise_and(&bits, &word(0x7fff_ffff)?)?;
    let sign = ops::right_shift(&ops::bitwise_and(&bits, &word(0x8000_0000)?)?, &word(24)?)?;
    // Below 2^-6 steps are equal: adding 2^14 leaves the rounded number of steps in the last bits.
    let least = word(141 << 23)?;
    let shifted = ops::add(&ops::abs(&x)?, &view(&least, Dtype::Float32)?)?;
    let small = ops::subtract(&view(&shifted, Dtype::Uint32)?, &least)?;
    // Above, 20 bits of mantissa are rounded off, ties to even, and the exponent's bias is changed.
    let odd = ops::bitwise_and(&ops::right_shift(&magnitude, &word(20)?)?, &word(1)?)?;
    let bias = word((120u32 << 23).wrapping_neg().wrapping_add(0x7_ffff))?;
    let large = ops::right_shift(&ops::add(&ops::add(&magnitude, &bias)?, &odd)?, &word(20)?)?;
    let below = ops::less(&magnitude, &word(121 << 23)?)?;
    let rounded = ops::where_(&below, &small, &large)?;
    let over = ops::greater_equal(&magnitude, &word(543 << 21)?)?;
    let saturated = ops::where_(&over, &word(0x7e)?, &rounded)?;
    astype(&ops::bitwise_or(&saturated, &sign)?, Dtype::Uint8)
}

/// The values of e4m3 numbers in a floating dtype; ±127 is NaN.
///
/// # Errors
/// When the array is not uint8, or the dtype is not floating.
pub fn from_fp8(x: &Array, dtype: Dtype) -> Result<Array> {
    if x.dtype() != Dtype::Uint8 {
        let message = format!("Input must have type uint8 but x.dtype() == {}.", x.dtype());
        return Err(Error::invalid("from_fp8", message));
    }
    if !dtype.is_floating() {
        let message = format!("Only real floating types are supported but dtype == {dtype}.");
        return Err(Error::invalid("from_fp8", message));
    }
    let bits = astype(x, Dtype::Uint32)?;
    // Exponent and mantissa in the fields of a float32, whose bias is larger by 120.
    let magnitude = ops::left_shift(&ops::bitwise_and(&bits, &word(0x7f)?)?, &word(20)?)?;
    let sign = ops::left_shift(&ops::bitwise_and(&bits, &word(0x80)?)?, &word(24)?)?;
    let normal = ops::add(&magnitude, &word(120 << 23)?)?;
    // Without an exponent the mantissa counts steps of 2^-9.
    let steps = ops::multiply(&astype(&magnitude, Dtype::Float32)?, 2f64.powi(-29))?;
    let tiny = ops::less(&magnitude, &word(1 << 23)?)?;
    let bits = ops::where_(&tiny, &view(&steps, Dtype::Uint32)?, &normal)?;
    let nan = ops::equal(&magnitude, &word(0x7f << 20)?)?;
    let bits = ops::where_(&nan, &word(0x7fc0_0000)?, &bits)?;
    astype(&view(&ops::bitwise_or(&bits, &sign)?, Dtype::Float32)?, dtype)
}
