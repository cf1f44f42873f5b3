//! One token's attention over a growing cache, with everything between the projections and it.

use mlx::{Array, Device, Dtype, Result, dtype::Bool8, fast, fast::Mask, ops};

use super::{agrees, fusing, noise, run, turn};

/// Which keys the sequences of a batch see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Seen {
    /// All, without a mask.
    All,
    /// Each those behind its padding, which the mask hides; positions begin there.
    Ragged,
    /// The same, by numbers that are added to scores, others for each head.
    Weighed,
    /// None.
    Nothing,
}

/// A model's attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) width: usize,
    pub(crate) norm: bool,
    pub(crate) traditional: bool,
    pub(crate) dtype: Dtype,
    /// Rows of the caches behind the new one.
    pub(crate) room: usize,
    /// Sequences.
    pub(crate) batch: usize,
    /// Whether heads have sinks.
    pub(crate) sinks: bool,
    /// The first rows of the caches, which are not seen any more.
    pub(crate) forgotten: usize,
    pub(crate) seen: Seen,
    /// Whether query heads are parts of rows that are twice as long.
    pub(crate) apart: bool,
}

pub(crate) const SHAPE: Shape = Shape {
    heads: 4,
    kv_heads: 2,
    width: 64,
    norm: true,
    traditional: false,
    dtype: Dtype::Bfloat16,
    room: 6,
    batch: 1,
    sinks: false,
    forgotten: 0,
    seen: Seen::All,
    apart: false,
};

/// Filled rows of caches, around all that workgroups and their shares take at a time.
pub(crate) const LENGTHS: [usize; 11] = [1, 2, 7, 8, 31, 64, 65, 255, 256, 300, 700];

pub(crate) fn all() {
    a_token_over_caches_of_every_length();
    every_kind_of_head();
    a_plain_query_over_keys();
    caches_that_are_held();
    queries_beside_something_else();
    tokens_of_several_sequences();
    caches_that_are_long();
    sinks_and_windows();
    sequences_of_different_lengths();
}

impl Shape {
    /// (batch, heads · features) as (batch, heads, 1, features), normalized if the model has norms and there
    /// is a weight.
    pub(crate) fn heads_of(
        &self,
        flat: &Array,
        heads: usize,
        norm: Option<&Array>,
    ) -> Result<Array> {
        let x = ops::reshape(flat, &[self.batch as isize, 1, heads as isize, self.width as isize])?;
        let x = match norm.filter(|_| self.norm) {
            Some(weight) => fast::rms_norm(&x, Some(weight), 1e-6)?,
            None => x,
        };
        ops::transpose(&x, &[0, 2, 1, 3])
    }

    pub(crate) fn rotate(&self, x: &Array, offset: &Array) -> Result<Array> {
        fast::rope(x, self.width, self.traditional, Some(1e4), 1.0, offset, None)
    }

    /// Scores of unlike sizes: weights that differ.
    pub(crate) fn scale(&self) -> f32 {
        2.0 / (self.width as f32).sqrt()
    }

    /// Rows in front of each sequence that are none of its own.
    fn padding(&self, past: usize) -> Vec<usize> {
        (0..self.batch).map(|i| if i == 0 { 0 } else { (i * 37 + past / 2) % (past + 1) }).collect()
    }

    /// The position of the new token: one for all sequences, or one for each.
    fn position(&self, past: usize) -> Result<Array> {
        if self.seen == Seen::All {
            return Array::scalar(past as i32);
        }
        let positions = self.padding(past).into_iter().map(|padding| (past - padding) as i32);
        Array::from_slice(&positions.collect::<Vec<_>>(), &[self.batch])
    }

    /// The mask over `past` rows and the new one.
    fn mask(&self, past: usize) -> Result<Option<Array>> {
        let keys = past + 1;
        let padding = self.padding(past);
        let is_seen = |i: usize| self.seen != Seen::Nothing && i % keys >= padding[i / keys];
        let bools: Vec<Bool8> = (0..self.batch * keys).map(|i| is_seen(i).into()).collect();
        let bools = Array::from_slice(&bools, &[self.batch, 1, 1, keys])?;
        match self.seen {
            Seen::All => Ok(None),
            Seen::Ragged | Seen::Nothing => Ok(Some(bools)),
            Seen::Weighed => {
                let numbers = noise(9, &[1, self.heads, 1, keys], self.dtype);
                let hidden = ops::astype(&Array::scalar(f32::NEG_INFINITY)?, self.dtype)?;
                ops::where_(&bools, &numbers, &hidden).map(Some)
            }
        }
    }

