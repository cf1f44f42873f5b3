//! One token's attention over a growing cache, with everything between the projections and it.

use mlx::{Array, Device, Dtype, Result, fast, fast::Mask, ops};

use super::{agrees, fusing, noise, run, turn};

/// A model's attention.
#[derive(Clone, Copy, Debug)]
struct Shape {
    heads: usize,
    kv_heads: usize,
    width: usize,
    norm: bool,
    traditional: bool,
    dtype: Dtype,
    /// Rows of the caches behind the new one.
    room: usize,
}

const SHAPE: Shape = Shape {
    heads: 4,
    kv_heads: 2,
    width: 64,
    norm: true,
    traditional: false,
    dtype: Dtype::Bfloat16,
    room: 6,
};

pub(crate) fn all() {
    a_token_over_caches_of_every_length();
    every_kind_of_head();
    a_plain_query_over_keys();
    caches_that_are_held();
}

impl Shape {
    fn heads_of(&self, flat: &Array, heads: usize, norm: Option<&Array>) -> Result<Array> {
        let shape = [1, 1, heads as isize, self.width as isize];
        let x = ops::reshape(flat, &shape)?;
        let x = match norm {
            Some(weight) => fast::rms_norm(&x, Some(weight), 1e-6)?,
            None => x,
        };
        ops::transpose(&x, &[0, 2, 1, 3])
    }

    /// The step that a decoder takes: cache rows `..past` are filled, this token's is added. The caches
    /// before that are results, too, if they are `held`.
    fn step(&self, past: usize, held: bool) -> impl Fn() -> Result<Vec<Array>> {
        let (shape, width) = (*self, self.width);
        let cached = [1, shape.kv_heads, past + 1 + shape.room, width];
        let flat = |seed, heads: usize| noise(seed, &[1, heads * width], shape.dtype);
        let (q, k, v) = (flat(1, shape.heads), flat(2, shape.kv_heads), flat(3, shape.kv_heads));
        let norms = [4, 5].map(|seed| noise(seed, &[width], shape.dtype));
        let caches = [6, 7].map(|seed| noise(seed, &cached, shape.dtype));
        move || {
            // Computed on the device and owned by nobody: what a fused kernel may swallow.
            let [q, k, v] = [&q, &k, &v].map(|a| ops::multiply(a, 1.5f32));
            let norm = |i: usize| shape.norm.then(|| &norms[i]);
            let offset = Array::scalar(past as i32)?;
            let rope =
                |x: &Array| fast::rope(x, width, shape.traditional, Some(1e4), 1.0, &offset, None);
            let q = rope(&shape.heads_of(&q?, shape.heads, norm(0))?)?;
            let k = rope(&shape.heads_of(&k?, shape.kv_heads, norm(1))?)?;
            let v = shape.heads_of(&v?, shape.kv_heads, None)?;
            let write = |cache: &Array, row: &Array| {
                let stop = [1, shape.kv_heads as isize, past as isize + 1, width as isize];
                ops::slice_update(cache, row, &[0, 0, past as isize, 0], &stop, &[1; 4])
            };
            let copies = [ops::multiply(&caches[0], 1.0f32)?, ops::multiply(&caches[1], 1.0f32)?];
            let (keys, values) = (write(&copies[0], &k)?, write(&copies[1], &v)?);
            let held = if held { copies.to_vec() } else { Vec::new() };
            drop(copies);
            let seen = |cache: &Array| ops::slice_axis(cache, 2, 0, past as isize + 1);
            // Scores of unlike sizes: weights that differ.
            let scale = 2.0 / (width as f32).sqrt();
            let out = fast::scaled_dot_product_attention(
                &q,
                &seen(&keys)?,
                &seen(&values)?,
                scale,
                Mask::None,
            )?;
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
    for past in [1, 2, 7, 8, 31, 64, 65, 255, 256, 300, 700] {
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
