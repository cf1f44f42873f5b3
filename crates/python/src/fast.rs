//! `mlx.core.fast`: operations that one kernel does.

use mlx::fast::{self, Mask};
use pyo3::{
    exceptions::{PyRuntimeError, PyTypeError, PyValueError},
    prelude::*,
    types::{PyBool, PyDict, PyInt, PyModule, PyString, PyTuple},
};

use crate::{
    arguments::{ArrayArg, Operand, given},
    array::{PyArray, apply},
    dtype::PyDtype,
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

/// A kernel in a language of another backend. Programs make them when they are imported; calling one says
/// that there is no such backend.
#[pyclass(module = "mlx.core.fast", frozen)]
struct CustomKernel {
    name: String,
    /// The function that made it.
    function: &'static str,
    /// What would run it.
    backend: &'static str,
    inputs: usize,
    outputs: usize,
}

#[pymethods]
impl CustomKernel {
    /// Runs the kernel: raises a ``RuntimeError``, as there is nothing to run it on.
    #[pyo3(signature = (*, inputs, output_shapes, output_dtypes, grid, threadgroup, template=None,
        init_value=None, verbose=false, stream=None))]
    #[expect(clippy::too_many_arguments, reason = "upstream's signature")]
    fn __call__(
        &self,
        inputs: Vec<Operand>,
        output_shapes: Vec<Vec<usize>>,
        output_dtypes: Vec<PyDtype>,
        grid: (i32, i32, i32),
        threadgroup: (i32, i32, i32),
        template: Option<Vec<(String, Bound<'_, PyAny>)>>,
        init_value: Option<f32>,
        verbose: bool,
        stream: Option<Target>,
    ) -> PyResult<Vec<PyArray>> {
        let _ = (grid, threadgroup, init_value, verbose, stream);
        let invalid =
            |what: &str| Err(PyValueError::new_err(format!("[{}] {what}", self.function)));
        for (_, value) in template.iter().flatten() {
            let is_known = value.is_instance_of::<PyBool>()
                || value.is_instance_of::<PyInt>()
                || value.is_instance_of::<PyDtype>();
            if !is_known {
                return invalid(
                    "Invalid template argument. Must be `mlx.core.Dtype`, `int` or `bool`.",
                );
            }
        }
        if inputs.len() != self.inputs {
            return invalid(&format!(
                "Expected `inputs` to have size {} but got size {}.",
                self.inputs,
                inputs.len()
            ));
        }
        for (name, size) in
            [("output_shapes", output_shapes.len()), ("output_dtypes", output_dtypes.len())]
        {
            if size != self.outputs {
                let expected = self.outputs;
                return invalid(&format!(
                    "Expected `{name}` to have size {expected} but got size {size}."
                ));
            }
        }
        let Self { name, function, backend, .. } = self;
        let message = format!(
            "[{function}] No {backend} back-end: kernel \"{name}\" cannot run here. Use what the program has \
             for devices without {backend}."
        );
        Err(PyRuntimeError::new_err(message))
    }
}

/// A Metal kernel. It can be made, so that programs which have some can be imported, but not be called.
///
/// Args:
///     name (str): Its name.
///     input_names (list(str)): Names of its inputs.
///     output_names (list(str)): Names of its outputs.
///     source (str): The body of the kernel.
///     header (str, optional): What comes before it. Default: ``""``.
///     ensure_row_contiguous (bool, optional): Whether inputs are copied into rows. Default: ``True``.
///     atomic_outputs (bool, optional): Whether outputs are atomic. Default: ``False``.
///     compile_options (dict, optional): Options of Metal's compiler: ``math_mode``.
///
/// Returns:
///     Callable: The kernel.
#[pyfunction]
#[pyo3(signature = (name, input_names, output_names, source, header="", ensure_row_contiguous=true,
    atomic_outputs=false, compile_options=None))]
#[expect(clippy::too_many_arguments, reason = "upstream's signature")]
fn metal_kernel(
    name: &str,
    input_names: Vec<String>,
    output_names: Vec<String>,
    source: &str,
    header: &str,
    ensure_row_contiguous: bool,
    atomic_outputs: bool,
    compile_options: Option<&Bound<'_, PyAny>>,
) -> PyResult<CustomKernel> {
    let _ = (source, header, ensure_row_contiguous, atomic_outputs);
    if let Some(options) = compile_options {
        expect_options(options)?;
    }
    kernel(name, "metal_kernel", "Metal", &input_names, &output_names)
}

/// Options that Metal's compiler would take.
fn expect_options(options: &Bound<'_, PyAny>) -> PyResult<()> {
    let invalid = |what: &str| Err(PyValueError::new_err(format!("[metal_kernel] {what}")));
    let Ok(options) = options.cast::<PyDict>() else {
        return invalid("Expected `compile_options` to be a dict.");
    };
    for (key, value) in options.iter() {
        if key.cast::<PyString>()?.to_str()? != "math_mode" {
            return invalid(&format!("Unknown compile option `{key}`."));
        }
        if !matches!(value.cast::<PyString>()?.to_str()?, "safe" | "relaxed" | "fast") {
            return invalid("Expected math_mode to be 'safe', 'relaxed', or 'fast'.");
        }
    }
    Ok(())
}

/// A CUDA kernel. It can be made, so that programs which have some can be imported, but not be called.
///
/// Args:
///     name (str): Its name.
///     input_names (list(str)): Names of its inputs.
///     output_names (list(str)): Names of its outputs.
///     source (str): The body of the kernel.
///     header (str, optional): What comes before it. Default: ``""``.
///     ensure_row_contiguous (bool, optional): Whether inputs are copied into rows. Default: ``True``.
///     shared_memory (int, optional): Bytes that a block shares. Default: 0.
///
/// Returns:
///     Callable: The kernel.
#[pyfunction]
#[pyo3(signature = (name, input_names, output_names, source, header="", ensure_row_contiguous=true,
    shared_memory=0))]
fn cuda_kernel(
    name: &str,
    input_names: Vec<String>,
    output_names: Vec<String>,
    source: &str,
    header: &str,
    ensure_row_contiguous: bool,
    shared_memory: i64,
) -> PyResult<CustomKernel> {
    let _ = (source, header, ensure_row_contiguous, shared_memory);
    kernel(name, "cuda_kernel", "CUDA", &input_names, &output_names)
}

fn kernel(
    name: &str,
    function: &'static str,
    backend: &'static str,
    inputs: &[String],
    outputs: &[String],
) -> PyResult<CustomKernel> {
    match outputs {
        [] => {
            let message = format!("[{function}] Must specify at least one output.");
            Err(PyValueError::new_err(message))
        }
        _ => Ok(CustomKernel {
            name: name.to_owned(),
            function,
            backend,
            inputs: inputs.len(),
            outputs: outputs.len(),
        }),
    }
}

/// Runs a compiled CUDA kernel: raises a ``RuntimeError``, as there is nothing to run it on.
#[pyfunction]
#[pyo3(
    signature = (*args, **kwargs),
    text_signature = "(*, name, compiled_source, inputs, output_shapes, output_dtypes, scalars, grid, \
                      threadgroup, shared_memory=0, init_value=None, ensure_row_contiguous=False, \
                      stream=None)"
)]
fn precompiled_cuda_kernel(
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<PyArray>> {
    let _ = kwargs;
    match args.is_empty() {
        true => {
            let message = "[precompiled_cuda_kernel] No CUDA back-end.";
            Err(PyRuntimeError::new_err(message))
        }
        false => {
            let message = "precompiled_cuda_kernel() takes keyword arguments only";
            Err(PyTypeError::new_err(message))
        }
    }
}