    /// The step that a decoder takes: cache rows `..past` are filled, this token's is added. The caches
    /// before that are results, too, if they are `held`.
    fn step(&self, past: usize, held: bool) -> impl Fn() -> Result<Vec<Array>> {
        let (shape, width) = (*self, self.width);
        let cached = [shape.batch, shape.kv_heads, past + 1 + shape.room, width];
        let flat = |seed, heads: usize| noise(seed, &[shape.batch, heads * width], shape.dtype);
        let query_heads = if shape.apart { 2 * shape.heads } else { shape.heads };
        let (q, k, v) = (flat(1, query_heads), flat(2, shape.kv_heads), flat(3, shape.kv_heads));
        let norms = [4, 5].map(|seed| noise(seed, &[width], shape.dtype));
        let caches = [6, 7].map(|seed| noise(seed, &cached, shape.dtype));
        let sinks = noise(8, &[shape.heads], shape.dtype);
        move || {
            // Computed on the device and owned by nobody: what a fused kernel may swallow.
            let [q, k, v] = [&q, &k, &v].map(|a| ops::multiply(a, 1.5f32));
            let offset = shape.position(past)?;
            let q = if shape.apart {
                let rows = [shape.batch, 1, shape.heads, 2 * width].map(|n| n as isize);
                ops::slice_axis(&ops::reshape(&q?, &rows)?, 3, 0, width as isize)?
            } else {
                q?
            };
            let q = shape.heads_of(&q, shape.heads, Some(&norms[0]))?;
            let k = shape.heads_of(&k?, shape.kv_heads, Some(&norms[1]))?;
            let (q, k) = (shape.rotate(&q, &offset)?, shape.rotate(&k, &offset)?);
            let v = shape.heads_of(&v?, shape.kv_heads, None)?;
            let write = |cache: &Array, row: &Array| {
                let end = [shape.batch, shape.kv_heads, past + 1, width];
                let stop = end.map(|n| n as isize);
                ops::slice_update(cache, row, &[0, 0, past as isize, 0], &stop, &[1; 4])
            };
            let copies = [ops::multiply(&caches[0], 1.0f32)?, ops::multiply(&caches[1], 1.0f32)?];
            let (keys, values) = (write(&copies[0], &k)?, write(&copies[1], &v)?);
            let held = if held { copies.to_vec() } else { Vec::new() };
            drop(copies);
            let first = shape.forgotten as isize;
            let seen = |cache: &Array| ops::slice_axis(cache, 2, first, past as isize + 1);
            let (k, v, scale) = (seen(&keys)?, seen(&values)?, shape.scale());
            let mask = shape.mask(past)?;
            let mask = mask.as_ref().map_or(Mask::None, Mask::Array);
            let out = match shape.sinks {
                false => fast::scaled_dot_product_attention(&q, &k, &v, scale, mask)?,
                true => {
                    fast::scaled_dot_product_attention_with_sinks(&q, &k, &v, scale, mask, &sinks)?
                }
            };
            Ok([vec![out, keys, values], held].concat())
        }
    }

    fn check(&self, past: usize) {
        // Norms, rotations, and the two rows of the cache.
        let fused = if self.norm { 6 } else { 4 };
        agrees(&format!("{self:?} after {past}"), fused, self.dtype, &self.step(past, false));
    }
}

#[test]
pub(crate) fn a_token_over_caches_of_every_length() {
    let _turn = turn();
    for past in LENGTHS {
        SHAPE.check(past);
    }
    Shape { room: 0, ..SHAPE }.check(20);
}

#[test]
fn every_kind_of_head() {
    let _turn = turn();
    for dtype in [Dtype::Bfloat16, Dtype::Float16, Dtype::Float32] {
        for (heads, kv_heads, width) in
            [(2, 2, 128), (6, 2, 64), (4, 2, 192), (8, 2, 256), (16, 2, 128)]
        {
            for (norm, traditional) in [(true, false), (false, true)] {
                Shape { heads, kv_heads, width, norm, traditional, dtype, ..SHAPE }.check(40);
            }
        }
    }
}

#[test]
pub(crate) fn queries_beside_something_else() {
    let _turn = turn();
    for (batch, past) in [(1, 40), (3, 64), (1, 700)] {
        for dtype in [Dtype::Bfloat16, Dtype::Float32] {
            for (heads, kv_heads, width) in [(6, 2, 64), (4, 1, 256), (2, 2, 128)] {
                for norm in [true, false] {
                    let shape = Shape { heads, kv_heads, width, norm, dtype, batch, ..SHAPE };
                    Shape { apart: true, ..shape }.check(past);
                }
            }
        }
    }
}

