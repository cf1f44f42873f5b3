//! Attention with sinks (Xiao and others, Efficient Streaming Language Models with Attention Sinks,
//! 2023): a score per head that takes its share of the softmax and adds no value.

use super::{Mask, scaled_dot_product_attention};
use crate::{
    Array, Dtype, Error, Result,
    ops::{self, astype, broadcast_to},
};

/// [`scaled_dot_product_attention`] with a sink per query head: `sinks` (heads).
///
/// A sink is a key of zeros with a value of zeros, whose score is the mask's element.
///
/// # Errors
/// As [`scaled_dot_product_attention`], or when `sinks` has another shape, or a dtype that does not promote
/// to that of the others.
pub fn scaled_dot_product_attention_with_sinks(
    q: &Array,
    k: &Array,
    v: &Array,
    scale: f32,
    mask: Mask<'_>,
    sinks: &Array,
) -> Result<Array> {
    let op = "scaled_dot_product_attention";
    if [q, k, v].iter().any(|a| a.ndim() != 4) || sinks.shape() != [q.dim(1)] {
        if [q, k, v].iter().any(|a| a.ndim() != 4) {
            return scaled_dot_product_attention(q, k, v, scale, mask);
        }
        let message = format!("Received invalid shape for sinks {:?}.", sinks.shape());
        return Err(Error::invalid(op, message));
    }
    let dtype = q.dtype().promote(k.dtype()).promote(v.dtype());
    if dtype.promote(sinks.dtype()) != dtype {
        let message = format!("Type of sinks must promote to output type {dtype}.");
        return Err(Error::invalid(op, message));
    }
    let (heads, rows, keys) = (q.dim(1), q.dim(2), k.dim(2));
    let kept = visible(mask, [heads, rows, keys], dtype)?;
    let mut shape: Vec<usize> = kept.shape().to_vec();
    (shape[1], shape[3]) = (heads, 1);
    let sink = ops::reshape(&astype(sinks, dtype)?, &[1, -1, 1, 1])?;
    let mut scores = shape.clone();
    scores[3] = keys;
    let kept = broadcast_to(&kept, &scores)?;
    let mask = ops::concatenate(&[&kept, &broadcast_to(&sink, &shape)?], 3)?;
    let with_zero = |a: &Array| {
        let mut shape = a.shape().to_vec();
        shape[2] = 1;
        ops::concatenate(&[a, &ops::zeros(&shape, a.dtype())?], 2)
    };
    let (k, v) = (with_zero(k)?, with_zero(v)?);
    scaled_dot_product_attention(q, &k, &v, scale, Mask::Array(&mask))
}

/// The mask as additive scores with four axes.
fn visible(mask: Mask<'_>, [_, rows, keys]: [usize; 3], dtype: Dtype) -> Result<Array> {
    let lowest = Array::scalar_of(f64::NEG_INFINITY, dtype)?;
    let zero = Array::scalar_of(0.0, dtype)?;
    let mask = match mask {
        Mask::None => return ops::zeros(&[1, 1, rows, keys], dtype),
        Mask::Causal => {
            let offset = keys as f64 - rows as f64;
            let last = ops::arange(offset, offset + rows as f64, 1.0, Dtype::Int32)?;
            let key = ops::arange(0.0, keys as f64, 1.0, Dtype::Int32)?;
            ops::less_equal(&key, &ops::expand_dims(&last, &[-1])?)?
        }
        Mask::Array(mask) => mask.clone(),
    };
    let additive = match mask.dtype() {
        Dtype::Bool => ops::where_(&mask, &zero, &lowest)?,
        other if other.promote(dtype) == dtype => astype(&mask, dtype)?,
        other => {
            let message = format!("Mask type must promote to output type {dtype} but is {other}.");
            return Err(Error::invalid("scaled_dot_product_attention", message));
        }
    };
    if additive.ndim() > 4 {
        let message = format!("Mask with shape {:?} has more than 4 dimensions.", additive.shape());
        return Err(Error::invalid("scaled_dot_product_attention", message));
    }
    let mut shape = vec![1; 4 - additive.ndim()];
    shape.extend(additive.shape().iter().map(|&d| d as isize));
    let additive = ops::reshape(&additive, &shape)?;
    // Rows and keys are whole; batches and heads may still broadcast.
    let whole = [additive.dim(0), additive.dim(1), rows, keys];
    broadcast_to(&additive, &whole)
}
