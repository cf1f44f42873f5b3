//! Quantization to small floats: the formats of [`FpMode`].

use super::{
    gathered_quantized::{Picks, gathered},
    quantized::product,
};
use crate::{
    Array, Dtype, Error, Result,
    ops::{self, astype, from_fp8, to_fp8, view},
    primitives::QuantizedOp,
};

pub use crate::primitives::FpMode;

/// Largest product of an e4m3 scale and an e2m1 element: a global scale stands for that much.
const LARGEST: f64 = 448.0 * 6.0;

fn check_global(op: &'static str, mode: FpMode, global: Option<&Array>) -> Result<()> {
    let Some(global) = global else { return Ok(()) };
    let invalid = |message: String| Err(Error::invalid(op, message));
    if mode != FpMode::Nvfp4 {
        return invalid("Global scale is only supported for 'nvfp4' quantization mode.".into());
    }
    if global.size() != 1 {
        return invalid(format!(
            "Global scale must be a scalar but got shape {:?}.",
            global.shape()
        ));
    }
    if global.dtype() != Dtype::Float32 {
        return invalid(format!(
            "Global scale must have dtype float32 but got {}.",
            global.dtype()
        ));
    }
    Ok(())
}

/// The shape with another last axis.
fn with_last(a: &Array, last: usize) -> Vec<isize> {
    let mut shape: Vec<isize> = a.shape().iter().map(|&d| d as isize).collect();
    *shape.last_mut().expect("at least one axis") = last as isize;
    shape
}

/// The shape with the last axis split into groups of `size`.
fn in_groups(a: &Array, size: usize) -> Vec<isize> {
    let mut shape = with_last(a, a.dim(-1) / size);
    shape.push(size as isize);
    shape
}

/// Quantizes the last axis: packed uint32 words and uint8 scales. Scales are rounded to the format,
/// and elements to the nearest, ties to even, in float32.
///
/// # Errors
/// When the array is not floating, has fewer than two axes, its last axis is no multiple of the
/// group size, or a global scale is not for this mode or no float32 scalar.
pub fn fp_quantize(
    w: &Array,
    mode: FpMode,
    global_scale: Option<&Array>,
) -> Result<(Array, Array)> {
    let op = "quantize";
    let invalid = |message: String| Err(Error::invalid(op, message));
    if !w.dtype().is_floating() {
        return invalid(format!(
            "Only real floating types can be quantized but w has type {}.",
            w.dtype()
        ));
    }
    if w.ndim() < 2 {
        return invalid(format!(
            "The matrix to be quantized must have at least 2 dimension but it has only {}.",
            w.ndim()
        ));
    }
    let group = mode.group_size();
    if !w.dim(-1).is_multiple_of(group) {
        return invalid(format!(
            "The last dimension of the matrix needs to be divisible by the quantization group size \
             {group}. However the provided  matrix has shape {:?}",
            w.shape()
        ));
    }
    check_global(op, mode, global_scale)?;
    let words = with_last(w, w.dim(-1) * mode.bits() / 32);
    let groups = with_last(w, w.dim(-1) / group);
    if w.size() == 0 {
        let empty = |shape: &[isize], dtype| {
            ops::zeros(&shape.iter().map(|&d| d as usize).collect::<Vec<_>>(), dtype)
        };
        return Ok((empty(&words, Dtype::Uint32)?, empty(&groups, Dtype::Uint8)?));
    }
    let x = ops::reshape(&astype(w, Dtype::Float32)?, &in_groups(w, group))?;
    let largest = ops::max(&ops::abs(&x)?, &[-1], true)?;
    let wanted = ops::divide(&largest, mode.largest())?;
    let (scales, factor) = match mode {
        FpMode::Nvfp4 => fp8_scales(&wanted, global_scale)?,
        FpMode::Mxfp4 | FpMode::Mxfp8 => power_scales(&wanted)?,
    };
    let x = ops::multiply(&x, &factor)?;
    let packed = match mode {
        FpMode::Mxfp8 => view(&ops::contiguous(&to_fp8(&x)?, false)?, Dtype::Uint32)?,
        FpMode::Mxfp4 | FpMode::Nvfp4 => pack_fp4(&x)?,
    };
    Ok((ops::reshape(&packed, &words)?, ops::reshape(&scales, &groups)?))
}

