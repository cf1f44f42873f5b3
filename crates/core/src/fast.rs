//! Fused operations: MLX's `mx.fast`.

mod delta;
mod loss;
mod metal_kernel;

pub use delta::gated_delta_update;
pub use loss::cross_entropy;
pub use metal_kernel::{Launch, MetalKernel, TemplateArg};

use std::cell::RefCell;

use crate::{
    Array, Dtype, Error, Result, Shape, graph,
    ops::{self, astype, broadcast_shape, broadcast_to, into_dtype},
    primitives::{Attention, AttentionMask, Exact, NormOp, Rope, Spec},
};

fn floating(op: &'static str, arrays: &[&Array]) -> Result<Dtype> {
    let dtype = arrays.iter().map(|a| a.dtype()).reduce(Dtype::promote).expect("not empty");
    match dtype.is_floating() {
        true => Ok(dtype),
        false => Err(Error::invalid(op, format!("Received unsupported type {dtype}."))),
    }
}

/// A weight or bias of the last axis' size; `default` as a scalar where there is none.
fn parameter(
    op: &'static str,
    what: &str,
    x: &Array,
    given: Option<&Array>,
    default: f64,
) -> Result<Array> {
    let Some(array) = given else { return Array::scalar_of(default, x.dtype()) };
    if array.shape() != [x.dim(-1)] {
        let message =
            format!("{what} must have shape ({},) but has shape {:?}.", x.dim(-1), array.shape());
        return Err(Error::invalid(op, message));
    }
    astype(array, x.dtype())
}

fn at_least_one_axis(op: &'static str, x: &Array) -> Result<()> {
    match x.ndim() {
        0 => Err(Error::invalid(
            op,
            "Input must have at least 1 dimension but got input with 0 dimensions.",
        )),
        _ => Ok(()),
    }
}

/// Root-mean-square normalization over the last axis: `x / √(mean(x²) + eps) * weight`,
/// accumulated in float32.
///
/// # Errors
/// When `x` is a scalar or not floating, or the weight's shape does not fit.
pub fn rms_norm(x: &Array, weight: Option<&Array>, eps: f32) -> Result<Array> {
    at_least_one_axis("rms_norm", x)?;
    floating("rms_norm", &[x])?;
    let x = astype(x, floating("rms_norm", &[x, weight.unwrap_or(x)])?)?;
    let weight = parameter("rms_norm", "(*weight)", &x, weight, 1.0)?;
    let (shape, dtype) = (Shape::from_slice(x.shape()), x.dtype());
    ops::checked_node(NormOp::RmsNorm { eps: eps.into() }, [x, weight], shape, dtype)
}

/// Layer normalization over the last axis, accumulated in float32.
///
/// # Errors
/// When `x` is a scalar or not floating, or a parameter's shape does not fit.
pub fn layer_norm(
    x: &Array,
    weight: Option<&Array>,
    bias: Option<&Array>,
    eps: f32,
) -> Result<Array> {
    at_least_one_axis("layer_norm", x)?;
    // A bias alone takes the dtype of `x`.
    let dtype = match (weight, bias) {
        (Some(weight), bias) => floating("layer_norm", &[x, weight, bias.unwrap_or(x)])?,
        (None, _) => floating("layer_norm", &[x])?,
    };
    let x = astype(x, dtype)?;
    let weight = parameter("layer_norm", "weight", &x, weight, 1.0)?;
    let bias = parameter("layer_norm", "bias", &x, bias, 0.0)?;
    ops::node(NormOp::LayerNorm { eps: eps.into() }, [x.clone(), weight, bias])
}

/// A position as an array. All layers of a model rotate by the same one: a number that this thread gave last
/// is the array that it was then, so that whoever groups operations sees one position and not equal ones.
fn position(offset: impl ops::Operand) -> Result<Array> {
    thread_local! {
        static LAST: RefCell<Option<(i32, Array)>> = const { RefCell::new(None) };
    }
    let Some(value) = offset.weak_int().and_then(|value| i32::try_from(value).ok()) else {
        return offset.to_array(Some(Dtype::Int32));
    };
    LAST.with_borrow_mut(|last| match last {
        Some((of, array)) if *of == value => Ok(array.clone()),
        _ => {
            let array = Array::scalar(value)?;
            *last = Some((value, array.clone()));
            Ok(array)
        }
    })
}

/// Rotary position embedding of the first `dims` features of `x` (batch, …, positions,
/// features). Row `t` has position `offset + t`, scaled by `scale`; frequencies are
/// `base^(-2i/dims)` or `1 / freqs[i]`. `offset` is an integer scalar or one per batch.
///
/// # Errors
/// When `x` has fewer than three axes, `dims` is odd or too large, not exactly one of `base` and
/// `freqs` is given, or a shape does not fit.
pub fn rope(
    x: &Array,
    dims: usize,
    traditional: bool,
    base: Option<f32>,
    scale: f32,
    offset: impl ops::Operand,
    freqs: Option<&Array>,
) -> Result<Array> {
    let invalid = |message: String| Err(Error::invalid("rope", message));
    if x.ndim() < 3 {
        return invalid(format!(
            "Input must have at least 3 dimensions but got input with {} dimensions.",
            x.ndim()
        ));
    }
    if dims == 0 || !dims.is_multiple_of(2) || dims > x.dim(-1) {
        return invalid(format!("dims {dims} must be positive, even and at most {}.", x.dim(-1)));
    }
    if base.is_some() == freqs.is_some() {
        return invalid(match base {
            Some(_) => "Only one of base or freqs can have a value.".into(),
            None => "Neither base nor freqs has a value.".into(),
        });
    }
    floating("rope", &[x])?;
    let offset = position(offset)?;
    if !offset.dtype().is_integer()
        || offset.ndim() > 1
        || (offset.ndim() == 1 && offset.size() != 1 && offset.size() != x.dim(0))
    {
        return invalid(format!(
            "offset must be an integer scalar or a vector of {} integers but has shape {:?} and type {}.",
            x.dim(0),
            offset.shape(),
            offset.dtype()
        ));
    }
    let mut inputs = ops::listed([x.clone(), into_dtype(offset, Dtype::Int32)?]);
    if let Some(freqs) = freqs {
        if freqs.shape() != [dims / 2] {
            return invalid(format!(
                "freqs must have shape ({},) but has shape {:?}.",
                dims / 2,
                freqs.shape()
            ));
        }
        inputs.push(astype(freqs, Dtype::Float32)?);
    }
    let rope = Rope { dims, traditional, base: base.map(Exact), scale: Exact(scale) };
    let output = Spec { shape: Shape::from_slice(x.shape()), dtype: x.dtype() };
    graph::apply_checked(rope.into(), inputs, output)
}

