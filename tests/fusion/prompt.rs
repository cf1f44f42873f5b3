//! Norms, rotations and cache writes of many tokens before their attention.

use mlx::{Array, Dtype, Result, fast, fast::Mask, ops};

use super::{agrees, noise, turn};

/// A model's attention over a prompt.
#[derive(Clone, Copy, Debug)]
struct Prompt {
    batches: usize,
    tokens: usize,
    /// Query heads, key/value heads and their width.
    heads: [usize; 3],
    norm: bool,
    traditional: bool,
    /// Frequencies are given as divisors.
    divisors: bool,
    dtype: Dtype,
    /// Rows of the caches before and behind the new ones; without caches none.
    cache: Option<[usize; 2]>,
}

const PROMPT: Prompt = Prompt {
    batches: 1,
    tokens: 11,
    heads: [4, 2, 64],
    norm: true,
    traditional: false,
    divisors: false,
    dtype: Dtype::Bfloat16,
    cache: Some([5, 3]),
};

pub(crate) fn all() {
    caches_of_every_kind();
    every_kind_of_head();
}

impl Prompt {
    fn heads_of(&self, flat: &Array, heads: usize, norm: Option<&Array>) -> Result<Array> {
        let shape = [self.batches, self.tokens, heads, self.heads[2]].map(|d| d as isize);
        let x = ops::reshape(flat, &shape)?;
        let x = match norm {
            Some(weight) => fast::rms_norm(&x, Some(weight), 1e-6)?,
            None => x,
        };
        ops::transpose(&x, &[0, 2, 1, 3])
    }

    /// What a decoder does with a prompt. The caches before that are results, too, if they are `held`.
    fn step(&self, held: bool) -> impl Fn() -> Result<Vec<Array>> {
        let this = *self;
        let Prompt { batches, tokens, heads: [heads, kv_heads, width], dtype, .. } = this;
        let flat = |seed, heads: usize| noise(seed, &[batches, tokens, heads * width], dtype);
        let (q, k, v) = (flat(1, heads), flat(2, kv_heads), flat(3, kv_heads));
        let norms = [4, 5].map(|seed| noise(seed, &[width], dtype));
        let [before, behind] = this.cache.unwrap_or_default();
        let cached = [batches, kv_heads, before + tokens + behind, width];
        let caches = [6, 7].map(|seed| noise(seed, &cached, dtype));
        let list: Vec<f32> = (0..width / 2).map(|i| 3f32.powi(i as i32 % 8)).collect();
        let divisors = Array::from_slice(&list, &[width / 2]).unwrap();
        move || {
            let [q, k, v] = [&q, &k, &v].map(|a| ops::multiply(a, 1.5f32));
            let norm = |i: usize| this.norm.then(|| &norms[i]);
            let offset = Array::scalar(before as i32)?;
            let rope = |x: &Array| {
                let base = (!this.divisors).then_some(1e4);
                let divisors = this.divisors.then_some(&divisors);
                fast::rope(x, width, this.traditional, base, 1.0, &offset, divisors)
            };
            let q = rope(&this.heads_of(&q?, heads, norm(0))?)?;
            let k = rope(&this.heads_of(&k?, kv_heads, norm(1))?)?;
            let v = this.heads_of(&v?, kv_heads, None)?;
            let copies = [ops::multiply(&caches[0], 1.0f32)?, ops::multiply(&caches[1], 1.0f32)?];
            let end = before + tokens;
            let write = |cache: &Array, rows: &Array| {
                let stop = [batches, kv_heads, end, width].map(|s| s as isize);
                ops::slice_update(cache, rows, &[0, 0, before as isize, 0], &stop, &[1; 4])
            };
            let (keys, values) = match this.cache {
                Some(_) => (write(&copies[0], &k)?, write(&copies[1], &v)?),
                None => (k, v),
            };
            let held = if held { copies.to_vec() } else { Vec::new() };
            drop(copies);
            let seen = |cache: &Array| ops::slice_axis(cache, 2, 0, end as isize);
            let (seen_keys, seen_values) = (seen(&keys)?, seen(&values)?);
            let scale = 2.0 / (width as f32).sqrt();
            let out = fast::scaled_dot_product_attention(
                &q,
                &seen_keys,
                &seen_values,
                scale,
                Mask::Causal,
            )?;
            Ok([vec![out, keys, values], held].concat())
        }
    }

    fn check(&self) {
        // Two rotations, two norms, two caches; the first of them stands for the kernel.
        let norms = if self.norm { 2 } else { 0 };
        // Rows that fill a cache are the cache.
        let caches = if self.cache.is_some_and(|c| c != [0, 0]) { 2 } else { 0 };
        agrees(&format!("{self:?}"), 1 + norms + caches, self.dtype, &self.step(false));
    }
}

#[test]
fn caches_of_every_kind() {
    let _turn = turn();
    for cache in [None, Some([0, 0]), Some([0, 9]), Some([9, 0]), Some([4, 300])] {
        for tokens in [2, 11, 70] {
            Prompt { cache, tokens, ..PROMPT }.check();
        }
    }
    Prompt { batches: 3, ..PROMPT }.check();
}

#[test]
fn every_kind_of_head() {
    let _turn = turn();
    for dtype in [Dtype::Bfloat16, Dtype::Float16, Dtype::Float32] {
        for heads in [[2, 2, 128], [6, 2, 64], [3, 1, 20], [4, 2, 192], [8, 2, 256], [16, 2, 128]] {
            for (norm, traditional) in [(true, false), (false, true), (true, true)] {
                Prompt { heads, norm, traditional, divisors: !norm, dtype, ..PROMPT }.check();
            }
        }
    }
}

/// Caches that somebody still looks at are copied.
#[test]
fn prompts_into_caches_that_are_held() {
    let _turn = turn();
    agrees("caches that are held", 5, PROMPT.dtype, &PROMPT.step(true));
}

/// Keys that are rotated otherwise than queries are rotated by themselves.
#[test]
fn angles_that_differ() {
    let _turn = turn();
    let x = noise(1, &[1, 7, 128], Dtype::Float16);
    agrees("angles that differ", 0, Dtype::Float16, &|| {
        let heads = ops::transpose(&ops::reshape(&x, &[1, 7, 2, 64])?, &[0, 2, 1, 3])?;
        let rope = |offset: i32| {
            fast::rope(&heads, 64, false, Some(1e4), 1.0, &Array::scalar(offset)?, None)
        };
        let (q, k) = (rope(3)?, rope(2)?);
        Ok(vec![fast::scaled_dot_product_attention(&q, &k, &heads, 0.3, Mask::None)?])
    });
}
