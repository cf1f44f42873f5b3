//! Kernels that users write for Metal and for CUDA: programs that have some can be imported.

use mlx::{
    Array, Shape, export,
    fast::{Launch, MetalKernel, TemplateArg},
    primitives::MathMode,
};
use pyo3::{
    exceptions::{PyRuntimeError, PyTypeError, PyValueError},
    prelude::*,
    types::{PyBool, PyDict, PyInt, PyString, PyTuple},
};

use crate::{
    arguments::Operand,
    array::PyArray,
    dtype::PyDtype,
    error::OrRaise,
    stream::{Target, on},
};

/// A kernel that a user wrote. One in Metal's language runs on a GPU; calling one for CUDA says that there is
/// no such backend.
#[pyclass(module = "mlx.core.fast", frozen)]
pub(crate) struct CustomKernel(Language);

/// What a kernel is written for.
enum Language {
    Metal(MetalKernel),
    Cuda { name: String, inputs: usize, outputs: usize },
}

impl Language {
    /// The function that makes such kernels.
    fn function(&self) -> &'static str {
        match self {
            Self::Metal(_) => "metal_kernel",
            Self::Cuda { .. } => CUDA_KERNEL,
        }
    }
}

const CUDA_KERNEL: &str = "cuda_kernel";

#[pymethods]
impl CustomKernel {
    /// Calls the kernel. One for CUDA raises a ``RuntimeError``, as there is nothing to run it on.
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
        let launch = Launch {
            output_shapes: output_shapes.into_iter().map(Shape::from_vec).collect(),
            output_dtypes: output_dtypes.into_iter().map(|dtype| dtype.0).collect(),
            grid: grid.into(),
            threadgroup: threadgroup.into(),
            template: parameters(self.0.function(), template)?,
            init_value,
            verbose,
            device: stream.map(|target| target.device().kind),
        };
        let inputs =
            inputs.into_iter().map(Operand::into_array).collect::<PyResult<Vec<Array>>>()?;
        let outputs = match &self.0 {
            Language::Metal(kernel) if export::is_exporting() => {
                kernel.call(&inputs, &launch).or_raise()?
            }
            Language::Metal(kernel) => on(stream, || kernel.call(&inputs, &launch))?,
            Language::Cuda { name, inputs: from, outputs: to } => {
                launch.expect_counts(CUDA_KERNEL, [inputs.len(), *from], *to).or_raise()?;
                let message = format!(
                    "[{CUDA_KERNEL}] No CUDA back-end: kernel \"{name}\" cannot run here. Use what the \
                     program has for devices without CUDA."
                );
                return Err(PyRuntimeError::new_err(message));
            }
        };
        Ok(outputs.into_iter().map(Into::into).collect())
    }
}

/// Parameters of a kernel that is a template.
fn parameters(
    function: &str,
    template: Option<Vec<(String, Bound<'_, PyAny>)>>,
) -> PyResult<Vec<(String, TemplateArg)>> {
    let parameter = |(name, value): (String, Bound<'_, PyAny>)| {
        let argument = if value.is_instance_of::<PyBool>() {
            TemplateArg::Bool(value.extract()?)
        } else if let Some(value) =
            value.cast::<PyInt>().ok().and_then(|value| value.extract().ok())
        {
            TemplateArg::Int(value)
        } else if let Ok(dtype) = value.extract::<PyDtype>() {
            TemplateArg::Dtype(dtype.0)
        } else {
            let what = "Invalid template argument. Must be `mlx.core.Dtype`, `int` or `bool`.";
            return Err(PyValueError::new_err(format!("[{function}] {what}")));
        };
        Ok((name, argument))
    };
    template.into_iter().flatten().map(parameter).collect()
}

/// A kernel in Metal's language, which runs on a GPU. It is compiled when it is first needed; what is wrong
/// with the source is told when its outputs are evaluated.
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
pub(crate) fn metal_kernel(
    name: &str,
    input_names: Vec<String>,
    output_names: Vec<String>,
    source: &str,
    header: &str,
    ensure_row_contiguous: bool,
    atomic_outputs: bool,
    compile_options: Option<&Bound<'_, PyAny>>,
) -> PyResult<CustomKernel> {
    let math_mode = compile_options.map_or(Ok(MathMode::default()), math_mode)?;
    let kernel = MetalKernel::new(name, input_names, output_names, source).or_raise()?;
    let header = header.to_owned();
    let kernel = MetalKernel { header, ensure_row_contiguous, atomic_outputs, math_mode, ..kernel };
    Ok(CustomKernel(Language::Metal(kernel)))
}

/// Options of Metal's compiler, of which there is one.
fn math_mode(options: &Bound<'_, PyAny>) -> PyResult<MathMode> {
    let invalid = |what: &str| Err(PyValueError::new_err(format!("[metal_kernel] {what}")));
    let Ok(options) = options.cast::<PyDict>() else {
        return invalid("Expected `compile_options` to be a dict.");
    };
    let mut mode = MathMode::default();
    for (key, value) in options.iter() {
        if key.cast::<PyString>()?.to_str()? != "math_mode" {
            return invalid(&format!("Unknown compile option `{key}`."));
        }
        mode = match value.cast::<PyString>()?.to_str()? {
            "safe" => MathMode::Safe,
            "relaxed" => MathMode::Relaxed,
            "fast" => MathMode::Fast,
            _ => return invalid("Expected math_mode to be 'safe', 'relaxed', or 'fast'."),
        };
    }
    Ok(mode)
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
pub(crate) fn cuda_kernel(
    name: &str,
    input_names: Vec<String>,
    output_names: Vec<String>,
    source: &str,
    header: &str,
    ensure_row_contiguous: bool,
    shared_memory: i64,
) -> PyResult<CustomKernel> {
    let _ = (source, header, ensure_row_contiguous, shared_memory);
    match output_names.is_empty() {
        true => {
            let message = "[cuda_kernel] Must specify at least one output.";
            Err(PyValueError::new_err(message))
        }
        false => Ok(CustomKernel(Language::Cuda {
            name: name.to_owned(),
            inputs: input_names.len(),
            outputs: output_names.len(),
        })),
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
pub(crate) fn precompiled_cuda_kernel(
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
