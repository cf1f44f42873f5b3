//! The key/value cache: grows by blocks and is written in place.

use mlx::{Array, Result, ops};

use crate::config::Quantization;

/// Tokens by which a layer's cache grows.
const GROWTH: usize = 256;

/// Keys and values of all layers for the tokens seen so far.
#[derive(Clone, Default)]
pub struct Cache {
    layers: Vec<Layer>,
}

/// Keys and values of one layer, (batch, kv heads, capacity, features); the first `len` tokens
/// are filled.
#[derive(Clone, Default)]
pub(crate) struct Layer {
    keys: Rows,
    values: Rows,
    len: usize,
}

/// Keys or values, dense or quantized along their features.
#[derive(Clone)]
enum Rows {
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

impl Cache {
    /// An empty cache.
    pub fn new(layers: usize) -> Self {
        Self { layers: vec![Layer::default(); layers] }
    }

    /// Tokens seen so far.
    pub fn len(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.len)
    }

    /// Whether no token was seen yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all but the first `len` tokens.
    pub fn truncate(&mut self, len: usize) {
        for layer in &mut self.layers {
            layer.len = layer.len.min(len);
        }
    }

    /// Quantizes what is cached, and what will be. What is quantized already stays as it is.
    ///
    /// # Errors
    /// When groups do not divide the features of a head.
    pub fn quantize(&mut self, format: Quantization) -> Result<()> {
        for layer in &mut self.layers {
            layer.keys.quantize(format)?;
            layer.values.quantize(format)?;
        }
        Ok(())
    }

    /// Everything to evaluate so that the cache is filled.
    pub fn state(&self) -> Vec<&Array> {
        self.layers.iter().flat_map(|l| l.keys.arrays().chain(l.values.arrays())).collect()
    }

    pub(crate) fn layers_mut(&mut self) -> &mut [Layer] {
        &mut self.layers
    }
}

impl Layer {
    /// Adds keys and values (batch, kv heads, tokens, features) and returns views of all so far.
    pub(crate) fn update(&mut self, keys: &Array, values: &Array) -> Result<(Filled, Filled)> {
        let end = self.len + keys.dim(2);
        let keys = self.keys.append(keys, self.len)?;
        let values = self.values.append(values, self.len)?;
        self.len = end;
        Ok((keys, values))
    }
}

impl Rows {
    fn arrays(&self) -> impl Iterator<Item = &Array> {
        let parts = match self {
            Rows::Dense(rows) => std::slice::from_ref(rows),
            Rows::Quantized(parts, _) => parts,
        };
        parts.iter().flatten()
    }

    fn append(&mut self, new: &Array, at: usize) -> Result<Filled> {
        match self {
            Rows::Dense(rows) => Ok(Filled::Dense(append(rows, new, at)?)),
            Rows::Quantized([words, scales, biases], format) => {
                let (w, s, b) = ops::quantize(new, format.group_size, format.bits)?;
                let filled =
                    [append(words, &w, at)?, append(scales, &s, at)?, append(biases, &b, at)?];
                Ok(Filled::Quantized(filled, *format))
            }
        }
    }

    fn quantize(&mut self, format: Quantization) -> Result<()> {
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

/// Writes `new` at `at` into `slot`, growing it where needed, and returns a view up to its end.
///
/// The slot's array is consumed by the update, so that nothing else refers to its buffer when the
/// update runs and it happens in place.
fn append(slot: &mut Option<Array>, new: &Array, at: usize) -> Result<Array> {
    let end = at + new.dim(2);
    let buffer = grown(slot.take(), new, at)?;
    let start = [0, 0, at as isize, 0];
    let mut stop: [isize; 4] = std::array::from_fn(|axis| buffer.shape()[axis] as isize);
    stop[2] = end as isize;
    let updated = ops::slice_update(&buffer, new, &start, &stop, &[1; 4])?;
    drop(buffer);
    let view = ops::slice_axis(&updated, 2, 0, end as isize)?;
    *slot = Some(updated);
    Ok(view)
}

/// The buffer with room for `new` after `at` tokens.
fn grown(buffer: Option<Array>, new: &Array, at: usize) -> Result<Array> {
    let capacity = buffer.as_ref().map_or(0, |b| b.dim(2));
    if let Some(buffer) = buffer.as_ref().filter(|_| at + new.dim(2) <= capacity) {
        return Ok(buffer.clone());
    }
    let mut shape = [0, 1, 2, 3].map(|axis| new.dim(axis));
    shape[2] = new.dim(2).next_multiple_of(GROWTH);
    let room = ops::zeros(&shape, new.dtype())?;
    match buffer {
        None => Ok(room),
        Some(old) if at == capacity => ops::concatenate(&[&old, &room], 2),
        Some(old) => ops::concatenate(&[&ops::slice_axis(&old, 2, 0, at as isize)?, &room], 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(n: usize) -> Array {
        ops::zeros(&[1, 2, n, 4], mlx::Dtype::Float32).unwrap()
    }

    #[test]
    fn grows_by_blocks_and_shows_what_is_filled() {
        mlx::init();
        let mut layer = Layer::default();
        let capacity = |layer: &Layer| layer.keys.arrays().next().unwrap().dim(2);
        for (new, filled, want) in [(1, 1, 256), (255, 256, 256), (300, 556, 768), (1, 557, 768)] {
            let (keys, values) = layer.update(&tokens(new), &tokens(new)).unwrap();
            let (Filled::Dense(keys), Filled::Dense(values)) = (keys, values) else { panic!() };
            assert_eq!((keys.dim(2), values.dim(2)), (filled, filled));
            assert_eq!(capacity(&layer), want, "after {filled}");
        }
        layer.len = 300;
        layer.update(&tokens(500), &tokens(500)).unwrap();
        assert_eq!(capacity(&layer), 300 + 512);
    }

    /// Quantized on the way, and what was there before: the same as if all had been quantized at once.
    #[test]
    fn quantizes_what_is_there_and_what_comes() {
        mlx::init();
        let format = Quantization { group_size: 32, bits: 4 };
        let key = mlx::random::key(7).unwrap();
        let all = mlx::random::normal(&[1, 2, 300, 64], mlx::Dtype::Float32, 0.0, 1.0, Some(&key));
        let all = all.unwrap();
        let part = |from, to| ops::slice_axis(&all, 2, from, to).unwrap();
        let mut cache = Cache::new(1);
        cache.layers[0].update(&part(0, 5), &part(0, 5)).unwrap();
        cache.quantize(format).unwrap();
        cache.quantize(Quantization { bits: 8, ..format }).unwrap();
        cache.layers[0].update(&part(5, 6), &part(5, 6)).unwrap();
        let (keys, _) = cache.layers[0].update(&part(6, 300), &part(6, 300)).unwrap();
        let Filled::Quantized(parts, found) = keys else { panic!("not quantized") };
        assert_eq!((found, cache.len(), cache.state().len()), (format, 300, 6));
        let (w, s, b) = ops::quantize(&all, 32, 4).unwrap();
        for (got, want) in parts.iter().zip([&w, &s, &b]) {
            assert_eq!(got.to_bytes().unwrap(), want.to_bytes().unwrap());
        }
    }
}
