//! One token's attention over a growing cache of quantized keys and values, as mlx-lm writes it: two
//! quantized products with a softmax between them.

use mlx::{Array, Device, Dtype, Result, fast, fast::Mask, ops};
use mlx_tests::{array, values};

use super::{
    agrees, assert_close,
    attention::{LENGTHS, SHAPE, Shape},
    epsilon, fusing, largest, noise, run, turn,
};

/// A model's attention and the format of its cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cached {
    pub(super) shape: Shape,
    pub(super) bits: usize,
    pub(super) group: usize,
}

const CACHED: Cached = Cached { shape: SHAPE, bits: 4, group: 64 };

impl std::ops::Deref for Cached {
    type Target = Shape;

    fn deref(&self) -> &Shape {
        &self.shape
    }
}

const DTYPES: [Dtype; 3] = [Dtype::Bfloat16, Dtype::Float16, Dtype::Float32];

/// Words, scales and biases.
pub(super) type Parts = [Array; 3];

/// Operations of the products, softmax and scale that become part of one.
const PRODUCTS: u64 = 3;

pub(crate) fn all() {
    a_token_over_caches_of_every_length();
    every_kind_of_head();
    every_format();
    caches_that_are_held();
    quantizations_of_their_own();
    keys_and_values_as_they_are();
}

/// What a step starts from, made on the host.
struct Inputs {
    /// Projections of queries, keys and values.
    flat: [Array; 3],
    norms: [Array; 2],
    /// Keys and values.
    caches: [Parts; 2],
}

/// What is unlike a decoder's step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Twist {
    None,
    /// The caches before the update are results, too.
    Held,
    /// Scales and biases of the new key come from a quantization of their own.
    Torn,
    /// Scales of the new key go where biases belong.
    Swapped,
    /// Keys are not rotated.
    Unrotated,
    /// Every sequence has a position of its own.
    Positions,
    /// Heads that share keys are rows of one matrix.
    Rows,
    /// The first feature of the first head's query is no number.
    NoNumber,
}

impl Cached {
    fn inputs(&self, past: usize) -> Inputs {
        let flat = |seed, heads: usize| noise(seed, &[self.batch, heads * self.width], self.dtype);
        let cached = [self.batch, self.kv_heads, past + 1 + self.room, self.width];
        let cache = |seed| on_the_host(|| self.quantize(&noise(seed, &cached, self.dtype)));
        Inputs {
            flat: [flat(1, self.heads), flat(2, self.kv_heads), flat(3, self.kv_heads)],
            norms: [4, 5].map(|seed| noise(seed, &[self.width], self.dtype)),
            caches: [6, 7].map(cache),
        }
    }

    fn quantize(&self, x: &Array) -> Result<Parts> {
        let (words, scales, biases) = ops::quantize(x, self.group, self.bits)?;
        Ok([words, scales, biases])
    }

    fn dequantize(&self, [words, scales, biases]: &Parts) -> Result<Array> {
        ops::dequantize(words, scales, biases, self.group, self.bits)
    }

    /// `quantized_scaled_dot_product_attention` of mlx-lm, without a mask; `q` is (batch, heads, 1,
    /// features). With `rows` heads that share keys are rows of one matrix, as models of ours have it.
    pub(super) fn attend(
        &self,
        q: &Array,
        [keys, values]: [&Parts; 2],
        scale: Option<f32>,
        rows: bool,
    ) -> Result<Array> {
        let [batch, heads, kv_heads, width] =
            [self.batch, self.heads, self.kv_heads, self.width].map(|n| n as isize);
        let repeats = heads / kv_heads;
        let mut q = match scale {
            None => q.clone(),
            Some(scale) if repeats > 1 => ops::multiply(q, scale)?,
            Some(scale) => ops::multiply(scale, q.clone())?,
        };
        let expands = repeats > 1 && !rows;
        if rows {
            q = ops::reshape(&q, &[batch, kv_heads, repeats, width])?;
        } else if expands {
            q = ops::reshape(&q, &[batch, kv_heads, repeats, 1, width])?;
        }
        let product = |x: &Array, parts: &Parts, transpose| {
            let expanded = |i: usize| match expands {
                false => Ok(parts[i].clone()),
                true => ops::expand_dims(&parts[i], &[-3]),
            };
            let (words, scales, biases) = (expanded(0)?, expanded(1)?, expanded(2)?);
            ops::quantized_matmul(x, &words, &scales, &biases, transpose, self.group, self.bits)
        };
        let weights = ops::softmax(&product(&q, keys, true)?, &[-1], true)?;
        ops::reshape(&product(&weights, values, false)?, &[batch, heads, 1, width])
    }

