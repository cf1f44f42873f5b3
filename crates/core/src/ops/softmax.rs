//! Softmax and its logarithm.

use crate::{
    Array, Dtype, Error, Result,
    ops::{self, astype, moveaxis, normalize_axes, squeeze},
    primitives::SoftmaxOp,
    transforms::trace,
};

/// `exp(a) / sum(exp(a))` over axes (all when empty), without overflow. `precise` accumulates
/// half precision in float32.
///
/// # Errors
/// When an axis is out of bounds or given twice.
pub fn softmax(a: &Array, axes: &[isize], precise: bool) -> Result<Array> {
    if a.size() == 0 {
        return Ok(a.clone());
    }
    let a = astype(a, a.dtype().at_least_float())?;
    let normalized = normalize_axes("softmax", axes, a.ndim())?;
    // What joins axes cannot take them apart again when their sizes are not known.
    if !a.dtype().is_floating() || normalized.len() > 1 && trace::is_shapeless() {
        return composed_softmax(&a, axes, precise);
    }
    over_last_axis(&a, &normalized, |rows| {
        ops::node(SoftmaxOp::Softmax { precise }, [rows.clone()])
    })
}

/// In operations for any dtype and axes; the largest is taken off first.
fn composed_softmax(a: &Array, axes: &[isize], precise: bool) -> Result<Array> {
    let wide = if precise { astype(a, a.dtype().promote(Dtype::Float32))? } else { a.clone() };
    let largest = ops::stop_gradient(&ops::max(&wide, axes, true)?)?;
    let exponentials = ops::exp(&ops::subtract(&wide, &largest)?)?;
    let parts = ops::divide(&exponentials, &ops::sum(&exponentials, axes, true)?)?;
    astype(&parts, a.dtype())
}

/// Log of the sum of exponentials over axes (all when empty), without overflow.
///
/// # Errors
/// When the array is empty, or an axis is out of bounds or given twice.
pub fn logsumexp(a: &Array, axes: &[isize], keepdims: bool) -> Result<Array> {
    if a.size() == 0 {
        return Err(Error::invalid("logsumexp", "Received empty array."));
    }
    let a = astype(a, a.dtype().at_least_float())?;
    let normalized = normalize_axes("logsumexp", axes, a.ndim())?;
    if a.ndim() == 0 {
        return Ok(a);
    }
    let axes: Vec<isize> = normalized.iter().map(|&x| x as isize).collect();
    let rows = a.dtype().is_floating() && reduces_rows(&a, &normalized);
    let reduced =
        if rows { ops::node(SoftmaxOp::LogSumExp, [a])? } else { composed_logsumexp(&a, &axes)? };
    if keepdims { Ok(reduced) } else { squeeze(&reduced, &axes) }
}

/// Whether `axes` are the last one, and others of one element. These may have more for a trace's next call.
fn reduces_rows(a: &Array, axes: &[usize]) -> bool {
    match axes {
        [others @ .., last] if *last == a.ndim() - 1 => {
            others.is_empty() || !a.is_tracer() && others.iter().all(|&axis| a.shape()[axis] == 1)
        }
        _ => false,
    }
}

/// Several axes at once: the maximum is taken off first, unless it is infinite.
fn composed_logsumexp(a: &Array, axes: &[isize]) -> Result<Array> {
    let max = ops::max(a, axes, true)?;
    let finite = ops::where_(&ops::isfinite(&max)?, &max, &ops::zeros_like(&max)?)?;
    let total = ops::sum(&ops::exp(&ops::subtract(a, &finite)?)?, axes, true)?;
    ops::add(&ops::log(&total)?, &finite)
}

/// Moves the axes to the end, joins them, applies `f` to the rows and moves them back.
fn over_last_axis(a: &Array, axes: &[usize], f: impl Fn(&Array) -> Result<Array>) -> Result<Array> {
    match *axes {
        [] => f(&ops::reshape(a, &[1])?).and_then(|r| ops::reshape(&r, &[])),
        [axis] if axis == a.ndim() - 1 => f(a),
        [axis] => {
            let rows = moveaxis(a, axis as isize, -1)?;
            moveaxis(&f(&rows)?, -1, axis as isize)
        }
        _ => over_several_axes(a, axes, f),
    }
}

fn over_several_axes(
    a: &Array,
    axes: &[usize],
    f: impl Fn(&Array) -> Result<Array>,
) -> Result<Array> {
    let kept = (0..a.ndim()).filter(|x| !axes.contains(x));
    let order: Vec<isize> = kept.chain(axes.iter().copied()).map(|x| x as isize).collect();
    let moved = ops::transpose(a, &order)?;
    let rows = ops::flatten(&moved, (a.ndim() - axes.len()) as isize, -1)?;
    let shape: Vec<isize> = moved.shape().iter().map(|&d| d as isize).collect();
    let result = ops::reshape(&f(&rows)?, &shape)?;
    let mut inverse = vec![0isize; order.len()];
    order.iter().enumerate().for_each(|(i, &x)| inverse[x as usize] = i as isize);
    ops::transpose(&result, &inverse)
}
