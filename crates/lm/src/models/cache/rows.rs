//! Keys or values of one layer: a buffer that grows by blocks and is written in place.

use std::ops::Range;

use mlx::{Array, Result, ops};

use crate::config::Quantization;

/// Tokens by which a layer's cache grows.
const GROWTH: usize = 256;

/// Keys or values, dense or quantized along their features.
#[derive(Clone)]
pub(super) enum Rows {
    Dense(Option<Array>),
    /// Words, scales and biases.
    Quantized([Option<Array>; 3], Quantization),
}

impl Default for Rows {
    fn default() -> Self {
        Rows::Dense(None)
    }
}

/// A view of keys or values that are filled.
#[derive(Clone)]
pub(crate) enum Filled {
    /// (batch, kv heads, tokens, features).
    Dense(Array),
    /// The same in words, scales and biases.
    Quantized([Array; 3], Quantization),
}

impl Rows {
    pub(super) fn arrays(&self) -> impl Iterator<Item = &Array> {
        let parts = match self {
            Rows::Dense(rows) => std::slice::from_ref(rows),
            Rows::Quantized(parts, _) => parts,
        };
        parts.iter().flatten()
    }

    /// Tokens that there is room for.
    pub(super) fn capacity(&self) -> usize {
        self.arrays().next().map_or(0, |rows| rows.dim(2))
    }

    /// Adds `new` behind the rows `kept`, and returns a view of it and the `seen` rows before it.
    pub(super) fn append(
        &mut self,
        new: &Array,
        kept: Range<usize>,
        seen: usize,
    ) -> Result<Filled> {
        let append = |slot: &mut Option<Array>, new: &Array| append(slot, new, &kept, seen);
        match self {
            Rows::Dense(rows) => Ok(Filled::Dense(append(rows, new)?)),
            Rows::Quantized([words, scales, biases], format) => {
                let (w, s, b) = ops::quantize(new, format.group_size, format.bits)?;
                let filled = [append(words, &w)?, append(scales, &s)?, append(biases, &b)?];
                Ok(Filled::Quantized(filled, *format))
            }
        }
    }

    pub(super) fn quantize(&mut self, format: Quantization) -> Result<()> {
        if let Rows::Dense(rows) = self {
            let parts = match rows {
                Some(rows) => {
                    let (w, s, b) = ops::quantize(rows, format.group_size, format.bits)?;
                    [Some(w), Some(s), Some(b)]
                }
                None => [None, None, None],
            };
            *self = Rows::Quantized(parts, format);
        }
        Ok(())
    }
}

/// Writes `new` behind the rows `kept` of `slot`, growing it where needed, and returns a view of it and the
/// `seen` rows before it. If rows before `kept` are to be forgotten, `new` must need more room than there is.
///
/// The slot's array is consumed by the update, so that nothing else refers to its buffer when the
/// update runs and it happens in place.
fn append(
    slot: &mut Option<Array>,
    new: &Array,
    kept: &Range<usize>,
    seen: usize,
) -> Result<Array> {
    let at = kept.len();
    let end = (at + new.dim(2)) as isize;
    let buffer = grown(slot.take(), new, kept)?;
    let start = [0, 0, at as isize, 0];
    let mut stop: [isize; 4] = std::array::from_fn(|axis| buffer.shape()[axis] as isize);
    stop[2] = end;
    let updated = ops::slice_update(&buffer, new, &start, &stop, &[1; 4])?;
    drop(buffer);
    let view = ops::slice_axis(&updated, 2, (at - seen) as isize, end)?;
    *slot = Some(updated);
    Ok(view)
}

/// The buffer with room for `new` behind the rows `kept`, which come first.
fn grown(buffer: Option<Array>, new: &Array, kept: &Range<usize>) -> Result<Array> {
    let capacity = buffer.as_ref().map_or(0, |b| b.dim(2));
    if let Some(buffer) = buffer.as_ref().filter(|_| kept.end + new.dim(2) <= capacity) {
        return Ok(buffer.clone());
    }
    let mut shape = [0, 1, 2, 3].map(|axis| new.dim(axis));
    shape[2] = new.dim(2).next_multiple_of(GROWTH);
    let room = ops::zeros(&shape, new.dtype())?;
    match buffer {
        None => Ok(room),
        Some(old) if *kept == (0..capacity) => ops::concatenate(&[&old, &room], 2),
        Some(old) => {
            let rows = ops::slice_axis(&old, 2, kept.start as isize, kept.end as isize)?;
            ops::concatenate(&[&rows, &room], 2)
        }
    }
}
