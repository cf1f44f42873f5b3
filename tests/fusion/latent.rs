//! One token's attention over caches of latent features and of others with positions, as mlx-lm's DeepSeek-V3
//! and GLM-4.7-Flash write it.

use mlx::{Array, Dtype, Result, fast, fast::Mask, ops};

use super::{agrees, noise, turn};

/// A model's attention.
#[derive(Clone, Copy, Debug)]
struct Shape {
    heads: usize,
    /// Features of a query that become latent ones, and those.
    plain: usize,
    latent: usize,
    /// Features with positions.
    rotated: usize,
    traditional: bool,
    dtype: Dtype,
    /// Rows of the caches behind the new one.
    room: usize,
    /// Whether the norm has a weight, and whether heads of the query have positions of their own.
    weighed: bool,
    apart: bool,
}

const SHAPE: Shape = Shape {
    heads: 4,
    plain: 24,
    latent: 128,
    rotated: 32,
    traditional: true,
    dtype: Dtype::Bfloat16,
    room: 5,
    weighed: true,
    apart: false,
};

/// Operations that become one: the norm, two rotations, two rows, the product, its scale and the attention.
const FUSED: u64 = 7;

impl Shape {
    /// The step of a token behind `past` rows; who sees what is inside also gets that, by its number.
    fn step(&self, past: usize, seen: Option<usize>) -> impl Fn() -> Result<Vec<Array>> {
        let Shape { heads, plain, latent, rotated, traditional, dtype, room, weighed, apart } =
            *self;
        let both = plain + rotated;
        let q = noise(1, &[1, 1, heads * both], dtype);
        let kv = noise(2, &[1, 1, latent + rotated], dtype);
        let weight = noise(3, &[latent], dtype);
        let embed = noise(4, &[heads, latent, plain], dtype);
        let rows = past + 1 + room;
        let caches = [(5, latent), (6, rotated)].map(|(seed, width)| {
            let cache = noise(seed, &[1, 1, rows, width], dtype);
            cache.eval().unwrap();
            cache
        });
        mlx::eval(&[&q, &kv, &weight, &embed]).unwrap();
        move || {
            let count = past as isize + 1;
            let q = ops::reshape(&q, &[1, 1, heads as isize, both as isize])?;
            let q = ops::transpose(&q, &[0, 2, 1, 3])?;
            let part = |x: &Array, from: usize, to: usize| {
                ops::slice_axis(x, x.ndim() as isize - 1, from as isize, to as isize)
            };
            let offset = Array::scalar(past as i32)?;
            let rotate =
                |x: &Array| fast::rope(x, rotated, traditional, Some(1e4), 1.0, &offset, None);
            let queries = part(&q, plain, both)?;
            let queries = match apart {
                false => rotate(&queries)?,
                // As if heads were tokens.
                true => ops::transpose(
                    &rotate(&ops::transpose(&queries, &[0, 2, 1, 3])?)?,
                    &[0, 2, 1, 3],
                )?,
            };
            let key =
                ops::reshape(&part(&kv, latent, latent + rotated)?, &[1, 1, 1, rotated as isize])?;
            let key = rotate(&ops::transpose(&key, &[0, 2, 1, 3])?)?;
            let normed = fast::rms_norm(&part(&kv, 0, latent)?, weighed.then_some(&weight), 1e-5)?;
            let new = [ops::expand_dims(&normed, &[1])?, key];
            // The caches of a model are its own.
            let mut updated = Vec::new();
            for (cache, row) in caches.iter().zip(&new) {
                let cache = ops::multiply(cache, 1.0f32)?;
                let (start, stop) = ([0, 0, count - 1, 0], cache.shape().to_vec());
                let stop = [1, 1, count, stop[3] as isize];
                updated.push(ops::slice_update(&cache, row, &start, &stop, &[1; 4])?);
            }
            let filled = |i: usize| ops::slice_axis(&updated[i], 2, 0, count);
            let (latents, keys) = (filled(0)?, filled(1)?);
            let scale = 1.5 / (both as f32).sqrt();
            let scores = ops::matmul(
                &ops::multiply(&queries, scale)?,
                &ops::transpose(&keys, &[0, 1, 3, 2])?,
            )?;
            let plain = ops::matmul(&part(&q, 0, plain)?, &ops::transpose(&embed, &[0, 2, 1])?)?;
            let mask = Mask::Array(&scores);
            let out = fast::scaled_dot_product_attention(&plain, &latents, &latents, scale, mask)?;
            let mut results = vec![ops::transpose(&out, &[0, 2, 1, 3])?];
            results.extend(updated.iter().cloned());
            let inside = [queries, scores, normed];
            results.extend(seen.map(|seen| inside[seen].clone()));
            Ok(results)
        }
    }
}

/// Around all that subgroups and workgroups take at a time.
#[test]
fn caches_of_every_length() {
    let _turn = turn();
    for past in [0, 1, 3, 4, 31, 32, 63, 64, 65, 200, 700] {
        let step = SHAPE.step(past, None);
        agrees(&format!("{past} rows"), FUSED, SHAPE.dtype, &step);
    }
}

/// Those of GLM-4.7-Flash and DeepSeek-V3, features that are no whole rounds of lanes, and one head a
/// workgroup.
#[test]
fn every_kind_of_head() {
    let _turn = turn();
    let shapes = [
        Shape { heads: 20, plain: 192, latent: 512, rotated: 64, ..SHAPE },
        Shape { heads: 3, latent: 200, rotated: 8, dtype: Dtype::Float16, ..SHAPE },
        Shape { heads: 16, plain: 128, latent: 512, rotated: 128, traditional: false, ..SHAPE },
        Shape { room: 0, latent: 8, ..SHAPE },
    ];
    for shape in shapes {
        for past in [2, 150] {
            agrees(&format!("{shape:?} {past} rows"), FUSED, shape.dtype, &shape.step(past, None));
        }
    }
}

/// Float32, features that are no octets or too many, norms without a weight, positions of heads, and results
/// inside that somebody sees.
#[test]
fn others_are_left_alone() {
    let _turn = turn();
    let others = [
        Shape { dtype: Dtype::Float32, ..SHAPE },
        Shape { latent: 100, ..SHAPE },
        Shape { latent: 520, ..SHAPE },
        Shape { weighed: false, ..SHAPE },
        Shape { apart: true, ..SHAPE },
    ];
    for shape in others {
        agrees(&format!("{shape:?}"), 0, shape.dtype, &shape.step(20, None));
    }
    for seen in 0..3 {
        agrees(&format!("{seen} is seen"), 0, SHAPE.dtype, &SHAPE.step(20, Some(seen)));
    }
}
