//! Quantization: affine, and in formats of small floats.

use mlx::{
    Array, Dtype, Result,
    ops::{self, FpMode, Packed, Picks},
};

use super::{Table, one};
use crate::argument::{Args, Argument};

/// The format of small floats, unless it is affine.
fn mode(x: &Args<'_>) -> Result<Option<FpMode>> {
    let mode = x.at("mode").given().map(Argument::text).filter(|&name| name != "affine");
    mode.map(str::parse).transpose()
}

/// Group size and bits of the affine format.
fn affine(x: &Args<'_>) -> Result<(usize, usize)> {
    Ok((x.at("group_size").count()?, x.at("bits").count()?))
}

fn quantize(x: &Args<'_>) -> Result<Vec<Array>> {
    let w = x.array(0)?;
    if let Some(mode) = mode(x)? {
        let scale = x.at("global_scale").maybe_array()?;
        let (w, scales) = ops::fp_quantize(&w, mode, scale.as_ref())?;
        return Ok(vec![w, scales]);
    }
    let (group_size, bits) = affine(x)?;
    let (w, scales, biases) = ops::quantize(&w, group_size, bits)?;
    Ok(vec![w, scales, biases])
}

fn dequantize(x: &Args<'_>) -> Result<Array> {
    let (w, scales) = (x.array(0)?, x.array(1)?);
    if let Some(mode) = mode(x)? {
        let scale = x.at("global_scale").maybe_array()?;
        let dtype = x.at("dtype").maybe_dtype().unwrap_or(Dtype::Bfloat16);
        return ops::fp_dequantize(&w, &scales, mode, scale.as_ref(), dtype);
    }
    let (group_size, bits) = affine(x)?;
    ops::dequantize(&w, &scales, &x.array(2)?, group_size, bits)
}

fn product(x: &Args<'_>) -> Result<Array> {
    let (a, w, scales) = (x.array(0)?, x.array(1)?, x.array(2)?);
    let transpose = x.at("transpose").flag();
    if let Some(mode) = mode(x)? {
        return ops::fp_quantized_matmul(&a, &w, &scales, transpose, mode);
    }
    let (group_size, bits) = affine(x)?;
    ops::quantized_matmul(&a, &w, &scales, &x.array(3)?, transpose, group_size, bits)
}

/// Indices of the matrices on both sides.
struct Indices {
    lhs: Option<Array>,
    rhs: Option<Array>,
    sorted: bool,
}

impl Indices {
    fn of(x: &Args<'_>) -> Result<Self> {
        let index = |name: &'static str| x.at(name).maybe_array();
        let (lhs, rhs) = (index("lhs_indices")?, index("rhs_indices")?);
        Ok(Indices { lhs, rhs, sorted: x.at("sorted_indices").flag() })
    }

    fn picks(&self) -> Picks<'_> {
        Picks { lhs: self.lhs.as_ref(), rhs: self.rhs.as_ref(), sorted: self.sorted }
    }
}

fn gathered(x: &Args<'_>) -> Result<Array> {
    let (a, w, scales) = (x.array(0)?, x.array(1)?, x.array(2)?);
    let (indices, transpose) = (Indices::of(x)?, x.at("transpose").flag());
    let picks = indices.picks();
    if let Some(mode) = mode(x)? {
        return ops::fp_gather_qmm(&a, &w, &scales, picks, transpose, mode, None);
    }
    let (group_size, bits) = affine(x)?;
    ops::gather_qmm(&a, &w, &scales, &x.array(3)?, picks, transpose, group_size, bits)
}

/// Products of two quantized operands: mode, words or numbers, and scales of words.
fn both(x: &Args<'_>) -> Result<(FpMode, Array, Option<Array>)> {
    Ok((x.at("mode").text().parse()?, x.array(1)?, x.at(2).maybe_array()?))
}

pub(super) const TABLE: Table = &[
    ("quantize", quantize),
    ("dequantize", |x| one(dequantize(x))),
    ("quantized_matmul", |x| one(product(x))),
    ("gather_qmm", |x| one(gathered(x))),
    ("qqmm", |x| {
        let (mode, w, scales) = both(x)?;
        one(ops::qqmm(&x.array(0)?, Packed { w: &w, scales: scales.as_ref() }, mode, None))
    }),
    ("gather_qqmm", |x| {
        let ((mode, w, scales), indices) = (both(x)?, Indices::of(x)?);
        let w = Packed { w: &w, scales: scales.as_ref() };
        one(ops::gather_qqmm(&x.array(0)?, w, indices.picks(), mode, None))
    }),
    ("to_fp8", |x| one(ops::to_fp8(&x.array(0)?))),
    ("from_fp8", |x| one(ops::from_fp8(&x.array(0)?, x.at("dtype").dtype()))),
];