/// e4m3 scales of these sizes, and what elements are multiplied with; zero where a scale is zero.
fn fp8_scales(wanted: &Array, global: Option<&Array>) -> Result<(Array, Array)> {
    let encode = match global {
        Some(global) => ops::divide(LARGEST, &ops::reshape(global, &[])?)?,
        None => Array::scalar(1.0f32)?,
    };
    let scales = to_fp8(&ops::multiply(wanted, &encode)?)?;
    let value = from_fp8(&scales, Dtype::Float32)?;
    let zero = Array::scalar(0.0f32)?;
    let factor = ops::where_(&ops::equal(&value, &zero)?, &zero, ops::divide(&encode, &value)?)?;
    Ok((scales, factor))
}

/// Exponents of the smallest powers of two that these sizes do not exceed, biased by 127; and the
/// reciprocal powers. Zero has the exponent of one.
fn power_scales(wanted: &Array) -> Result<(Array, Array)> {
    let word = |value: u32| Array::scalar(value);
    let bits = view(wanted, Dtype::Uint32)?;
    // Any bit of the mantissa carries into the exponent.
    let carried = ops::add(&bits, &word((1 << 23) - 1)?)?;
    let exponent = ops::minimum(&ops::right_shift(&carried, &word(23)?)?, &word(253)?)?;
    let zero = ops::equal(wanted, 0.0)?;
    let exponent = ops::where_(&zero, &word(127)?, &exponent)?;
    let reciprocal = ops::left_shift(&ops::subtract(&word(254)?, &exponent)?, &word(23)?)?;
    Ok((astype(&exponent, Dtype::Uint8)?, view(&reciprocal, Dtype::Float32)?))
}

/// The nearest e2m1 codes, ties to even, eight to a word.
fn pack_fp4(x: &Array) -> Result<Array> {
    let size = ops::abs(x)?;
    let above = |limit: f32, or_equal: bool| {
        let hit = match or_equal {
            true => ops::greater_equal(&size, limit),
            false => ops::greater(&size, limit),
        };
        astype(&hit?, Dtype::Uint32)
    };
    // Ties go to the code whose last bit is zero.
    let mut code = above(0.25, false)?;
    let limits =
        [(0.75, true), (1.25, false), (1.75, true), (2.5, false), (3.5, true), (5.0, false)];
    for (limit, or_equal) in limits {
        code = ops::add(&code, &above(limit, or_equal)?)?;
    }
    let bits = view(x, Dtype::Uint32)?;
    let sign = ops::right_shift(&bits, &Array::scalar(31u32)?)?;
    let code = ops::add(&code, &ops::left_shift(&sign, &Array::scalar(3u32)?)?)?;
    let shifts = Array::from_slice(&[0u32, 4, 8, 12, 16, 20, 24, 28], &[8])?;
    let fields = ops::left_shift(&ops::reshape(&code, &[-1, 8])?, &shifts)?;
    ops::sum(&fields, &[-1], false)
}