    /// The step that a decoder takes: cache rows `..past` are filled, this token's is added. Results are the
    /// attention, and the parts of the keys and of the values.
    fn step(&self, past: usize, twist: Twist) -> impl Fn() -> Result<Vec<Array>> {
        let (shape, inputs) = (*self, self.inputs(past));
        move || {
            // Computed on the device and owned by nobody: what a fused kernel may swallow.
            let [mut q, k, v] = inputs.flat.each_ref().map(|a| ops::multiply(a, 1.5f32));
            if twist == Twist::NoNumber {
                let size = shape.heads * shape.width;
                let factors = [vec![f64::NAN], vec![1.0; size - 1]].concat();
                q = ops::multiply(&q?, array(&factors, &[1, size], shape.dtype));
            }
            let q = shape.heads_of(&q?, shape.heads, Some(&inputs.norms[0]))?;
            let offset = match twist {
                Twist::Positions => shape.positions(past),
                _ => Array::scalar(past as i32)?,
            };
            let q = shape.rotate(&q, &offset)?;
            let k = shape.heads_of(&k?, shape.kv_heads, Some(&inputs.norms[1]))?;
            let k = if twist == Twist::Unrotated { k } else { shape.rotate(&k, &offset)? };
            let v = shape.heads_of(&v?, shape.kv_heads, None)?;
            let mut rows = [shape.quantize(&k)?, shape.quantize(&v)?];
            if twist == Twist::Torn {
                let [_, scales, biases] = shape.quantize(&k)?;
                rows[0] = [rows[0][0].clone(), scales, biases];
            }
            if twist == Twist::Swapped {
                rows[0].swap(1, 2);
            }
            drop((k, v));
            let copies = [copies(&inputs.caches[0])?, copies(&inputs.caches[1])?];
            let held = if twist == Twist::Held { copies.concat() } else { Vec::new() };
            let updated = [write(&copies[0], &rows[0], past)?, write(&copies[1], &rows[1], past)?];
            drop((copies, rows));
            let [keys, values] = [seen(&updated[0], past + 1)?, seen(&updated[1], past + 1)?];
            let (scale, rows) = (Some(shape.scale()), twist == Twist::Rows);
            let out = shape.attend(&q, [&keys, &values], scale, rows)?;
            Ok([vec![out], updated.concat(), held].concat())
        }
    }

    /// Those of sequences that begin one after the other.
    fn positions(&self, past: usize) -> Array {
        let positions: Vec<f64> = (0..self.batch).map(|i| (past - i) as f64).collect();
        array(&positions, &[self.batch], Dtype::Int32)
    }

    /// Attention in float32 over the caches in `results`, of the same query.
    fn expected(&self, past: usize, results: &[Vec<f64>]) -> Vec<f64> {
        let inputs = self.inputs(past);
        let wide = |a: &Array| ops::astype(a, Dtype::Float32);
        let found = on_the_host(|| {
            let q = wide(&ops::multiply(&inputs.flat[0], 1.5f32)?)?;
            let q = self.heads_of(&q, self.heads, Some(&wide(&inputs.norms[0])?))?;
            let [keys, values] = [1, 4].map(|first| {
                let parts = [0, 1, 2].map(|part| {
                    let like = &inputs.caches[0][part];
                    array(&results[first + part], like.shape(), like.dtype())
                });
                wide(&self.dequantize(&seen(&parts, past + 1)?)?)
            });
            let (q, keys, values) =
                (self.rotate(&q, &Array::scalar(past as i32)?)?, keys?, values?);
            let out =
                fast::scaled_dot_product_attention(&q, &keys, &values, self.scale(), Mask::None)?;
            Ok([out])
        });
        values(&found[0])
    }

    /// Operations that become part of the attention: products, softmax and scale, norms, rotations,
    /// quantizations, and the caches' rows.
    fn fused(&self) -> u64 {
        PRODUCTS + 2 * (1 + u64::from(self.norm)) + 2 + 6
    }

    fn check(&self, past: usize) {
        self.check_twisted(past, Twist::None, self.fused());
    }

