//! A small decoder.

use mlx::{Array, Dtype, Result, fast, fast::Mask, ops, ops::FpMode};

use super::{
    Linear,
    attention::{SHAPE, Shape},
    noise,
    quantized_attention::{self, Cached},
};

/// A decoder of a few layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoder {
    pub(super) hidden: usize,
    /// Query heads, key/value heads and their width.
    pub(super) heads: [usize; 3],
    pub(super) inner: usize,
    pub(super) layers: usize,
    /// Whether queries and keys are normalized.
    pub(super) norm: bool,
    /// Whether a layer's rows are normalized before its products, and what its halves say before that is
    /// added to the rows.
    pub(super) before: bool,
    pub(super) behind: bool,
    /// Features of a head that are rotated; none for all.
    pub(super) rotated: Option<usize>,
    /// Whether a query head has as many features besides, which are the gate of what it attends to.
    pub(super) gated: bool,
    /// How many matrices have biases, of queries, keys, values, output, gate, the other half, and down.
    pub(super) biases: usize,
    /// Bits and group size; none for matrices that are not quantized.
    pub(super) format: Option<(usize, usize)>,
    /// Small floats instead.
    pub(super) floats: Option<FpMode>,
    pub(super) dtype: Dtype,
    /// Rows of the caches that are filled.
    pub(super) past: usize,
    /// Rows of them that a mask hides, as where sequences of a batch differ in length: positions begin behind
    /// them, and each layer counts them on by itself.
    pub(super) padding: Option<usize>,
    /// Bits and group size of caches; none for caches that are not quantized.
    pub(super) cache: Option<(usize, usize)>,
    /// How the gate and the other half of a layer's middle become one.
    pub(super) swiglu: fn(&Array, &Array) -> Result<Array>,
}

pub(super) const DECODER: Decoder = Decoder {
    hidden: 128,
    heads: [4, 2, 64],
    inner: 192,
    layers: 2,
    norm: true,
    before: true,
    behind: false,
    rotated: None,
    gated: false,
    biases: 0,
    format: Some((4, 64)),
    floats: None,
    dtype: Dtype::Bfloat16,
    past: 9,
    padding: None,
    cache: None,
    swiglu,
};

/// The gate's sigmoid times itself, times the other half.
pub(super) fn swiglu(gate: &Array, up: &Array) -> Result<Array> {
    ops::multiply(&ops::multiply(gate, ops::sigmoid(gate)?)?, up)
}

/// `gelu_approx` of the gate, as mlx.nn writes it, times the other half.
pub(super) fn geglu(gate: &Array, up: &Array) -> Result<Array> {
    let cube = ops::multiply(ops::power(gate, 3.0f32)?, 0.044715f32)?;
    let inner = ops::multiply(ops::add(gate, cube)?, (2.0 / std::f32::consts::PI).sqrt())?;
    let half = ops::multiply(gate, 0.5f32)?;
    ops::multiply(&ops::multiply(&half, ops::add(ops::tanh(&inner)?, 1.0f32)?)?, up)
}

/// A matrix with a bias, or without one.
struct Product(Linear, Option<Array>);

impl Product {
    fn forward(&self, x: &Array) -> Result<Array> {
        let Product(matrix, bias) = self;
        let y = matrix.forward(x)?;
        bias.as_ref().map_or(Ok(y.clone()), |bias| ops::add(&y, bias))
    }
}

/// The array of a cache, or the words, scales and biases of one that is quantized.
type Cache = Vec<Array>;

struct Layer {
    matrices: [Product; 7],
    norms: [Array; 6],
    caches: [Cache; 2],
}

impl Decoder {
    fn layer(&self, seed: u64) -> Layer {
        let Decoder { hidden, heads: [heads, kv_heads, width], inner, dtype, .. } = *self;
        let (all, kv) = (heads * width, kv_heads * width);
        let shapes = [
            (if self.gated { 2 * all } else { all }, hidden),
            (kv, hidden),
            (kv, hidden),
            (hidden, all),
            (inner, hidden),
            (inner, hidden),
            (hidden, inner),
        ];
        let mut seeds = (100 * seed..).step_by(1);
        let mut next = || seeds.next().unwrap();
        let mut seeds_of_biases = 100_000 + 100 * seed..100_000 + 100 * seed + self.biases as u64;
        let matrices = shapes.map(|(outputs, inner)| {
            let bias = seeds_of_biases.next().map(|seed| noise(seed, &[outputs], dtype));
            let matrix = match self.floats {
                Some(mode) => Linear::floats(next(), outputs, inner, mode, dtype),
                None => Linear::new(next(), outputs, inner, self.format, dtype),
            };
            Product(matrix, bias)
        });
        let norms =
            [hidden, hidden, width, width, hidden, hidden].map(|n| noise(next(), &[n], dtype));
        let cached = [1, kv_heads, self.past + 3, width];
        let caches = [next(), next()].map(|seed| self.rows(&noise(seed, &cached, dtype)).unwrap());
        Layer { matrices, norms, caches }
    }

