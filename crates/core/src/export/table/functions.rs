//! Primitives of upstream that are several of ours.

use super::{
    meaning::{Function, Specs, signed, sizes},
    numbers,
};
use crate::{
    Array, Dtype, Error, Result, Shape,
    export::Argument::{self, Bool, Float, Int, Ints, Shape as List},
    fast,
    ops::{self, FpMode},
    primitives::{ScatterOp, ShapeOp},
    transforms,
};

/// What such a primitive computes; `None` if its arguments mean nothing.
pub(super) fn function(name: &str, arguments: &[Argument], specs: Specs<'_>) -> Option<Function> {
    let count = specs.inputs.len();
    Some(match (name, arguments) {
        ("Abs", []) if count == 1 => one(|x| ops::astype(&ops::abs(&x[0])?, x[0].dtype())),
        ("DivMod", []) if count == 2 => boxed(|x| {
            let (quotient, remainder) = ops::divmod(&x[0], &x[1])?;
            Ok(vec![quotient, remainder])
        }),
        ("Pad", [Ints(axes), List(low), List(high)]) if count == 2 => {
            let widths = pad_widths(specs, axes, low, high)?;
            one(move |x| ops::pad(&x[0], &widths, "constant", &x[1]))
        }
        ("Split", [List(indices), Int(axis)]) if count == 1 => {
            let (indices, axis) = (signed(indices), *axis as isize);
            boxed(move |x| ops::split_at(&x[0], &indices, axis))
        }
        ("SliceUpdate", [Int(op), List(start), List(_), List(strides)]) if count == 2 => {
            let (op, start, strides) = (numbers::SCATTER.at(*op)?, signed(start), signed(strides));
            one(move |x| {
                let sizes = Shape::from(x[1].shape());
                let slice =
                    ShapeOp::Slice { start: start.clone(), strides: strides.clone(), sizes };
                let old = ops::node(slice, [x[0].clone()])?;
                let update = joined(op, &old, &x[1])?;
                let op = ShapeOp::SliceUpdate { start: start.clone(), strides: strides.clone() };
                ops::node(op, [x[0].clone(), update])
            })
        }
        ("DynamicSlice", [Ints(axes), List(size)]) if count == 2 => {
            let (axes, size) = (signed(axes), sizes(size)?);
            one(move |x| ops::dynamic_slice(&x[0], &x[1], &axes, &size))
        }
        ("DynamicSliceUpdate", [Ints(axes)]) if count == 3 => {
            let axes = signed(axes);
            one(move |x| ops::dynamic_slice_update(&x[0], &x[1], &x[2], &axes))
        }
        ("MaskedScatter", []) if count == 3 => one(masked_scatter),
        ("BlockMaskedMM", [Int(size)]) if (2..=5).contains(&count) => {
            let size = usize::try_from(*size).ok()?;
            one(move |x| {
                // A mask of the result comes before those of both operands.
                let result = if x.len() % 2 == 1 { x.get(2) } else { None };
                let operands = if x.len() > 3 { &x[x.len() - 2..] } else { &[] };
                ops::block_masked_mm(&x[0], &x[1], size, result, operands.first(), operands.get(1))
            })
        }
        ("RMSNormVJP", [Float(eps)]) if count == 3 => {
            let eps = *eps;
            boxed(move |x| derivatives(x, |x| fast::rms_norm(&x[0], weight(&x[1]), eps)))
        }
        ("LayerNormVJP", [Float(eps)]) if count == 4 => {
            let eps = *eps;
            boxed(move |x| {
                derivatives(x, |x| fast::layer_norm(&x[0], weight(&x[1]), weight(&x[2]), eps))
            })
        }
        ("Quantize", [Int(_), Int(_), Int(mode), flags @ ..]) => {
            quantized(numbers::MODE.at(*mode)??, flags, specs)?
        }
        _ => return None,
    })
}

fn boxed(fun: impl Fn(&[Array]) -> Result<Vec<Array>> + Send + Sync + 'static) -> Function {
    Box::new(fun)
}

/// A function with one result.
fn one(fun: impl Fn(&[Array]) -> Result<Array> + Send + Sync + 'static) -> Function {
    Box::new(move |inputs| Ok(vec![fun(inputs)?]))
}

/// What is added before and behind each axis.
fn pad_widths(
    specs: Specs<'_>,
    axes: &[i64],
    low: &[i64],
    high: &[i64],
) -> Option<Vec<(usize, usize)>> {
    let (axes, low, high) = (specs.axes(axes)?, sizes(low)?, sizes(high)?);
    let mut widths = vec![(0, 0); specs.input(0)?.ndim()];
    let fits = low.len() == axes.len() && high.len() == axes.len();
    for (i, &axis) in axes.iter().enumerate().filter(|_| fits) {
        widths[axis] = (low[i], high[i]);
    }
    fits.then_some(widths)
}

/// A slice with an update.
fn joined(op: ScatterOp, old: &Array, update: &Array) -> Result<Array> {
    match op {
        ScatterOp::Assign => Ok(update.clone()),
        ScatterOp::Sum => ops::add(old, update),
        ScatterOp::Prod => ops::multiply(old, update),
        ScatterOp::Max => ops::maximum(old, update),
        ScatterOp::Min => ops::minimum(old, update),
    }
}

/// Upstream's masked scatter has an axis of batches before all others.
fn masked_scatter(inputs: &[Array]) -> Result<Array> {
    if inputs.iter().any(|input| input.ndim() == 0 || input.dim(0) != 1) {
        let message = "MaskedScatter of several batches has no counterpart.";
        return Err(Error::invalid("import_function", message));
    }
    let single = |i: usize| ops::squeeze(&inputs[i], &[0]);
    ops::expand_dims(&ops::masked_scatter(&single(0)?, &single(1)?, &single(2)?)?, &[0])
}

/// A weight or bias, which a scalar stands for where there is none.
fn weight(given: &Array) -> Option<&Array> {
    (given.ndim() > 0).then_some(given)
}

/// Derivatives of a function by all inputs but the last one, along which they are.
fn derivatives(inputs: &[Array], fun: impl Fn(&[Array]) -> Result<Array>) -> Result<Vec<Array>> {
    let (cotangent, primals) = inputs.split_last().expect("there are several");
    let cotangents = std::slice::from_ref(cotangent);
    Ok(transforms::vjp(|x| Ok(vec![fun(x)?]), primals, cotangents)?.1)
}

/// What small floats have to do with global scales, and what makes them.
fn quantized(mode: FpMode, flags: &[Argument], specs: Specs<'_>) -> Option<Function> {
    let dtype: Dtype = specs.outputs.first()?.dtype;
    Some(match (flags, specs.inputs.len()) {
        ([Bool(false)], 1 | 2) => boxed(move |x| {
            let (words, scales) = ops::fp_quantize(&x[0], mode, x.get(1))?;
            Ok(vec![words, scales])
        }),
        ([Bool(true)], 3) => one(move |x| ops::fp_dequantize(&x[0], &x[1], mode, x.get(2), dtype)),
        _ => return None,
    })
}