    /// The step on both devices, `fused` operations of which become part of others on Vulkan.
    fn check_twisted(&self, past: usize, twist: Twist, fused: u64) {
        let what = format!("{self:?} {twist:?} after {past}");
        let graph = self.step(past, twist);
        let (want, _) = run(Device::CPU, &graph);
        let (got, count) = run(Device::GPU, &graph);
        assert_eq!(count, if fusing() { fused } else { 0 }, "{what}: fused operations");
        assert_eq!(got[4..], want[4..], "{what}: values, and caches that are held");
        self.assert_same_keys(past, &what, &want[1..4], &got[1..4]);
        let expected = match twist {
            Twist::Positions => want[0].clone(),
            _ => self.expected(past, &got),
        };
        assert_close(&what, self.dtype, &expected, &got[0]);
    }

    /// The same keys but for the new ones, which may be rounded otherwise before they are quantized: scales
    /// may be one rounding apart and few fields one step.
    fn assert_same_keys(&self, past: usize, what: &str, want: &[Vec<f64>], got: &[Vec<f64>]) {
        let like = &self.inputs(past).caches[0];
        let [want, got] = [want, got].map(|parts| {
            let parts = [0, 1, 2].map(|i| array(&parts[i], like[i].shape(), like[i].dtype()));
            let keys = on_the_host(|| {
                let all = self.dequantize(&parts)?;
                let new = ops::slice_axis(&all, 2, past as isize, past as isize + 1)?;
                Ok([all, new])
            });
            (values(&keys[0]), values(&keys[1]), largest(&values(&parts[1])))
        });
        let apart = |a: &[f64], b: &[f64], least: f64| {
            a.iter().zip(b).filter(|(a, b)| (*a - *b).abs() > least).count()
        };
        let (new, step, rounding) = (want.1.len(), want.2, epsilon(self.dtype) * largest(&want.1));
        let changed = [apart(&want.0, &got.0, 0.0), apart(&want.1, &got.1, 0.0)];
        assert_eq!(changed[0], changed[1], "{what}: keys that were there");
        assert_eq!(apart(&want.1, &got.1, step + rounding), 0, "{what}: new keys");
        let moved = apart(&want.1, &got.1, rounding);
        assert!(moved <= new / 8, "{what}: {moved} of {new} new keys");
    }
}

/// Arrays that the CPU makes.
fn on_the_host<const N: usize>(make: impl FnOnce() -> Result<[Array; N]>) -> [Array; N] {
    let made = mlx::with_device(Device::CPU, || {
        let made = make()?;
        mlx::eval(&made.each_ref())?;
        Ok::<_, mlx::Error>(made)
    });
    made.unwrap().unwrap()
}

/// Copies on the device that computes.
fn copies([words, scales, biases]: &Parts) -> Result<Parts> {
    Ok([copied(words)?, copied(scales)?, copied(biases)?])
}

/// A copy of one part, or of a cache that is not quantized.
pub(super) fn copied(part: &Array) -> Result<Array> {
    match part.dtype() {
        Dtype::Uint32 => ops::multiply(part, 1i32),
        _ => ops::multiply(part, 1.0f32),
    }
}

/// Caches with a row after `past`.
fn write(caches: &Parts, rows: &Parts, past: usize) -> Result<Parts> {
    let one = |i: usize| written(&caches[i], &rows[i], past);
    Ok([one(0)?, one(1)?, one(2)?])
}

/// One part, or a cache that is not quantized, with a row after `past`.
pub(super) fn written(part: &Array, row: &Array, past: usize) -> Result<Array> {
    let at = past as isize;
    let stop = [part.dim(0) as isize, part.dim(1) as isize, at + 1, part.dim(3) as isize];
    ops::slice_update(part, row, &[0, 0, at, 0], &stop, &[1; 4])
}

/// The first `count` rows.
fn seen(caches: &Parts, count: usize) -> Result<Parts> {
    let first = |i: usize| ops::slice_axis(&caches[i], 2, 0, count as isize);
    Ok([first(0)?, first(1)?, first(2)?])
}

#[test]
fn tokens_of_several_sequences() {
    let _turn = turn();
    for (batch, heads, kv_heads, past) in [(2, 4, 2, 7), (3, 3, 1, 64), (2, 2, 2, 300)] {
        let shape = Shape { batch, heads, kv_heads, ..SHAPE };
        Cached { shape, bits: 8, ..CACHED }.check(past);
    }
    let shape = Shape { batch: 3, dtype: Dtype::Float32, ..SHAPE };
    let apart = Cached { shape, bits: 8, ..CACHED };
    apart.check_twisted(31, Twist::Positions, apart.fused());
}

