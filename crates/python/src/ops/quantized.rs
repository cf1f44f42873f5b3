//! Quantization, and products with quantized matrices.

// Python's signatures are as they are.
#![allow(clippy::too_many_arguments)]

use mlx::{
    Array, Dtype, Error,
    ops::{self, FpMode, Packed, Picks},
};
use pyo3::{prelude::*, types::PyModule};

use crate::{
    arguments::{ArrayArg, given},
    array::{PyArray, apply},
    dtype::PyDtype,
    functions,
    raw::keywords,
    stream::Target,
};

/// How numbers are packed.
#[derive(Clone, Copy)]
enum Format {
    /// Integers with a scale and a bias for each group.
    Affine { group_size: usize, bits: usize },
    /// Small floats with a scale for each group.
    Floats(FpMode),
}

impl Format {
    /// The format that arguments name; floats have one group size and one number of bits each.
    fn new(
        op: &'static str,
        mode: &str,
        group_size: Option<usize>,
        bits: Option<usize>,
    ) -> mlx::Result<Format> {
        if mode == "affine" {
            let (group_size, bits) = (group_size.unwrap_or(64), bits.unwrap_or(4));
            return Ok(Format::Affine { group_size, bits });
        }
        let floats: FpMode = mode
            .parse()
            .map_err(|_| Error::invalid(op, format!("Invalid quantization mode '{mode}'.")))?;
        let asked = [
            ("group size", group_size, floats.group_size()),
            ("number of bits", bits, floats.bits()),
        ];
        for (what, asked, only) in asked {
            if let Some(asked) = asked.filter(|&asked| asked != only) {
                let message = format!("The {what} of {mode} is {only} but got {asked}.");
                return Err(Error::invalid(op, message));
            }
        }
        Ok(Format::Floats(floats))
    }
}

/// Biases, which the affine format has and no other.
fn required_biases<'a>(op: &'static str, biases: &'a Option<ArrayArg>) -> mlx::Result<&'a Array> {
    let message = "Biases must be provided for affine quantization.";
    given(biases).ok_or_else(|| Error::invalid(op, message))
}

fn refuse_biases(op: &'static str, mode: FpMode, biases: &Option<ArrayArg>) -> mlx::Result<()> {
    match biases {
        None => Ok(()),
        Some(_) => {
            let message = format!("Biases must be None for the mode {}.", mode.name());
            Err(Error::invalid(op, message))
        }
    }
}

fn refuse_global_scale(op: &'static str, scale: Option<&Array>) -> mlx::Result<()> {
    match scale {
        None => Ok(()),
        Some(_) => {
            let message = "Global scale is only supported for 'nvfp4' quantization mode.";
            Err(Error::invalid(op, message))
        }
    }
}

/// Scales and biases have to be floats; the dtype that they promote to.
fn affine_dtype(op: &'static str, scales: &Array, biases: &Array) -> mlx::Result<Dtype> {
    let dtype = scales.dtype().promote(biases.dtype());
    match dtype.is_floating() {
        true => Ok(dtype),
        false => {
            let message = format!(
                "Only real floating types are supported but scales.dtype() == {} and biases.dtype() == {}.",
                scales.dtype(),
                biases.dtype()
            );
            Err(Error::invalid(op, message))
        }
    }
}

/// Packs the elements of the last axis into few bits each.
///
/// Args:
///     w (array): A matrix or several; the last axis is a multiple of the group size.
///     group_size (int, optional): Elements that share a scale. Default: ``64`` for ``"affine"``.
///     bits (int, optional): Bits of an element. Default: ``4`` for ``"affine"``.
///     mode (str): ``"affine"``, ``"mxfp4"``, ``"mxfp8"`` or ``"nvfp4"``. Default: ``"affine"``.
///     global_scale (array, optional): Scale of all, for ``"nvfp4"``.
///
/// Returns:
///     list(array): Words of packed elements, scales, and the biases of ``"affine"``.
#[pyfunction]
#[pyo3(signature = (
    w, /, group_size=None, bits=None, mode="affine", *, global_scale=None, stream=None
))]
fn quantize(
    w: ArrayArg,
    group_size: Option<usize>,
    bits: Option<usize>,
    mode: &str,
    global_scale: Option<ArrayArg>,
    stream: Option<Target>,
) -> PyResult<Vec<PyArray>> {
    let op = "quantize";
    let global = given(&global_scale);
    apply(stream, || match Format::new(op, mode, group_size, bits)? {
        Format::Affine { group_size, bits } => {
            refuse_global_scale(op, global)?;
            let (words, scales, biases) = ops::quantize(&w, group_size, bits)?;
            Ok(vec![words, scales, biases])
        }
        Format::Floats(mode) => {
            let (words, scales) = ops::fp_quantize(&w, mode, global)?;
            Ok(vec![words, scales])
        }
    })
}

