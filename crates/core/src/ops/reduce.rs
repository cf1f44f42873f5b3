//! Reductions. An empty list of axes means all axes.

use crate::{
    Array, Dtype, Error, Result,
    ops::{self, astype, normalize_axes, normalize_axis, squeeze},
    primitives::{ArgReduce, ArgReduceOp, Reduce, ReduceOp},
    transforms::trace,
};

/// Reduces in `dtype`.
fn apply(
    name: &'static str,
    a: &Array,
    axes: &[isize],
    keepdims: bool,
    op: ReduceOp,
    dtype: Dtype,
) -> Result<Array> {
    let axes = normalize_axes(name, axes, a.ndim())?;
    if axes.is_empty() {
        return astype(a, dtype);
    }
    let signed: Vec<isize> = axes.iter().map(|&x| x as isize).collect();
    let reduced = ops::node(Reduce { op, axes }, [astype(a, dtype)?])?;
    if keepdims { Ok(reduced) } else { squeeze(&reduced, &signed) }
}

/// Integers and bools shorter than 32 bits sum as int32 (unsigned as uint32), unless they are a
/// scalar, of which there is nothing to sum, as in MLX.
fn sum_dtype(a: &Array) -> Dtype {
    match a.dtype() {
        dtype if a.ndim() == 0 => dtype,
        Dtype::Bool | Dtype::Int8 | Dtype::Int16 => Dtype::Int32,
        Dtype::Uint8 | Dtype::Uint16 => Dtype::Uint32,
        other => other,
    }
}

/// Sum. Small integers sum in 32 bits.
///
/// # Errors
/// When an axis is out of bounds or given twice.
pub fn sum(a: &Array, axes: &[isize], keepdims: bool) -> Result<Array> {
    let out = sum_dtype(a);
    apply("sum", a, axes, keepdims, ReduceOp::Sum, out)
}

/// Product. Small integers multiply in 32 bits.
///
/// # Errors
/// When an axis is out of bounds or given twice.
pub fn prod(a: &Array, axes: &[isize], keepdims: bool) -> Result<Array> {
    let out = sum_dtype(a);
    apply("prod", a, axes, keepdims, ReduceOp::Prod, out)
}

/// Largest element; NaN if there is one.
///
/// # Errors
/// When an axis is out of bounds or given twice, or has no elements.
pub fn max(a: &Array, axes: &[isize], keepdims: bool) -> Result<Array> {
    refuse_empty("max", a, axes)?;
    apply("max", a, axes, keepdims, ReduceOp::Max, a.dtype())
}

/// Smallest element; NaN if there is one.
///
/// # Errors
/// When an axis is out of bounds or given twice, or has no elements.
pub fn min(a: &Array, axes: &[isize], keepdims: bool) -> Result<Array> {
    refuse_empty("min", a, axes)?;
    apply("min", a, axes, keepdims, ReduceOp::Min, a.dtype())
}

/// There is no extreme of nothing; axes that stay may well be empty.
fn refuse_empty(name: &'static str, a: &Array, axes: &[isize]) -> Result<()> {
    let axes = normalize_axes(name, axes, a.ndim())?;
    match axes.iter().find(|&&x| a.shape()[x] == 0) {
        None => Ok(()),
        Some(axis) => {
            let message = format!("Cannot {name} reduce over axis {axis} with size 0.");
            Err(Error::invalid(name, message))
        }
    }
}

/// Whether all elements are nonzero.
///
/// # Errors
/// When an axis is out of bounds or given twice.
pub fn all(a: &Array, axes: &[isize], keepdims: bool) -> Result<Array> {
    apply("all", a, axes, keepdims, ReduceOp::All, Dtype::Bool)
}

/// Whether any element is nonzero.
///
/// # Errors
/// When an axis is out of bounds or given twice.
pub fn any(a: &Array, axes: &[isize], keepdims: bool) -> Result<Array> {
    apply("any", a, axes, keepdims, ReduceOp::Any, Dtype::Bool)
}

/// Mean; integers become float32.
///
/// # Errors
/// When an axis is out of bounds or given twice.
pub fn mean(a: &Array, axes: &[isize], keepdims: bool) -> Result<Array> {
    let dtype = a.dtype().at_least_float();
    let total = sum(&astype(a, dtype)?, axes, keepdims)?;
    ops::multiply(&total, &ops::number_of_elements(a, axes, true, dtype)?)
}

/// Variance with `ddof` degrees of freedom taken off, NaN or infinite if none is left; integers
/// become float32. That of complex numbers is real.
///
/// # Errors
/// When an axis is out of bounds or given twice.
pub fn var(a: &Array, axes: &[isize], keepdims: bool, ddof: isize) -> Result<Array> {
    let a = astype(a, a.dtype().at_least_float())?;
    let centred = ops::subtract(&a, &mean(&a, axes, true)?)?;
    let sizes = if centred.dtype() == Dtype::Complex64 { ops::abs(&centred)? } else { centred };
    let total = sum(&ops::square(&sizes)?, axes, keepdims)?;
    // float16 ends at 65,504 elements.
    let dtype = total.dtype();
    let (left, wide) = if trace::is_shapeless() {
        let wide = if dtype == Dtype::Float16 { Dtype::Float32 } else { dtype };
        let count = ops::number_of_elements(&a, axes, false, wide)?;
        (ops::maximum(&ops::subtract(&count, ddof as f64)?, 0.0)?, wide)
    } else {
        let axes = normalize_axes("var", axes, a.ndim())?;
        let count: usize = axes.iter().map(|&x| a.shape()[x]).product();
        let is_wide = dtype == Dtype::Float16 && count > MOST_HALVES;
        let wide = if is_wide { Dtype::Float32 } else { dtype };
        (Array::scalar_of((count as isize).saturating_sub(ddof).max(0) as f64, wide)?, wide)
    };
    astype(&ops::divide(&astype(&total, wide)?, &left)?, dtype)
}