/// Of one sequence and of several, with and without heads that share keys.
#[test]
fn heads_that_are_rows_of_one_matrix() {
    let _turn = turn();
    for (batch, heads, kv_heads, past) in
        [(1, 4, 2, 9), (1, 6, 1, 300), (2, 4, 2, 31), (1, 2, 2, 64)]
    {
        let shape = Shape { batch, heads, kv_heads, ..SHAPE };
        let cached = Cached { shape, bits: 8, ..CACHED };
        cached.check_twisted(past, Twist::Rows, cached.fused());
    }
}

#[test]
pub(crate) fn a_token_over_caches_of_every_length() {
    let _turn = turn();
    for past in LENGTHS {
        CACHED.check(past);
    }
    let full = Cached { shape: Shape { room: 0, ..SHAPE }, ..CACHED };
    full.check(20);
    CACHED.check(0);
    // Without room for more, the new row is the cache.
    full.check_twisted(0, Twist::None, PRODUCTS);
}

/// So many keys for a workgroup that two of them are asked for ahead.
#[test]
fn long_splits() {
    let one_split = ("MLX_VK_SDPA_SPLIT_K", "1");
    mlx_tests::in_child("quantized_attention::long_splits", &[one_split], || {
        let _turn = turn();
        for (past, bits) in [(511, 8), (600, 4), (777, 8)] {
            let shape = Shape { room: 9, ..SHAPE };
            Cached { shape, bits, ..CACHED }.check(past);
        }
    });
}

/// So many keys that cooperative matrices take them, where there are such: heads that share keys, keys that
/// are whole rounds and not, and several sequences. With groups of 32 they do not.
#[test]
fn caches_that_are_long() {
    let _turn = turn();
    let (half, brain) = (Dtype::Float16, Dtype::Bfloat16);
    let cases = [
        (1, [10, 10], 64, 8, 64, brain, 6566),
        (1, [32, 8], 128, 8, 64, brain, 5131),
        (1, [24, 8], 128, 4, 64, half, 5119),
        (1, [64, 8], 64, 4, 64, brain, 5137),
        (1, [16, 8], 128, 8, 32, half, 5130),
        (3, [6, 3], 128, 8, 64, half, 4601),
    ];
    for (batch, [heads, kv_heads], width, bits, group, dtype, past) in cases {
        let norm = bits == 8;
        let shape = Shape { batch, heads, kv_heads, width, norm, dtype, room: 5, ..SHAPE };
        Cached { shape, bits, group }.check(past);
    }
}

/// The same with more keys for a workgroup, so that two rounds of them are on their way, and no room for more
/// rows.
fn in_splits(test: &str, splits: &str) {
    mlx_tests::in_child(test, &[("MLX_VK_SDPA_SPLIT_K", splits)], || {
        let _turn = turn();
        for (bits, room, past) in [(8, 0, 5131), (4, 3, 5119)] {
            let (width, dtype) = (128, Dtype::Bfloat16);
            let shape = Shape { batch: 1, heads: 16, kv_heads: 8, width, dtype, room, ..SHAPE };
            Cached { shape, bits, group: 64 }.check(past);
        }
    });
}

#[test]
fn six_splits_of_long_caches() {
    in_splits("quantized_attention::six_splits_of_long_caches", "6");
}

#[test]
fn nine_splits_of_long_caches() {
    in_splits("quantized_attention::nine_splits_of_long_caches", "9");
}

/// What is no number stays none in all of its head, and in no other, over short caches and long ones.
#[test]
fn queries_that_are_no_numbers() {
    let _turn = turn();
    for (heads, kv_heads, past) in [(4, 2, 40), (32, 8, 2200)] {
        let (width, dtype) = (128, Dtype::Float16);
        let shape = Shape { heads, kv_heads, width, dtype, ..SHAPE };
        let cached = Cached { shape, bits: 8, ..CACHED };
        let (got, _) = run(Device::GPU, &cached.step(past, Twist::NoNumber));
        let (hurt, others) = got[0].split_at(width);
        assert!(hurt.iter().all(|x| x.is_nan()), "{heads} heads after {past}: {hurt:?}");
        assert!(others.iter().all(|x| x.is_finite()), "{heads} heads after {past}: {others:?}");
    }
}

#[test]
fn every_kind_of_head() {
    let _turn = turn();
    let kinds = [(2, 2, 128), (6, 2, 64), (4, 2, 192), (8, 2, 256), (16, 2, 128), (4, 1, 64)];
    for (i, dtype) in DTYPES.into_iter().enumerate() {
        for (k, (heads, kv_heads, width)) in kinds.into_iter().enumerate() {
            // Pipelines take long: half of the combinations, with both kinds for every dtype and shape.
            let norm = (i + k) % 2 == 0;
            let traditional = !norm;
            let shape = Shape { heads, kv_heads, width, norm, traditional, dtype, ..SHAPE };
            Cached { shape, ..CACHED }.check(40);
        }
    }
}