#[test]
pub(crate) fn tokens_of_several_sequences() {
    let _turn = turn();
    for (batch, past) in [(2, 1), (3, 7), (5, 64), (2, 300), (3, 700)] {
        for (heads, kv_heads) in [(4, 2), (3, 1), (2, 2)] {
            Shape { batch, heads, kv_heads, ..SHAPE }.check(past);
        }
    }
}

/// What servers decode: caches that begin with padding, and positions that differ.
#[test]
pub(crate) fn sequences_of_different_lengths() {
    let _turn = turn();
    for (batch, past) in [(2, 1), (3, 40), (5, 64), (2, 300), (3, 1500)] {
        for seen in [Seen::Ragged, Seen::Weighed] {
            for dtype in [Dtype::Bfloat16, Dtype::Float16, Dtype::Float32] {
                let shape = Shape { batch, seen, dtype, ..SHAPE };
                shape.check(past);
                Shape { heads: 6, norm: false, sinks: true, width: 128, ..shape }.check(past);
            }
        }
    }
    for past in [12, 2900] {
        Shape { batch: 2, seen: Seen::Nothing, ..SHAPE }.check(past);
        Shape { seen: Seen::Weighed, ..SHAPE }.check(past);
    }
    Shape { batch: 16, kv_heads: 4, heads: 8, width: 128, seen: Seen::Ragged, ..SHAPE }.check(130);
}

/// What gpt-oss decodes with: sinks, and layers whose first rows were forgotten.
#[test]
pub(crate) fn sinks_and_windows() {
    let _turn = turn();
    let plain = Shape { heads: 8, norm: false, ..SHAPE };
    for (past, forgotten) in [(5, 0), (40, 13), (300, 173), (700, 0), (4400, 200)] {
        for dtype in [Dtype::Bfloat16, Dtype::Float32] {
            for batch in [1, 2] {
                let shape = Shape { batch, forgotten, dtype, ..plain };
                shape.check(past);
                Shape { sinks: true, ..shape }.check(past);
            }
        }
    }
}

/// Keys that go to cooperative matrices where the device has them: heads of every sharing.
#[test]
pub(crate) fn caches_that_are_long() {
    let _turn = turn();
    let shapes = [
        (1, 4, 2, 64, 4095),
        (1, 8, 1, 128, 8300),
        (1, 6, 2, 128, 4500),
        (1, 3, 3, 128, 2733),
        (3, 4, 2, 64, 1500),
        (16, 8, 4, 128, 130),
    ];
    for (i, (batch, heads, kv_heads, width, past)) in shapes.into_iter().enumerate() {
        for dtype in [Dtype::Bfloat16, Dtype::Float16] {
            let norm = i % 2 == 0;
            Shape { batch, heads, kv_heads, width, norm, dtype, ..SHAPE }.check(past);
        }
    }
    let q = noise(8, &[2, 4, 1, 128], Dtype::Bfloat16);
    let [k, v] = [9, 10].map(|seed| noise(seed, &[2, 2, 2100, 128], Dtype::Bfloat16));
    agrees("queries as they are", 0, Dtype::Bfloat16, &|| {
        Ok(vec![fast::scaled_dot_product_attention(&q, &k, &v, 0.5, Mask::None)?])
    });
}

/// Caches that somebody still looks at are not written in place.
#[test]
fn caches_that_are_held() {
    let _turn = turn();
    agrees("caches that are held", 0, SHAPE.dtype, &SHAPE.step(20, true));
}

/// Without anything before it: queries and keys as they are.
#[test]
fn a_plain_query_over_keys() {
    let _turn = turn();
    for (keys, width) in [(1, 64), (9, 128), (257, 64), (1000, 192)] {
        let dtype = Dtype::Float16;
        let q = noise(8, &[1, 6, 1, width], dtype);
        let [k, v] = [9, 10].map(|seed| noise(seed, &[1, 3, keys, width], dtype));
        agrees(&format!("{keys} keys of {width}"), 0, dtype, &|| {
            Ok(vec![fast::scaled_dot_product_attention(&q, &k, &v, 0.5, Mask::None)?])
        });
    }
}

/// Two caches may be decoded in turns in one evaluation.
#[test]
fn two_sequences_in_one_evaluation() {
    let _turn = turn();
    let (a, b) = (SHAPE.step(20, false), SHAPE.step(33, false));
    let both = || {
        let mut all = a()?;
        all.extend(b()?);
        Ok(all)
    };
    let (want, _) = run(Device::CPU, &both);
    let (got, fused) = run(Device::GPU, &both);
    assert_eq!(fused, if fusing() { 12 } else { 0 });
    for (w, g) in want.iter().flatten().zip(got.iter().flatten()) {
        assert!((w - g).abs() <= 0.06, "{w} and {g}");
    }
}
