//! Padding.

use crate::{
    Array, Error, Result,
    ops::{self, Operand, astype, take},
    primitives::ShapeOp,
};

/// `a` with elements before and behind each axis: `pad_width` has a pair for each axis, or one for
/// all. `mode` says which elements: `"constant"` are `constant_values`; `"edge"` repeats the outermost
/// element; `"reflect"` goes back from it and forth again without repeating it, `"symmetric"` with
/// repeating it.
///
/// # Errors
/// When there is another number of pairs or another mode, or an axis without elements is to be
/// reflected.
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
        "edge" => by_index(a, pad_width, mode, |i, n| i.clamp(0, n - 1)),
        "reflect" => by_index(a, pad_width, mode, |i, n| {
            let period = (2 * n - 2).max(1);
            let i = i.rem_euclid(period);
            i.min(period - i).min(n - 1)
        }),
        "symmetric" => by_index(a, pad_width, mode, |i, n| {
            let i = i.rem_euclid(2 * n);
            i.min(2 * n - 1 - i)
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

/// Each axis by the indices that `source(i, n)` gives for position `i`, which is outside of `0..n`
/// where there was no element.
fn by_index(
    a: &Array,
    pad_width: &[(usize, usize)],
    mode: &str,
    source: impl Fn(isize, isize) -> isize,
) -> Result<Array> {
    let mut padded = a.clone();
    for (axis, &(low, high)) in pad_width.iter().enumerate().filter(|(_, p)| **p != (0, 0)) {
        let n = a.shape()[axis] as isize;
        // There is no outermost element; MLX takes zeros from the other side if that has any.
        if n == 0 && mode == "edge" && low > 0 && high > 0 {
            return around(a, pad_width, &Array::scalar(0i32)?);
        }
        if n == 0 {
            let message = format!("Cannot pad empty axis {axis} using mode '{mode}'.");
            return Err(Error::invalid("pad", message));
        }
        let positions = -(low as isize)..n + high as isize;
        let indices: Vec<u32> = positions.map(|i| source(i, n) as u32).collect();
        padded = take(&padded, &Array::from_slice(&indices, &[indices.len()])?, axis as isize)?;
    }
    Ok(padded)
}