    /// Rows as caches have them.
    fn rows(&self, dense: &Array) -> Result<Cache> {
        let Some((bits, group)) = self.cache else { return Ok(vec![dense.clone()]) };
        let (words, scales, biases) = ops::quantize(dense, group, bits)?;
        Ok(vec![words, scales, biases])
    }

    fn attend(
        &self,
        query: &Array,
        [keys, values]: [&Cache; 2],
        mask: Option<&Array>,
    ) -> Result<Array> {
        let [heads, kv_heads, width] = self.heads;
        let count = self.past as isize + 1;
        let seen = |part: &Array| ops::slice_axis(part, 2, 0, count);
        let scale = 1.0 / (width as f32).sqrt();
        let Some((bits, group)) = self.cache else {
            let mask = mask.map_or(Mask::None, Mask::Array);
            let (keys, values) = (seen(&keys[0])?, seen(&values[0])?);
            return fast::scaled_dot_product_attention(query, &keys, &values, scale, mask);
        };
        assert!(mask.is_none(), "masks of quantized caches are not tried here");
        let shape = Shape { heads, kv_heads, width, dtype: self.dtype, ..SHAPE };
        let parts = |cache: &Cache| Ok([seen(&cache[0])?, seen(&cache[1])?, seen(&cache[2])?]);
        let (keys, values) = (parts(keys)?, parts(values)?);
        Cached { shape, bits, group }.attend(query, [&keys, &values], Some(scale), true)
    }

    /// The position of the token, if the layer counts it.
    fn counted(&self) -> Result<Option<Array>> {
        let Some(padding) = self.padding else { return Ok(None) };
        let before = Array::from_slice(&[self.past as i32 - padding as i32 - 1], &[1])?;
        ops::add(&before, 1).map(Some)
    }

    /// Which keys are seen.
    fn mask(&self) -> Result<Option<Array>> {
        let Some(padding) = self.padding else { return Ok(None) };
        let keys = ops::arange(0.0, self.past as f64 + 1.0, 1.0, Dtype::Int32)?;
        let seen = ops::greater_equal(&keys, padding as i32)?;
        ops::reshape(&seen, &[1, 1, 1, -1]).map(Some)
    }

    /// The queries, and their gates if they have such.
    fn parted(&self, flat: Array) -> Result<(Array, Option<Array>)> {
        if !self.gated {
            return Ok((flat, None));
        }
        let [heads, _, width] = self.heads.map(|n| n as isize);
        let both = ops::reshape(&flat, &[1, heads, 1, 2 * width])?;
        let gate = ops::slice_axis(&both, 3, width, 2 * width)?;
        let gate = ops::reshape(&gate, &[1, heads * width])?;
        Ok((ops::slice_axis(&both, 3, 0, width)?, Some(gate)))
    }

    fn head(
        &self,
        flat: &Array,
        heads: usize,
        norm: Option<&Array>,
        counted: Option<&Array>,
    ) -> Result<Array> {
        let x = ops::reshape(flat, &[1, heads as isize, 1, self.heads[2] as isize])?;
        let x = match norm {
            Some(weight) => fast::rms_norm(&x, Some(weight), 1e-6)?,
            None => x,
        };
        // A number for each, as models in Python have it: it is one position all the same.
        let (width, base) = (self.rotated.unwrap_or(self.heads[2]), Some(1e4));
        match counted {
            Some(position) => fast::rope(&x, width, false, base, 1.0, position, None),
            None => fast::rope(&x, width, false, base, 1.0, self.past as i32, None),
        }
    }