#[test]
fn every_format() {
    let _turn = turn();
    for (i, bits) in [2, 3, 4, 5, 6, 8].into_iter().enumerate() {
        for (k, group) in [32, 64, 128].into_iter().enumerate() {
            let dtype = DTYPES[(i + k) % 3];
            let shape = Shape { width: 128, dtype, ..SHAPE };
            Cached { shape, bits, group }.check(13);
        }
    }
}

/// Caches that somebody still looks at are not written in place.
#[test]
fn caches_that_are_held() {
    let _turn = turn();
    CACHED.check_twisted(20, Twist::Held, 0);
}

/// Rows that are no quantization's words, scales and biases, and keys that are not rotated: the
/// products read what others made.
#[test]
fn quantizations_of_their_own() {
    let _turn = turn();
    for twist in [Twist::Torn, Twist::Swapped, Twist::Unrotated] {
        CACHED.check_twisted(20, twist, PRODUCTS);
    }
}

/// Without anything before it: queries, keys and values as they are.
#[test]
fn keys_and_values_as_they_are() {
    let _turn = turn();
    let sizes = [
        (1, 6, 3, 64, 32),
        (9, 2, 2, 128, 32),
        (257, 4, 1, 64, 32),
        (1000, 6, 3, 192, 32),
        (5200, 16, 8, 128, 64),
    ];
    for (count, heads, kv_heads, width, group) in sizes {
        for dtype in [Dtype::Float16, Dtype::Float32] {
            let shape = Shape { heads, kv_heads, width, dtype, ..SHAPE };
            let shape = Cached { shape, bits: 8, group };
            let q = noise(8, &[1, heads, 1, width], dtype);
            let side = |seed| {
                let full = noise(seed, &[1, kv_heads, count + 3, width], dtype);
                on_the_host(|| shape.quantize(&full))
            };
            let [keys, values] = [9, 10].map(side);
            for (scale, fused) in [(Some(0.5), PRODUCTS), (None, PRODUCTS - 1)] {
                let what = format!("{count} keys of {shape:?}, scaled by {scale:?}");
                // Scores are of one size either way: halves round larger ones by more than epsilon.
                let before = if scale.is_some() { 1.0f32 } else { 0.5 };
                let [q] = on_the_host(|| Ok([ops::multiply(&q, before)?]));
                agrees(&what, fused, dtype, &|| {
                    let [keys, values] = [seen(&keys, count)?, seen(&values, count)?];
                    Ok(vec![shape.attend(&q, [&keys, &values], scale, false)?])
                });
            }
        }
    }
}

/// Weights that somebody wants are made, and several queries take products for many rows.
#[test]
fn what_is_more_than_one_token_s_attention() {
    let _turn = turn();
    let format = Cached { shape: Shape { dtype: Dtype::Float32, ..SHAPE }, ..CACHED };
    let [keys, values] = [9, 10]
        .map(|seed| on_the_host(|| format.quantize(&noise(seed, &[1, 2, 12, 64], Dtype::Float32))));
    for (queries, held) in [(1, true), (3, false)] {
        let q = noise(8, &[1, 2, queries, 64], Dtype::Float32);
        agrees(&format!("{queries} queries, held: {held}"), 0, Dtype::Float32, &|| {
            let product = |x: &Array, [words, scales, biases]: &Parts, transpose| {
                ops::quantized_matmul(x, words, scales, biases, transpose, 64, 4)
            };
            let weights = ops::softmax(&product(&q, &keys, true)?, &[-1], true)?;
            let out = product(&weights, &values, false)?;
            Ok(if held { vec![out, weights] } else { vec![out] })
        });
    }
}

/// Two caches may be decoded in turns in one evaluation.
#[test]
fn two_sequences_in_one_evaluation() {
    let _turn = turn();
    let (a, b) = (CACHED.step(20, Twist::None), CACHED.step(33, Twist::None));
    let both = || Ok([a()?, b()?].concat());
    let (got, fused) = run(Device::GPU, &both);
    assert_eq!(fused, if fusing() { 2 * CACHED.fused() } else { 0 });
    for (past, results) in [(20, &got[..7]), (33, &got[7..])] {
        let want = CACHED.expected(past, results);
        assert_close(&format!("after {past}"), SHAPE.dtype, &want, &results[0]);
    }
}
