//! Affine quantization: groups of a row share a scale and a bias, `w = scale * q + bias`.

use crate::{
    Array, Dtype, Error, Result, Shape,
    ops::{self, astype, broadcast_shape, broadcast_to},
    primitives::{Affine, Primitive},
    stream,
};

pub(super) fn affine(op: &'static str, group_size: usize, bits: usize) -> Result<Affine> {
    if !matches!(group_size, 32 | 64 | 128) {
        let message = format!(
            "The requested group size {group_size} is not supported. The supported group sizes are 32, \
             64, and 128."
        );
        return Err(Error::invalid(op, message));
    }
    if !matches!(bits, 2 | 3 | 4 | 5 | 6 | 8) {
        let message = format!(
            "The requested number of bits {bits} is not supported. The supported bits are 2, 3, 4, 5, 6, \
             and 8."
        );
        return Err(Error::invalid(op, message));
    }
    Ok(Affine { group_size, bits })
}

/// Quantizes the last axis: packed uint32 words, scales and biases.
///
/// # Errors
/// When the group size or bits are not supported, the array has fewer than two axes, or its last
/// axis is no multiple of the group size.
pub fn quantize(w: &Array, group_size: usize, bits: usize) -> Result<(Array, Array, Array)> {
    let affine = affine("quantize", group_size, bits)?;
    if w.ndim() < 2 {
        let message = format!(
            "The matrix to be quantized must have at least 2 dimension but it has only {}.",
            w.ndim()
        );
        return Err(Error::invalid("quantize", message));
    }
    if !w.dtype().is_floating() {
        let message =
            format!("Only real floating types can be quantized but w has type {}.", w.dtype());
        return Err(Error::invalid("quantize", message));
    }
    let columns = w.dim(-1);
    if !columns.is_multiple_of(group_size) {
        let message = format!(
            "The last dimension of the matrix needs to be divisible by the quantization group size \
             {group_size}. However the provided matrix has shape {:?}",
            w.shape()
        );
        return Err(Error::invalid("quantize", message));
    }
    let with_last = |n: usize| {
        let mut shape = Shape::from(w.shape());
        *shape.last_mut().expect("two axes") = n;
        shape
    };
    let groups = with_last(columns / group_size);
    let outputs = vec![
        (with_last(affine.packed_words(columns)), Dtype::Uint32),
        (groups.clone(), w.dtype()),
        (groups, w.dtype()),
    ];
    let stream = stream::current_stream()?;
    let mut arrays = Array::lazy_many(
        outputs,
        Primitive::Quantize(affine),
        stream,
        std::iter::once(w.clone()).collect(),
    )
    .into_iter();
    let mut next = || arrays.next().expect("three outputs");
    Ok((next(), next(), next()))
}

/// Checks packed words against scales and biases; returns the number of unpacked columns.
pub(super) fn unpacked_columns(
    op: &'static str,
    w: &Array,
    scales: &Array,
    biases: &Array,
    affine: Affine,
) -> Result<usize> {
    let mismatch = || {
        let message = format!(
            "The shapes of the weight {:?} {}, scales {:?} and biases {:?} are incompatible based on \
             bits and group_size: bits={}, group_size={}.",
            w.shape(),
            w.dtype(),
            scales.shape(),
            biases.shape(),
            affine.bits,
            affine.group_size
        );
        Error::invalid(op, message)
    };
    if w.ndim() < 2 || w.dtype() != Dtype::Uint32 || !scales.dtype().is_floating() {
        return Err(mismatch());
    }
    let same_rows = scales.shape() == biases.shape()
        && scales.ndim() == w.ndim()
        && scales.shape()[..w.ndim() - 1] == w.shape()[..w.ndim() - 1];
    let columns = if scales.ndim() == 0 { 0 } else { scales.dim(-1) * affine.group_size };
    if !same_rows || affine.packed_words(columns) != w.dim(-1) {
        return Err(mismatch());
    }
    Ok(columns)
}

/// Undoes [`quantize`]; the result has the dtype of the scales.
///
/// # Errors
/// When the shapes do not fit together.
pub fn dequantize(
    w: &Array,
    scales: &Array,
    biases: &Array,
    group_size: usize,
    bits: usize,
) -> Result<Array> {
    let affine = affine("dequantize", group_size, bits)?;
    let columns = unpacked_columns("dequantize", w, scales, biases, affine)?;
    let mut shape = Shape::from(w.shape());
    *shape.last_mut().expect("two axes") = columns;
    let biases = astype(biases, scales.dtype())?;
    let inputs = [w.clone(), scales.clone(), biases];
    ops::node(shape, scales.dtype(), Primitive::Dequantize(affine), inputs)
}

/// `x @ w` (or `x @ wᵀ` with `transpose`) where `w` is quantized along its last axis. The result
/// has the promoted dtype of `x` and the scales.
///
/// # Errors
/// When the shapes do not fit together.
pub fn quantized_matmul(
    x: &Array,
    w: &Array,
    scales: &Array,
    biases: &Array,
    transpose: bool,
    group_size: usize,
    bits: usize,
) -> Result<Array> {
    let op = "quantized_matmul";
    let affine = affine(op, group_size, bits)?;
    let columns = unpacked_columns(op, w, scales, biases, affine)?;
    let (inner, outer) = if transpose { (columns, w.dim(-2)) } else { (w.dim(-2), columns) };
    if x.ndim() == 0 || x.dim(-1) != inner {
        let message = format!(
            "Last dimension of first input with shape {:?} does not match the expanded quantized matrix \
             ({inner}, {outer}) computed from shape {:?} with group_size={group_size}, bits={bits} and \
             transpose={transpose}",
            x.shape(),
            w.shape()
        );
        return Err(Error::invalid(op, message));
    }
    let dtype = x.dtype().promote(scales.dtype());
    if !dtype.is_floating() {
        return Err(Error::invalid(
            op,
            format!("Only real floating types are supported but the result would be {dtype}."),
        ));
    }
    let x2 = if x.ndim() == 1 { ops::expand_dims(x, &[0])? } else { x.clone() };
    let (x2, w, scales, biases) = broadcast_batches(&x2, w, scales, biases)?;
    let mut shape = Shape::from(x2.shape());
    *shape.last_mut().expect("two axes") = outer;
    let inputs = [astype(&x2, dtype)?, w, astype(&scales, dtype)?, astype(&biases, dtype)?];
    let out = ops::node(shape, dtype, Primitive::QuantizedMatmul { affine, transpose }, inputs)?;
    if x.ndim() == 1 { ops::squeeze(&out, &[-2]) } else { Ok(out) }
}

/// Joint batch axes, only where the weights have any: a plain matrix serves all batches.
fn broadcast_batches(
    x: &Array,
    w: &Array,
    scales: &Array,
    biases: &Array,
) -> Result<(Array, Array, Array, Array)> {
    if w.ndim() == 2 {
        return Ok((x.clone(), w.clone(), scales.clone(), biases.clone()));
    }
    let batch = broadcast_shape(
        "quantized_matmul",
        &x.shape()[..x.ndim() - 2],
        &w.shape()[..w.ndim() - 2],
    )?;
    let with_batch = |a: &Array| {
        let mut shape = batch.clone();
        shape.extend_from_slice(&a.shape()[a.ndim() - 2..]);
        broadcast_to(a, &shape)
    };
    Ok((with_batch(x)?, with_batch(w)?, with_batch(scales)?, with_batch(biases)?))
}
