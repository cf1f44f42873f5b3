//! `mlx.core.fast`: operations that one kernel does.

use mlx::fast::{self, Mask};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyModule, PyString},
};

use crate::{
    arguments::{ArrayArg, Operand, given},
    array::{PyArray, apply},
    custom_kernel::{cuda_kernel, metal_kernel, precompiled_cuda_kernel},
    functions,
    stream::{Target, on},
};

pub(crate) fn register(core: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = &PyModule::new(core.py(), "mlx.core.fast")?;
    functions!(module: rms_norm layer_norm rope scaled_dot_product_attention cross_entropy
        gated_delta_update metal_kernel cuda_kernel precompiled_cuda_kernel);
    core.add("fast", module)
}

/// Root mean square normalization over the last axis, accumulated in float32.
///
/// Args:
///     x (array): Input array.
///     weight (array, optional): Factors of the normalized elements, of the last axis' size.
///     eps (float): Added to the mean square.
///
/// Returns:
///     array: An array of the same shape.
#[pyfunction]
#[pyo3(signature = (x, weight, eps, *, stream=None))]
fn rms_norm(
    x: ArrayArg,
    weight: Option<ArrayArg>,
    eps: f32,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || fast::rms_norm(&x, given(&weight), eps))
}

/// Layer normalization over the last axis, accumulated in float32.
///
/// Args:
///     x (array): Input array.
///     weight (array, optional): Factors of the normalized elements, of the last axis' size.
///     bias (array, optional): Added to them, of the last axis' size.
///     eps (float): Added to the variance.
///
/// Returns:
///     array: An array of the same shape.
#[pyfunction]
#[pyo3(signature = (x, weight, bias, eps, *, stream=None))]
fn layer_norm(
    x: ArrayArg,
    weight: Option<ArrayArg>,
    bias: Option<ArrayArg>,
    eps: f32,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    apply(stream, || fast::layer_norm(&x, given(&weight), given(&bias), eps))
}

/// Rotary position embedding.
///
/// Args:
///     a (array): Input array of shape (batch, ..., positions, features).
///     dims (int): How many features are rotated; the others stay.
///     traditional (bool): Whether pairs are neighbouring features, instead of those of two halves.
///     base (float, optional): Base of the frequencies. Exactly one of ``base`` and ``freqs`` is given.
///     scale (float): Factor of the positions.
///     offset (int or array): The first position: one, or one for each of the batch.
///     freqs (array, optional): Reciprocals of the frequencies, of shape (dims / 2,).
///
/// Returns:
///     array: An array of the same shape.
#[pyfunction]
#[pyo3(signature = (a, dims, *, traditional, base, scale, offset, freqs=None, stream=None))]
#[expect(clippy::too_many_arguments, reason = "upstream's signature")]
fn rope(
    a: ArrayArg,
    dims: isize,
    traditional: bool,
    base: Option<f32>,
    scale: f32,
    offset: Operand,
    freqs: Option<ArrayArg>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let dims = usize::try_from(dims).map_err(|_| {
        PyValueError::new_err(format!("[rope] dims must be positive but is {dims}."))
    })?;
    apply(stream, || fast::rope(&a, dims, traditional, base, scale, offset, given(&freqs)))
}

/// A mask of attention: a text, or an array.
enum MaskArg {
    Text(String),
    Array(mlx::Array),
}

impl<'a, 'py> FromPyObject<'a, 'py> for MaskArg {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.cast::<PyString>() {
            Ok(text) => Ok(MaskArg::Text(text.to_str()?.to_owned())),
            Err(_) => object.extract::<ArrayArg>().map(|array| MaskArg::Array(array.0)),
        }
    }
}

/// ``softmax(scale * q @ k.T + mask) @ v`` for each head, with a softmax in float32. Groups of query heads
/// may share a head of keys and values.
///
/// Args:
///     q (array): Queries, of shape (batch, heads, queries, features).
///     k (array): Keys, of shape (batch, kv heads, keys, features).
///     v (array): Values, of shape (batch, kv heads, keys, value features).
///     scale (float): Factor of the scores.
///     mask (str or array, optional): ``"causal"``, or booleans (true is kept) or addends that broadcast to
///       the scores.
///     sinks (array, optional): A score for each head that takes part in the softmax and has no value.
///     force_fused (bool, optional): Asks for one kernel, which does it anyway. Default: ``False``.
///
/// Returns:
///     array: An array of shape (batch, heads, queries, value features).
#[pyfunction]
#[pyo3(signature = (q, k, v, *, scale, mask=None, sinks=None, force_fused=false, stream=None))]
#[expect(clippy::too_many_arguments, reason = "upstream's signature")]
fn scaled_dot_product_attention(
    q: ArrayArg,
    k: ArrayArg,
    v: ArrayArg,
    scale: f32,
    mask: Option<MaskArg>,
    sinks: Option<ArrayArg>,
    force_fused: bool,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let _ = force_fused;
    let mask = match &mask {
        None => Mask::None,
        Some(MaskArg::Text(text)) if text == "causal" => Mask::Causal,
        Some(MaskArg::Text(text)) => {
            let message = format!(
                "[scaled_dot_product_attention] invalid mask option '{text}'. Must be 'causal', or an array."
            );
            return Err(PyValueError::new_err(message));
        }
        Some(MaskArg::Array(mask)) => Mask::Array(mask),
    };
    apply(stream, || match &sinks {
        None => fast::scaled_dot_product_attention(&q, &k, &v, scale, mask),
        Some(sinks) => {
            fast::scaled_dot_product_attention_with_sinks(&q, &k, &v, scale, mask, sinks)
        }
    })
}

/// The cross entropy of logits and classes, without an array of probabilities.
///
/// Args:
///     logits (array): Logits, with the classes along the last axis.
///     targets (array): Indices of classes, of the shape of the logits without the last axis.
///
/// Returns:
///     array: The loss of each target.
#[pyfunction]
#[pyo3(signature = (logits, targets, *, stream=None))]
fn cross_entropy(logits: ArrayArg, targets: ArrayArg, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || fast::cross_entropy(&logits, &targets))
}

/// Steps of the gated delta rule, a linear attention whose state decays and is corrected by each key.
///
/// Args:
///     q (array): Queries, of shape (batch, steps, heads, key features).
///     k (array): Keys, of the same shape.
///     v (array): Values, of shape (batch, steps, value heads, value features).
///     gamma (array): Decays.
///     beta (array): Rates of correction.
///     initial_state (array, optional): The state before the first step. Default: zeros.
///     mask (array, optional): Booleans of shape (batch, steps): which steps are there.
///
/// Returns:
///     list(array): The results of the steps, and the state after the last one.
#[pyfunction]
#[pyo3(signature = (q, k, v, gamma, beta, initial_state=None, mask=None, stream=None))]
#[expect(clippy::too_many_arguments, reason = "upstream's signature")]
fn gated_delta_update(
    q: ArrayArg,
    k: ArrayArg,
    v: ArrayArg,
    gamma: ArrayArg,
    beta: ArrayArg,
    initial_state: Option<ArrayArg>,
    mask: Option<ArrayArg>,
    stream: Option<Target>,
) -> PyResult<Vec<PyArray>> {
    let (state, mask) = (given(&initial_state), given(&mask));
    let (results, state) =
        on(stream, || fast::gated_delta_update([&q, &k, &v], &gamma, &beta, state, mask))?;
    Ok(vec![results.into(), state.into()])
}