/// Checks words and scales; returns the number of elements of a row.
fn columns(op: &'static str, w: &Array, scales: &Array, mode: FpMode) -> Result<usize> {
    let invalid = |message: String| Err(Error::invalid(op, message));
    if scales.dtype() != Dtype::Uint8 {
        return invalid(format!("Scale type must be uint8 but received type {}.", scales.dtype()));
    }
    if w.dtype() != Dtype::Uint32 {
        return invalid("The matrix should be given as a uint32".into());
    }
    if w.ndim() < 2 {
        return invalid(format!(
            "The matrix to be dequantized must have at least 2 dimension but it has only {}.",
            w.ndim()
        ));
    }
    let rows = |a: &Array| a.shape()[..a.ndim() - 1].to_vec();
    let columns = w.dim(-1) * 32 / mode.bits();
    if scales.ndim() != w.ndim() || rows(scales) != rows(w) {
        return invalid("Shape of scales does not match the matrix".into());
    }
    if columns != scales.dim(-1) * mode.group_size() {
        return invalid(format!(
            "Shape of scales does not match the matrix given the quantization parameters. Provided \
             matrix of shape {:?} and scales of shape {:?}.",
            w.shape(),
            scales.shape()
        ));
    }
    Ok(columns)
}

/// Undoes [`fp_quantize`]: products of elements and scales in float32, rounded to `dtype`.
///
/// # Errors
/// When shapes or dtypes do not fit together.
pub fn fp_dequantize(
    w: &Array,
    scales: &Array,
    mode: FpMode,
    global_scale: Option<&Array>,
    dtype: Dtype,
) -> Result<Array> {
    let op = "dequantize";
    columns(op, w, scales, mode)?;
    check_global(op, mode, global_scale)?;
    if !dtype.is_floating() {
        let message =
            format!("Only real floating types are supported but output dtype == {dtype}.");
        return Err(Error::invalid(op, message));
    }
    let elements = |dtype| {
        ops::node(QuantizedOp::DequantizeFloats { mode, dtype }, [w.clone(), scales.clone()])
    };
    match global_scale {
        None => elements(dtype),
        Some(global) => {
            astype(&ops::multiply(&elements(Dtype::Float32)?, &global_factor(global)?)?, dtype)
        }
    }
}

/// What a global scale multiplies elements with.
fn global_factor(global: &Array) -> Result<Array> {
    ops::divide(&ops::reshape(global, &[])?, LARGEST)
}

/// `x @ w` (or `x @ wᵀ` with `transpose`) where `w` is quantized along its last axis; in the dtype
/// of `x`, sums in float32 at least.
///
/// # Errors
/// When shapes or dtypes do not fit together.
pub fn fp_quantized_matmul(
    x: &Array,
    w: &Array,
    scales: &Array,
    transpose: bool,
    mode: FpMode,
) -> Result<Array> {
    let op = "quantized_matmul";
    check_floating(op, x)?;
    let columns = columns(op, w, scales, mode)?;
    product(op, x, &[w, scales], mode.into(), transpose, columns)
}

fn check_floating(op: &'static str, x: &Array) -> Result<()> {
    match x.dtype() {
        dtype if dtype.is_floating() => Ok(()),
        dtype => {
            let message =
                format!("Only real floating types are supported but x.dtype() == {dtype}.");
            Err(Error::invalid(op, message))
        }
    }
}

/// [`fp_quantized_matmul`] with matrices that indices pick, as [`ops::gather_mm`].
///
/// # Errors
/// When shapes or dtypes do not fit together.
pub fn fp_gather_qmm(
    x: &Array,
    w: &Array,
    scales: &Array,
    picks: Picks<'_>,
    transpose: bool,
    mode: FpMode,
    global_scale: Option<&Array>,
) -> Result<Array> {
    let op = "gather_qmm";
    check_floating(op, x)?;
    let columns = columns(op, w, scales, mode)?;
    check_global(op, mode, global_scale)?;
    let of = |x: &Array| match (picks.lhs, picks.rhs) {
        (None, None) => product(op, x, &[w, scales], mode.into(), transpose, columns),
        _ => gathered(x, &[w, scales], picks, mode.into(), transpose, columns),
    };
    let Some(global) = global_scale else { return of(x) };
    // The global scale is rounded to float32, and the product once to the dtype of x.
    let sums = of(&astype(x, x.dtype().promote(Dtype::Float32))?)?;
    astype(&ops::multiply(&sums, &global_factor(global)?)?, x.dtype())
}

