//! Padding.

use smallvec::smallvec;

use crate::{
    Array, Dtype, Error, Result,
    ops::{self, Operand, astype, take},
    primitives::{Arange, ShapeOp},
    transforms::trace::is_shapeless,
};

/// `a` with elements before and behind each axis: `pad_width` has a pair for each axis, or one for
/// all. `mode` says which elements: `"constant"` are `constant_values`; `"edge"` repeats the outermost
/// element; `"reflect"` goes back from it and forth again without repeating it, `"symmetric"` with
/// repeating it.
///
/// # Errors
/// When there is another number of pairs or another mode, an axis without elements is to be reflected, an
/// axis gets too long, or the dtype has not an integer that is given as the value.
pub fn pad(
    a: &Array,
    pad_width: &[(usize, usize)],
    mode: &str,
    constant_values: impl Operand,
) -> Result<Array> {
    let every = vec![pad_width.first().copied().unwrap_or_default(); a.ndim()];
    let pad_width = if pad_width.len() == 1 { &every } else { pad_width };
    if pad_width.len() != a.ndim() {
        let message =
            format!("Invalid number of padding sizes passed to pad with axes of size {}", a.ndim());
        return Err(Error::invalid("pad", message));
    }
    match mode {
        "constant" => around(a, pad_width, &constant_values.to_array(Some(a.dtype()))?),
        "edge" => by_index(a, pad_width, mode, |i, n| {
            ops::minimum(ops::maximum(i, 0)?, number(n - 1, i)?)
        }),
        "reflect" => by_index(a, pad_width, mode, |i, n| {
            let period = number((2 * n - 2).max(1), i)?;
            let i = ops::remainder(i, &period)?;
            ops::minimum(ops::minimum(&i, ops::subtract(period, &i)?)?, number(n - 1, &i)?)
        }),
        "symmetric" => by_index(a, pad_width, mode, |i, n| {
            let i = ops::remainder(i, number(2 * n, i)?)?;
            ops::minimum(&i, ops::subtract(number(2 * n - 1, &i)?, &i)?)
        }),
        _ => Err(Error::invalid("pad", format!("Invalid padding mode ({mode}) passed to pad"))),
    }
}

/// `a` in the middle of an array of one value.
fn around(a: &Array, pad_width: &[(usize, usize)], value: &Array) -> Result<Array> {
    if pad_width.iter().all(|&pad| pad == (0, 0)) {
        return Ok(a.clone());
    }
    // Of an array of values upstream takes the first one.
    let value = match (value.ndim(), value.size()) {
        (0, _) => value.clone(),
        (_, 0) => return Err(Error::invalid("pad", "The padding value has no elements.")),
        _ => take(&ops::flatten(value, 0, -1)?, &Array::scalar(0i32)?, 0)?,
    };
    let (low, high) = pad_width.iter().copied().unzip();
    ops::node(ShapeOp::Pad { low, high }, [a.clone(), astype(&value, a.dtype())?])
}

/// Each axis by the indices that `source(i, n)` gives for positions `i`, which are outside of `0..n`
/// where there was no element. They are computed like all else, since there may be more than memory holds.
fn by_index(
    a: &Array,
    pad_width: &[(usize, usize)],
    mode: &str,
    source: impl Fn(&Array, isize) -> Result<Array>,
) -> Result<Array> {
    if pad_width.iter().all(|&pad| pad == (0, 0)) {
        return Ok(a.clone());
    }
    let mut padded = whole(a)?;
    for (axis, &(low, high)) in pad_width.iter().enumerate().filter(|(_, p)| **p != (0, 0)) {
        let n = a.shape()[axis];
        // There is no outermost element; MLX takes zeros from the other side if that has any.
        if n == 0 && mode == "edge" && low > 0 && high > 0 {
            return around(a, pad_width, &Array::scalar(0i32)?);
        }
        if n == 0 {
            let message = format!("Cannot pad empty axis {axis} using mode '{mode}'.");
            return Err(Error::invalid("pad", message));
        }
        let size = low.checked_add(n).and_then(|size| size.checked_add(high));
        let Some(size) = size.filter(|&size| size < MOST) else {
            let message = format!("Cannot pad axis {axis} of size {n} by ({low}, {high}).");
            return Err(Error::invalid("pad", message));
        };
        let dtype = if 2 * size < i32::MAX as usize { Dtype::Int32 } else { Dtype::Int64 };
        let positions = Arange { start: (-(low as f64)).into(), step: 1.0.into(), size, dtype };
        let positions = ops::node(positions, [])?;
        padded = take(&padded, &source(&positions, n as isize)?, axis as isize)?;
    }
    Ok(padded)
}

/// A number beside indices.
fn number(value: isize, indices: &Array) -> Result<Array> {
    Array::scalar_of(value as f64, indices.dtype())
}

/// The elements of an axis of numbers that float64 has all of.
const MOST: usize = 1 << 52;

/// `a`. In a function of arguments of any sizes it is a slice, as upstream pads by slices: it says that what
/// follows is for these sizes alone.
fn whole(a: &Array) -> Result<Array> {
    if !is_shapeless() {
        return Ok(a.clone());
    }
    let (start, strides) = (smallvec![0; a.ndim()], smallvec![1; a.ndim()]);
    ops::node(ShapeOp::Slice { start, strides, sizes: a.shape().into() }, [a.clone()])
}
