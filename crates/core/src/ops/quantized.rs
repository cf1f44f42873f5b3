//! Affine quantization: groups of a row share a scale and a bias, `w = scale * q + bias`.

use crate::{
    Array, Error, Result, Shape,
    graph::{self, Inputs},
    ops::{self, astype, broadcast_shape, broadcast_to},
    primitives::{Affine, Packing, QuantizedOp, Spec},
};

pub(super) fn affine(op: &'static str, group_size: usize, bits: usize) -> Result<Affine> {
    if !Affine::GROUP_SIZES.contains(&group_size) {
        let message = format!(
            "The requested group size {group_size} is not supported. The supported group sizes are 32, \
             64, and 128."
        );
        return Err(Error::invalid(op, message));
    }
    if !Affine::BITS.contains(&bits) {
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
    let [words, scales, biases] = ops::nodes(QuantizedOp::Quantize(affine), [w.clone()])?;
    Ok((words, scales, biases))
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
    affine.columns(w.spec(), scales.spec(), biases.spec()).ok_or_else(mismatch)
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
    unpacked_columns("dequantize", w, scales, biases, affine)?;
    let biases = astype(biases, scales.dtype())?;
    let inputs = [w.clone(), scales.clone(), biases];
    ops::node(QuantizedOp::Dequantize(affine), inputs)
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
    check_inner(op, x, w, affine.into(), transpose, columns)?;
    let dtype = x.dtype().promote(scales.dtype());
    if !dtype.is_floating() {
        return Err(Error::invalid(
            op,
            format!("Only real floating types are supported but the result would be {dtype}."),
        ));
    }
    let of = |a| astype(a, dtype);
    product(op, &of(x)?, &[w, &of(scales)?, &of(biases)?], affine.into(), transpose, columns)
}

/// Rows and columns of a packed matrix with `columns` elements a row as a product uses it, whose rows are as
/// long as those of `x`.
pub(super) fn check_inner(
    op: &'static str,
    x: &Array,
    w: &Array,
    packing: Packing,
    transpose: bool,
    columns: usize,
) -> Result<(usize, usize)> {
    let (inner, outer) = if transpose { (columns, w.dim(-2)) } else { (w.dim(-2), columns) };
    if x.ndim() > 0 && x.dim(-1) == inner {
        return Ok((inner, outer));
    }
    let message = format!(
        "Last dimension of first input with shape {:?} does not match the expanded quantized matrix \
         ({inner}, {outer}) computed from shape {:?} with group_size={}, bits={} and \
         transpose={transpose}",
        x.shape(),
        w.shape(),
        packing.group_size(),
        packing.bits()
    );
    Err(Error::invalid(op, message))
}

/// The product of `x` with the matrix that `parts`, whose shapes and dtypes were checked, are: they have
/// `columns` elements a row. The result has the dtype of `x`.
pub(super) fn product(
    op: &'static str,
    x: &Array,
    parts: &[&Array],
    packing: Packing,
    transpose: bool,
    columns: usize,
) -> Result<Array> {
    let (_, outer) = check_inner(op, x, parts[0], packing, transpose, columns)?;
    let x2 = if x.ndim() == 1 { ops::expand_dims(x, &[0])? } else { x.clone() };
    let inputs = with_batches(op, x2, parts)?;
    let mut shape = Shape::from_slice(inputs[0].shape());
    *shape.last_mut().expect("two axes") = outer;
    let primitive = QuantizedOp::QuantizedMatmul { packing, transpose };
    let spec = Spec { shape, dtype: x.dtype() };
    let out = graph::apply_checked(primitive.into(), inputs, spec)?;
    if x.ndim() == 1 { ops::squeeze(&out, &[-2]) } else { Ok(out) }
}

/// Joint batch axes, only where the weights have any: a plain matrix serves all batches.
fn with_batches(op: &'static str, x: Array, parts: &[&Array]) -> Result<Inputs> {
    let w = parts[0];
    if w.ndim() == 2 {
        return Ok(std::iter::once(&x).chain(parts.iter().copied()).cloned().collect());
    }
    let batch = broadcast_shape(op, &x.shape()[..x.ndim() - 2], &w.shape()[..w.ndim() - 2])?;
    let with_batch = |a: &Array| {
        let mut shape = batch.clone();
        shape.extend_from_slice(&a.shape()[a.ndim() - 2..]);
        broadcast_to(a, &shape)
    };
    std::iter::once(&x).chain(parts.iter().copied()).map(with_batch).collect()
}