fn turned(w: &Array, transpose: bool) -> Result<Array> {
    if transpose { ops::swapaxes(w, -1, -2) } else { Ok(w.clone()) }
}

/// A quantized operand: packed words with their scales, or an array that is quantized on the way.
#[derive(Debug, Clone, Copy)]
pub struct Packed<'a> {
    /// Words, or the array.
    pub w: &'a Array,
    /// Scales of words.
    pub scales: Option<&'a Array>,
}

/// The global scales of both operands of [`qqmm`]: of `x`, then of `w`.
pub type GlobalScales<'a> = Option<(&'a Array, &'a Array)>;

/// Quantized and dequantized again.
fn coarsened(x: &Array, mode: FpMode, global: Option<&Array>) -> Result<Array> {
    let (words, scales) = fp_quantize(x, mode, global)?;
    fp_dequantize(&words, &scales, mode, global, Dtype::Float32)
}

/// Both operands as the float32 numbers that they are quantized to.
fn operands(
    op: &'static str,
    x: &Array,
    w: Packed<'_>,
    mode: FpMode,
    global: GlobalScales<'_>,
) -> Result<(Array, Array)> {
    for array in [x, w.w] {
        let quantized = std::ptr::eq(array, w.w) && array.dtype() == Dtype::Uint32;
        if !quantized && (!array.dtype().is_floating() || array.dtype() == Dtype::Float64) {
            let message = format!(
                "Only real floating types except float64 are supported but an argument has dtype {}.",
                array.dtype()
            );
            return Err(Error::invalid(op, message));
        }
    }
    let left = coarsened(x, mode, global.map(|(x, _)| x))?;
    let global = global.map(|(_, w)| w);
    let right = match (w.w.dtype(), w.scales) {
        (Dtype::Uint32, Some(scales)) => fp_dequantize(w.w, scales, mode, global, Dtype::Float32)?,
        (Dtype::Uint32, None) => {
            let message = "Scales must be provided if second argument is quantized.";
            return Err(Error::invalid(op, message));
        }
        _ => coarsened(w.w, mode, global)?,
    };
    if left.dim(-1) != right.dim(-1) {
        let message = format!(
            "Last dimension of first input with shape {:?} must match last dimension of second input \
             with shape {:?}.",
            x.shape(),
            right.shape()
        );
        return Err(Error::invalid(op, message));
    }
    Ok((left, right))
}

/// `x @ wᵀ` with both operands quantized; `w` is a matrix. The result has the dtype of `x`.
///
/// # Errors
/// When shapes or dtypes do not fit together.
pub fn qqmm(x: &Array, w: Packed<'_>, mode: FpMode, global: GlobalScales<'_>) -> Result<Array> {
    let op = "qqmm";
    if w.w.ndim() != 2 {
        let message = format!(
            "Only 2D inputs are supported but x.ndim() == {} and w.ndim() == {}.",
            x.ndim(),
            w.w.ndim()
        );
        return Err(Error::invalid(op, message));
    }
    let rows = if x.ndim() == 1 { ops::expand_dims(x, &[0])? } else { x.clone() };
    let (left, right) = operands(op, &rows, w, mode, global)?;
    let out = astype(&ops::matmul(&left, &turned(&right, true)?)?, x.dtype())?;
    if x.ndim() == 1 { ops::squeeze(&out, &[0]) } else { Ok(out) }
}

/// [`qqmm`] with matrices that indices pick, as [`ops::gather_mm`].
///
/// # Errors
/// When shapes or dtypes do not fit together.
pub fn gather_qqmm(
    x: &Array,
    w: Packed<'_>,
    picks: Picks<'_>,
    mode: FpMode,
    global: GlobalScales<'_>,
) -> Result<Array> {
    let (left, right) = operands("gather_qqmm", x, w, mode, global)?;
    let right = turned(&right, true)?;
    astype(&ops::gather_mm(&left, &right, picks.lhs, picks.rhs, picks.sorted)?, x.dtype())
}