/// Undoes :func:`quantize`.
///
/// Args:
///     w (array): Words of packed elements.
///     scales (array): Scale of each group.
///     biases (array, optional): Bias of each group, for ``"affine"``.
///     group_size (int, optional): Elements that share a scale. Default: ``64`` for ``"affine"``.
///     bits (int, optional): Bits of an element. Default: ``4`` for ``"affine"``.
///     mode (str): ``"affine"``, ``"mxfp4"``, ``"mxfp8"`` or ``"nvfp4"``. Default: ``"affine"``.
///     global_scale (array, optional): Scale of all, for ``"nvfp4"``.
///     dtype (Dtype, optional): Type of the result. Default: that of the scales for ``"affine"``, else
///       ``bfloat16``.
///
/// Returns:
///     array: The elements.
#[pyfunction]
#[pyo3(signature = (
    w, /, scales, biases=None, group_size=None, bits=None, mode="affine", global_scale=None,
    dtype=None, *, stream=None
))]
fn dequantize(
    w: ArrayArg,
    scales: ArrayArg,
    biases: Option<ArrayArg>,
    group_size: Option<usize>,
    bits: Option<usize>,
    mode: &str,
    global_scale: Option<ArrayArg>,
    dtype: Option<PyDtype>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let op = "dequantize";
    let global = given(&global_scale);
    let dtype = dtype.map(|dtype| dtype.0);
    apply(stream, || {
        if let Some(dtype) = dtype.filter(|dtype| !dtype.is_floating()) {
            let message =
                format!("Only real floating types are supported but output dtype == {dtype}.");
            return Err(Error::invalid(op, message));
        }
        match Format::new(op, mode, group_size, bits)? {
            Format::Affine { group_size, bits } => {
                refuse_global_scale(op, global)?;
                let biases = required_biases(op, &biases)?;
                let own = affine_dtype(op, &scales, biases)?;
                let out = ops::dequantize(&w, &scales, biases, group_size, bits)?;
                ops::astype(&out, dtype.unwrap_or(own))
            }
            Format::Floats(mode) => {
                refuse_biases(op, mode, &biases)?;
                ops::fp_dequantize(&w, &scales, mode, global, dtype.unwrap_or(Dtype::Bfloat16))
            }
        }
    })
}

/// The product with a quantized matrix.
///
/// Args:
///     x (array): Input array.
///     w (array): Words of packed elements.
///     scales (array): Scale of each group.
///     biases (array, optional): Bias of each group, for ``"affine"``.
///     transpose (bool): Multiply with the transposed matrix. Default: ``True``.
///     group_size (int, optional): Elements that share a scale. Default: ``64`` for ``"affine"``.
///     bits (int, optional): Bits of an element. Default: ``4`` for ``"affine"``.
///     mode (str): ``"affine"``, ``"mxfp4"``, ``"mxfp8"`` or ``"nvfp4"``. Default: ``"affine"``.
///
/// Returns:
///     array: The product.
#[pyfunction]
#[pyo3(signature = (
    x, w, /, scales, biases=None, transpose=true, group_size=None, bits=None, mode="affine", *,
    stream=None
))]
fn quantized_matmul(
    x: ArrayArg,
    w: ArrayArg,
    scales: ArrayArg,
    biases: Option<ArrayArg>,
    transpose: bool,
    group_size: Option<usize>,
    bits: Option<usize>,
    mode: &str,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let op = "quantized_matmul";
    apply(stream, || match Format::new(op, mode, group_size, bits)? {
        Format::Affine { group_size, bits } => {
            let biases = required_biases(op, &biases)?;
            affine_dtype(op, &scales, biases)?;
            ops::quantized_matmul(&x, &w, &scales, biases, transpose, group_size, bits)
        }
        Format::Floats(mode) => {
            refuse_biases(op, mode, &biases)?;
            ops::fp_quantized_matmul(&x, &w, &scales, transpose, mode)
        }
    })
}