/// The largest count that float16 has.
const MOST_HALVES: usize = 65_504;

/// Standard deviation: the square root of [`var`].
///
/// # Errors
/// When an axis is out of bounds or given twice.
pub fn std(a: &Array, axes: &[isize], keepdims: bool, ddof: isize) -> Result<Array> {
    ops::sqrt(&var(a, axes, keepdims, ddof)?)
}

/// Smallest and largest element: [`min`] and [`max`].
///
/// # Errors
/// When an axis is out of bounds or given twice, or there are no elements.
pub fn minmax(a: &Array, axes: &[isize], keepdims: bool) -> Result<(Array, Array)> {
    Ok((min(a, axes, keepdims)?, max(a, axes, keepdims)?))
}

/// Number (int32) of elements that are not zero.
///
/// # Errors
/// When an axis is out of bounds or given twice.
pub fn count_nonzero(a: &Array, axes: &[isize], keepdims: bool) -> Result<Array> {
    let nonzero = ops::not_equal(a, &Array::scalar_of(0.0, a.dtype())?)?;
    sum(&astype(&nonzero, Dtype::Int32)?, axes, keepdims)
}

/// Median: the middle element in ascending order, or the mean of the two in the middle; NaN if
/// there is one. Integers become float32.
///
/// # Errors
/// When an axis is out of bounds or given twice, or there are no elements along them.
pub fn median(a: &Array, axes: &[isize], keepdims: bool) -> Result<Array> {
    let axes = normalize_axes("median", axes, a.ndim())?;
    let dtype = a.dtype().at_least_float();
    let kept = (0..a.ndim()).filter(|x| !axes.contains(x));
    let order: Vec<isize> = kept.chain(axes.iter().copied()).map(|x| x as isize).collect();
    let first = a.ndim() - axes.len();
    let mut shape: Vec<isize> = order[..first].iter().map(|&x| a.dim(x) as isize).collect();
    let n = axes.iter().map(|&x| a.shape()[x]).product::<usize>() as isize;
    shape.push(n);
    if n == 0 {
        return Err(Error::invalid("median", "Cannot take median along empty axis."));
    }
    let moved = if a.ndim() > 1 { ops::transpose(a, &order)? } else { a.clone() };
    let rows = ops::reshape(&moved, &shape)?;
    let sorted = ops::sort(&rows, -1)?;
    let at = |i: isize| astype(&ops::slice_axis(&sorted, -1, i, i + 1)?, dtype);
    let mut middle = at(n / 2)?;
    if n % 2 == 0 {
        middle = ops::multiply(&ops::add(&middle, &at(n / 2 - 1)?)?, 0.5f32)?;
    }
    if a.dtype().is_inexact() {
        let unknown = any(&ops::isnan(&rows)?, &[-1], true)?;
        middle = ops::where_(&unknown, &Array::scalar_of(f64::NAN, dtype)?, &middle)?;
    }
    let middle = squeeze(&middle, &[-1])?;
    match keepdims {
        true => ops::expand_dims(&middle, &axes.iter().map(|&x| x as isize).collect::<Vec<_>>()),
        false => Ok(middle),
    }
}

/// Index of an extreme along an axis, or in the flattened array.
fn arg_reduce(
    name: &'static str,
    a: &Array,
    axis: Option<isize>,
    keepdims: bool,
    op: ArgReduceOp,
) -> Result<Array> {
    if a.size() == 0 {
        return Err(Error::invalid(name, format!("Cannot {name} reduce zero size array.")));
    }
    let Some(axis) = axis else {
        let flat = ops::flatten(a, 0, -1)?;
        let index = arg_reduce(name, &flat, Some(0), true, op)?;
        return ops::reshape(&index, &vec![1; if keepdims { a.ndim() } else { 0 }]);
    };
    let axis = normalize_axis(name, axis, a.ndim())?;
    ops::expect_indices(name, a, axis)?;
    let index = ops::node(ArgReduce { op, axis }, [a.clone()])?;
    if keepdims { Ok(index) } else { squeeze(&index, &[axis as isize]) }
}

/// First index (uint32) of the largest element, along an axis or in the flattened array.
///
/// # Errors
/// When the axis is out of bounds, or there are no elements, or more than uint32 has indices for.
pub fn argmax(a: &Array, axis: Option<isize>, keepdims: bool) -> Result<Array> {
    arg_reduce("argmax", a, axis, keepdims, ArgReduceOp::ArgMax)
}

/// First index (uint32) of the smallest element, along an axis or in the flattened array.
///
/// # Errors
/// When the axis is out of bounds, or there are no elements, or more than uint32 has indices for.
pub fn argmin(a: &Array, axis: Option<isize>, keepdims: bool) -> Result<Array> {
    arg_reduce("argmin", a, axis, keepdims, ArgReduceOp::ArgMin)
}
