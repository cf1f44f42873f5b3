//! The key/value cache: grows by blocks and is written in place.

mod rows;

use mlx::{Array, Result};

pub(crate) use self::rows::Filled;
use self::rows::Rows;
use crate::config::Quantization;

/// Tokens that a layer with a window keeps beside those that it needs, so that a few can be taken back.
const SPARE: usize = 32;

/// Keys and values of all layers for the tokens seen so far.
#[derive(Clone, Default)]
pub struct Cache {
    layers: Vec<Layer>,
}

/// Keys and values of one layer, (batch, kv heads, capacity, features), for the tokens `first` to `len`.
#[derive(Clone, Default)]
pub(crate) struct Layer {
    keys: Rows,
    values: Rows,
    /// Tokens seen so far.
    len: usize,
    /// The token whose keys and values are the first ones; those before were forgotten.
    first: usize,
    /// Tokens that a token sees, itself included, if not all.
    window: Option<usize>,
}

impl Cache {
    /// An empty cache.
    pub fn new(layers: usize) -> Self {
        Self { layers: vec![Layer::default(); layers] }
    }

    /// An empty cache whose layers see as many tokens, or all. What no token will see any more is forgotten.
    pub fn with_windows(windows: impl IntoIterator<Item = Option<usize>>) -> Self {
        let layer = |window| Layer { window, ..Layer::default() };
        Self { layers: windows.into_iter().map(layer).collect() }
    }

    /// Tokens seen so far.
    pub fn len(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.len)
    }

    /// Whether no token was seen yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all but the first `len` tokens; or all, if a layer with a window has forgotten what the next
    /// token would see. Returns how many tokens are left.
    pub fn truncate(&mut self, len: usize) -> usize {
        let len = if self.layers.iter().all(|layer| layer.can_end_at(len)) { len } else { 0 };
        for layer in &mut self.layers {
            layer.len = layer.len.min(len);
            layer.first = layer.first.min(layer.len);
        }
        self.len()
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
    /// Adds keys and values (batch, kv heads, tokens, features) and returns views of all that the new tokens
    /// see, the new ones last.
    pub(crate) fn update(&mut self, keys: &Array, values: &Array) -> Result<(Filled, Filled)> {
        let (new, filled) = (keys.dim(2), self.len - self.first);
        let full = filled + new > self.keys.capacity();
        let forgotten = match self.window {
            Some(window) if full => filled.saturating_sub(window - 1 + SPARE),
            _ => 0,
        };
        let seen = self.window.map_or(filled, |window| filled.min(window - 1));
        let keys = self.keys.append(keys, forgotten..filled, seen)?;
        let values = self.values.append(values, forgotten..filled, seen)?;
        self.first += forgotten;
        self.len += new;
        Ok((keys, values))
    }

    /// Whether everything is there that the token behind the first `len` sees.
    fn can_end_at(&self, len: usize) -> bool {
        let needed = self.window.map_or(0, |window| len.saturating_sub(window - 1));
        len >= self.len || self.first <= needed
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use mlx::ops;

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

    /// Numbers 0, 1, … as keys of the tokens `range`.
    fn numbered(range: Range<usize>) -> Array {
        let rows: Vec<f32> = range.clone().map(|token| token as f32).collect();
        Array::from_slice(&rows, &[1, 1, range.len(), 1]).unwrap()
    }

    /// A layer with a window shows what its tokens see, whatever the steps, and stays small.
    #[test]
    fn a_window_shows_the_last_tokens_and_forgets_the_others() {
        mlx::init();
        mlx::with_device(mlx::Device::CPU, || {
            let window = 16;
            let mut cache = Cache::with_windows([Some(window), None]);
            let (mut len, mut largest) = (0, 0);
            for step in [5, 1, 40, 1, 1, 300, 1, 7].into_iter().chain([1; 600]) {
                let new = numbered(len..len + step);
                let shown = cache.layers.iter_mut().map(|layer| {
                    let (keys, values) = layer.update(&new, &new).unwrap();
                    let (Filled::Dense(keys), Filled::Dense(values)) = (keys, values) else {
                        panic!("quantized")
                    };
                    assert_eq!(keys.shape(), values.shape());
                    keys.to_vec::<f32>().unwrap()
                });
                let shown: Vec<_> = shown.collect();
                let from = |first: usize| numbered(first..len + step).to_vec::<f32>().unwrap();
                assert_eq!(shown, [from(len.saturating_sub(window - 1)), from(0)]);
                len += step;
                if len > 400 {
                    largest = largest.max(cache.layers[0].keys.capacity());
                }
            }
            assert_eq!(cache.len(), len);
            assert!(largest <= 15 + SPARE + 512, "{largest}");

            // A few tokens can be taken back, and then others come.
            assert_eq!(cache.truncate(len - SPARE), len - SPARE);
            let (keys, _) = cache.layers[0].update(&numbered(0..1), &numbered(0..1)).unwrap();
            let Filled::Dense(keys) = keys else { panic!("quantized") };
            let (first, end) = (len - SPARE + 1 - window, len - SPARE);
            let want = [numbered(first..end).to_vec::<f32>().unwrap(), vec![0.0]].concat();
            assert_eq!(keys.to_vec::<f32>().unwrap(), want);
            // Too many cannot: then nothing is left.
            assert_eq!(cache.truncate(300), 0);
            let (keys, _) = cache.layers[0].update(&numbered(0..3), &numbered(0..3)).unwrap();
            let Filled::Dense(keys) = keys else { panic!("quantized") };
            assert_eq!(keys.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
        })
        .unwrap();
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