/// Products of matrices and quantized matrices that indices pick.
///
/// Args:
///     x (array): Matrices.
///     w (array): Words of packed elements.
///     scales (array): Scale of each group.
///     biases (array, optional): Bias of each group, for ``"affine"``.
///     lhs_indices (array, optional): Which of ``x``, counted over all its batch axes. Default: each once.
///     rhs_indices (array, optional): Which of ``w``, counted over all its batch axes. Default: each once.
///     transpose (bool): Multiply with the transposed matrices. Default: ``True``.
///     group_size (int, optional): Elements that share a scale. Default: ``64`` for ``"affine"``.
///     bits (int, optional): Bits of an element. Default: ``4`` for ``"affine"``.
///     mode (str): ``"affine"``, ``"mxfp4"``, ``"mxfp8"`` or ``"nvfp4"``. Default: ``"affine"``.
///     global_scale (array, optional): Scale of all, for ``"nvfp4"``.
///     sorted_indices (bool): The given indices ascend, which may be faster. Default: ``False``.
///
/// Returns:
///     array: The products.
#[pyfunction]
#[pyo3(signature = (
    x, w, /, scales, biases=None, lhs_indices=None, rhs_indices=None, transpose=true,
    group_size=None, bits=None, mode="affine", global_scale=None, *, sorted_indices=false,
    stream=None
))]
fn gather_qmm(
    x: ArrayArg,
    w: ArrayArg,
    scales: ArrayArg,
    biases: Option<ArrayArg>,
    lhs_indices: Option<ArrayArg>,
    rhs_indices: Option<ArrayArg>,
    transpose: bool,
    group_size: Option<usize>,
    bits: Option<usize>,
    mode: &str,
    global_scale: Option<ArrayArg>,
    sorted_indices: bool,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let op = "gather_qmm";
    let global = given(&global_scale);
    let picks = picks(&lhs_indices, &rhs_indices, sorted_indices);
    apply(stream, || match Format::new(op, mode, group_size, bits)? {
        Format::Affine { group_size, bits } => {
            refuse_global_scale(op, global)?;
            let biases = required_biases(op, &biases)?;
            affine_dtype(op, &scales, biases)?;
            ops::gather_qmm(&x, &w, &scales, biases, picks, transpose, group_size, bits)
        }
        Format::Floats(mode) => {
            refuse_biases(op, mode, &biases)?;
            ops::fp_gather_qmm(&x, &w, &scales, picks, transpose, mode, global)
        }
    })
}

fn picks<'a>(lhs: &'a Option<ArrayArg>, rhs: &'a Option<ArrayArg>, sorted: bool) -> Picks<'a> {
    Picks { lhs: given(lhs), rhs: given(rhs), sorted }
}

/// The format of products whose operands are both quantized: floats only.
fn floats(
    op: &'static str,
    mode: &str,
    group_size: Option<usize>,
    bits: Option<usize>,
) -> mlx::Result<FpMode> {
    match Format::new(op, mode, group_size, bits)? {
        Format::Floats(mode) => Ok(mode),
        Format::Affine { .. } => Err(Error::invalid(op, "Affine quantization is not supported.")),
    }
}

/// Both global scales or none.
fn global_scales<'a>(
    op: &'static str,
    x: &'a Option<ArrayArg>,
    w: &'a Option<ArrayArg>,
) -> mlx::Result<ops::GlobalScales<'a>> {
    match (given(x), given(w)) {
        (Some(x), Some(w)) => Ok(Some((x, w))),
        (None, None) => Ok(None),
        _ => {
            let message =
                "Either both global_scale_x and global_scale_w must be provided, or neither.";
            Err(Error::invalid(op, message))
        }
    }
}