    /// A layer after the row `x`, with its new caches, which are written in place.
    fn forward(
        &self,
        x: &Array,
        layer: &Layer,
        caches: [Cache; 2],
        mask: Option<&Array>,
    ) -> Result<(Array, [Cache; 2])> {
        let [heads, kv_heads, width] = self.heads;
        let [q, k, v, out, gate, up, down] = &layer.matrices;
        let [before, between, q_norm, k_norm, attended_norm, middle_norm] = &layer.norms;
        let normalized = |x: Array, weight, applies| match applies {
            true => fast::rms_norm(&x, Some(weight), 1e-6),
            false => Ok(x),
        };
        let normal = normalized(x.clone(), before, self.before)?;
        let norm = |weight| self.norm.then_some(weight);
        let counted = self.counted()?;
        let (query, gate_of_heads) = self.parted(q.forward(&normal)?)?;
        let query = self.head(&query, heads, norm(q_norm), counted.as_ref())?;
        let key = self.head(&k.forward(&normal)?, kv_heads, norm(k_norm), counted.as_ref())?;
        let value = ops::reshape(&v.forward(&normal)?, &[1, kv_heads as isize, 1, width as isize])?;
        let write = |cache: &Cache, row: &Array| -> Result<Cache> {
            let part =
                |(part, row): (&Array, Array)| quantized_attention::written(part, &row, self.past);
            cache.iter().zip(self.rows(row)?).map(part).collect()
        };
        let (keys, values) = (write(&caches[0], &key)?, write(&caches[1], &value)?);
        drop((caches, key, value));
        let attended = self.attend(&query, [&keys, &values], mask)?;
        let attended = ops::reshape(&attended, &[1, (heads * width) as isize])?;
        let attended = match gate_of_heads {
            Some(gate) => ops::multiply(&attended, &ops::sigmoid(&gate)?)?,
            None => attended,
        };
        let said = normalized(out.forward(&attended)?, attended_norm, self.behind)?;
        let x = ops::add(x, said)?;
        let normal = normalized(x.clone(), between, self.before)?;
        let gated = (self.swiglu)(&gate.forward(&normal)?, &up.forward(&normal)?)?;
        let said = normalized(down.forward(&gated)?, middle_norm, self.behind)?;
        Ok((ops::add(&x, said)?, [keys, values]))
    }

    /// What results of the graph are compared by. A new row of a quantized cache may be a step apart: where
    /// that is less than rounding takes, what it stands for is compared, else scales and biases.
    pub(super) fn compared(&self, mut results: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
        let Some((bits, group)) = self.cache else { return results };
        let last = results.pop();
        let dequantized = |parts: &[Vec<f64>]| {
            let fields = parts[0].iter().flat_map(|&word| (word as u32).to_le_bytes());
            let value =
                |(i, q): (usize, u8)| f64::from(q) * parts[1][i / group] + parts[2][i / group];
            fields.enumerate().map(value).collect()
        };
        let fine = bits == 8 && self.dtype == Dtype::Bfloat16;
        let compared = |parts: &[Vec<f64>]| {
            if fine { vec![dequantized(parts)] } else { parts[1..].to_vec() }
        };
        results.chunks(3).flat_map(compared).chain(last).collect()
    }

    pub(super) fn graph(&self) -> impl Fn() -> Result<Vec<Array>> {
        let (this, x) = (*self, noise(7, &[1, self.hidden], self.dtype));
        let layers: Vec<_> = (0..self.layers as u64).map(|seed| self.layer(seed + 1)).collect();
        move || {
            let mut x = ops::multiply(&x, 1.5f32)?;
            mlx::eval(&[&x])?;
            let (mask, mut results) = (this.mask()?, Vec::new());
            for layer in &layers {
                // Owned by nobody else, and there before the layers are evaluated.
                let caches = layer.caches.each_ref().map(copied);
                let [keys, values] = caches;
                let (next, caches) = this.forward(&x, layer, [keys?, values?], mask.as_ref())?;
                results.extend(caches.concat());
                x = next;
            }
            results.push(x);
            Ok(results)
        }
    }
}

/// A cache that nobody else has, evaluated.
fn copied(cache: &Cache) -> Result<Cache> {
    let copies = cache.iter().map(quantized_attention::copied).collect::<Result<Cache>>()?;
    mlx::eval(&copies.iter().collect::<Vec<_>>())?;
    Ok(copies)
}