/// Mask of [`scaled_dot_product_attention`].
#[derive(Clone, Copy)]
pub enum Mask<'a> {
    /// No mask.
    None,
    /// Query `i` of `n` sees keys up to `i + keys - n`.
    Causal,
    /// Bool (true is kept) or additive; broadcasts to (batch, heads, n, keys).
    Array(&'a Array),
}

/// `softmax(scale * q kᵀ + mask) v` per head, in float32 inside. Queries (batch, heads, n, d),
/// keys (batch, kv heads, m, d), values (batch, kv heads, m, dv); groups of query heads share a
/// key/value head.
///
/// # Errors
/// When shapes or dtypes do not fit together.
pub fn scaled_dot_product_attention(
    q: &Array,
    k: &Array,
    v: &Array,
    scale: f32,
    mask: Mask<'_>,
) -> Result<Array> {
    attention(q, k, v, scale, mask, None)
}

/// [`scaled_dot_product_attention`] with a sink per query head: `sinks` (heads), scores that take their share
/// of the softmax, hidden by no mask, and add no value.
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
    attention(q, k, v, scale, mask, Some(sinks))
}

fn attention(
    q: &Array,
    k: &Array,
    v: &Array,
    scale: f32,
    mask: Mask<'_>,
    sinks: Option<&Array>,
) -> Result<Array> {
    let op = "scaled_dot_product_attention";
    check_attention(op, q, k, v)?;
    let dtype = floating(op, &[q, k, v])?;
    let mut inputs = ops::listed([astype(q, dtype)?, astype(k, dtype)?, astype(v, dtype)?]);
    let kind = match mask {
        Mask::None => AttentionMask::None,
        Mask::Causal => AttentionMask::Causal,
        Mask::Array(mask) => {
            inputs.push(attention_mask(op, mask, q, k, dtype)?);
            AttentionMask::Array
        }
    };
    if let Some(sinks) = sinks {
        inputs.push(attention_sinks(op, sinks, q.dim(1), dtype)?);
    }
    let mut shape = Shape::from_slice(q.shape());
    shape[3] = v.dim(3);
    if k.dim(2) == 0 {
        // A sum over no keys.
        return ops::zeros(&shape, dtype);
    }
    let attention = Attention { scale: scale.into(), mask: kind, sinks: sinks.is_some() };
    graph::apply_checked(attention.into(), inputs, Spec { shape, dtype })
}

fn check_attention(op: &'static str, q: &Array, k: &Array, v: &Array) -> Result<()> {
    let shapes = || format!("q {:?}, k {:?}, v {:?}", q.shape(), k.shape(), v.shape());
    if [q, k, v].iter().any(|a| a.ndim() != 4) {
        return Err(Error::invalid(op, format!("Inputs must have 4 dimensions: {}.", shapes())));
    }
    let fits = q.dim(0) == k.dim(0)
        && k.shape()[..3] == v.shape()[..3]
        && q.dim(3) == k.dim(3)
        && k.dim(1) != 0
        && q.dim(1).is_multiple_of(k.dim(1));
    if !fits {
        return Err(Error::invalid(
            op,
            format!("Mismatching shapes, or n_heads not a multiple of n_kv_heads: {}.", shapes()),
        ));
    }
    Ok(())
}

/// Sinks of so many heads in the result's dtype.
fn attention_sinks(op: &'static str, sinks: &Array, heads: usize, dtype: Dtype) -> Result<Array> {
    if sinks.shape() != [heads] {
        let message = format!("Received invalid shape for sinks {:?}.", sinks.shape());
        return Err(Error::invalid(op, message));
    }
    if dtype.promote(sinks.dtype()) != dtype {
        let message =
            format!("Type of sinks must promote to output type {dtype} but is {}.", sinks.dtype());
        return Err(Error::invalid(op, message));
    }
    astype(sinks, dtype)
}

/// Broadcasts the mask to the scores' shape; additive masks take the result's dtype.
fn attention_mask(
    op: &'static str,
    mask: &Array,
    q: &Array,
    k: &Array,
    dtype: Dtype,
) -> Result<Array> {
    let scores = [q.dim(0), q.dim(1), q.dim(2), k.dim(2)];
    let additive = mask.dtype() != Dtype::Bool;
    if additive && mask.dtype().promote(dtype) != dtype {
        let message =
            format!("Mask type must promote to output type {dtype} but is {}.", mask.dtype());
        return Err(Error::invalid(op, message));
    }
    if broadcast_shape(op, mask.shape(), &scores)?.as_slice() != scores {
        let message =
            format!("Mask with shape {:?} is not broadcastable to {scores:?}.", mask.shape());
        return Err(Error::invalid(op, message));
    }
    let mask = if additive { astype(mask, dtype)? } else { mask.clone() };
    broadcast_to(&mask, &scores)
}