/// The product with a transposed matrix, both quantized. ``x`` is quantized on the way, and ``w`` too
/// unless it is already.
///
/// Args:
///     x (array): Input array.
///     w (array): A matrix, or words of packed elements.
///     scales (array, optional): Scale of each group of packed elements.
///     group_size (int, optional): Elements that share a scale. Default: what ``mode`` has.
///     bits (int, optional): Bits of an element. Default: what ``mode`` has.
///     mode (str): ``"nvfp4"``, ``"mxfp4"`` or ``"mxfp8"``. Default: ``"nvfp4"``.
///     global_scale_x (array, optional): Scale of all of ``x``, for ``"nvfp4"``.
///     global_scale_w (array, optional): Scale of all of ``w``, for ``"nvfp4"``.
///
/// Returns:
///     array: The product.
#[pyfunction]
#[pyo3(signature = (
    x, w, scales=None, group_size=None, bits=None, mode="nvfp4", global_scale_x=None,
    global_scale_w=None, *, stream=None
))]
fn qqmm(
    x: ArrayArg,
    w: ArrayArg,
    scales: Option<ArrayArg>,
    group_size: Option<usize>,
    bits: Option<usize>,
    mode: &str,
    global_scale_x: Option<ArrayArg>,
    global_scale_w: Option<ArrayArg>,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let op = "qqmm";
    apply(stream, || {
        let mode = floats(op, mode, group_size, bits)?;
        let global = global_scales(op, &global_scale_x, &global_scale_w)?;
        ops::qqmm(&x, Packed { w: &w, scales: given(&scales) }, mode, global)
    })
}

/// Products of matrices that indices pick with transposed ones, both quantized as :func:`qqmm` does.
///
/// Args:
///     x (array): Matrices.
///     w (array): Matrices, or words of packed elements.
///     scales (array, optional): Scale of each group of packed elements.
///     lhs_indices (array, optional): Which of ``x``, counted over all its batch axes. Default: each once.
///     rhs_indices (array, optional): Which of ``w``, counted over all its batch axes. Default: each once.
///     group_size (int, optional): Elements that share a scale. Default: what ``mode`` has.
///     bits (int, optional): Bits of an element. Default: what ``mode`` has.
///     mode (str): ``"nvfp4"``, ``"mxfp4"`` or ``"mxfp8"``. Default: ``"nvfp4"``.
///     global_scale_x (array, optional): Scale of all of ``x``, for ``"nvfp4"``.
///     global_scale_w (array, optional): Scale of all of ``w``, for ``"nvfp4"``.
///     sorted_indices (bool): The given indices ascend, which may be faster. Default: ``False``.
///
/// Returns:
///     array: The products.
#[pyfunction]
#[pyo3(signature = (
    x, w, /, scales=None, lhs_indices=None, rhs_indices=None, group_size=None, bits=None,
    mode="nvfp4", global_scale_x=None, global_scale_w=None, *, sorted_indices=false, stream=None
))]
fn gather_qqmm(
    x: ArrayArg,
    w: ArrayArg,
    scales: Option<ArrayArg>,
    lhs_indices: Option<ArrayArg>,
    rhs_indices: Option<ArrayArg>,
    group_size: Option<usize>,
    bits: Option<usize>,
    mode: &str,
    global_scale_x: Option<ArrayArg>,
    global_scale_w: Option<ArrayArg>,
    sorted_indices: bool,
    stream: Option<Target>,
) -> PyResult<PyArray> {
    let op = "gather_qqmm";
    let picks = picks(&lhs_indices, &rhs_indices, sorted_indices);
    apply(stream, || {
        let mode = floats(op, mode, group_size, bits)?;
        let global = global_scales(op, &global_scale_x, &global_scale_w)?;
        ops::gather_qqmm(&x, Packed { w: &w, scales: given(&scales) }, picks, mode, global)
    })
}

/// Floats of eight bits: a sign, four bits of exponent, three of mantissa.
///
/// Args:
///     x (array): Input array.
///
/// Returns:
///     array: The nearest ones as ``uint8``.
#[pyfunction]
#[pyo3(signature = (x, *, stream=None))]
fn to_fp8(x: ArrayArg, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::to_fp8(&x))
}

/// Undoes :func:`to_fp8`.
///
/// Args:
///     x (array): Eight-bit floats as ``uint8``.
///     dtype (Dtype): Type of the result. Default: ``bfloat16``.
///
/// Returns:
///     array: Their values.
#[pyfunction]
#[pyo3(
    signature = (x, dtype=PyDtype(Dtype::Bfloat16), *, stream=None),
    text_signature = "(x, dtype=None, *, stream=None)"
)]
fn from_fp8(x: ArrayArg, dtype: PyDtype, stream: Option<Target>) -> PyResult<PyArray> {
    apply(stream, || ops::from_fp8(&x, dtype.0))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: quantize dequantize qqmm gather_qqmm);
    keywords::add::<0>(module, &pyo3::wrap_pyfunction!(quantized_matmul, module)?)?;
    keywords::add::<1>(module, &pyo3::wrap_pyfunction!(gather_qmm, module)?)?;
    functions!(module: to_fp8 from_fp8);
    Ok(())
}
