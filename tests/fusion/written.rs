//! Attention as programs write it out: a product with the keys, softmax, and a product with the values.

use mlx::{Array, Dtype, Result, ops};

use super::{agrees, noise, turn};

/// Where the scores' factor is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Factor {
    Query,
    /// Half of it in the keys.
    Both,
    Scores,
    /// The scores are divided.
    Divisor,
}

/// An attention of one sequence or more.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: usize,
    heads: usize,
    queries: usize,
    keys: usize,
    width: usize,
    dtype: Dtype,
    factor: Factor,
    mask: bool,
    /// Whether weights are computed in float32.
    wide: bool,
    /// Whether keys are dense along their features.
    dense: bool,
}

const SHAPE: Shape = Shape {
    batch: 1,
    heads: 4,
    queries: 24,
    keys: 40,
    width: 64,
    dtype: Dtype::Float16,
    factor: Factor::Query,
    mask: false,
    wide: false,
    dense: true,
};

impl Shape {
    /// Operations that become one: two products, softmax, and what is between them.
    fn operations(&self) -> u64 {
        let factors = if self.factor == Factor::Both { 2 } else { 1 };
        3 + factors + u64::from(self.mask) + 2 * u64::from(self.wide)
    }

    /// The attention; who sees what is inside also gets that, by its number.
    fn attention(&self, seen: Option<usize>) -> impl Fn() -> Result<Vec<Array>> {
        let Shape { batch, heads, queries, keys, width, dtype, factor, mask, wide, dense } = *self;
        let row = |seed, rows| noise(seed, &[batch, rows, heads * width], dtype);
        let (q, k, v) = (row(1, queries), row(2, keys), row(3, keys));
        let added = ops::multiply(noise(4, &[queries, keys], dtype), 4.0f32).unwrap();
        mlx::eval(&[&q, &k, &v, &added]).unwrap();
        move || {
            let split = |x: &Array, rows: usize, axes: &[isize]| {
                let shape = [batch, rows, heads, width].map(|size| size as isize);
                ops::transpose(&ops::reshape(x, &shape)?, axes)
            };
            let scale = (width as f32).powf(-0.5);
            let mut q = split(&q, queries, &[0, 2, 1, 3])?;
            let mut k = split(&k, keys, &[0, 2, 3, 1])?;
            if !dense {
                k = ops::contiguous(&k, false)?;
            }
            let v = split(&v, keys, &[0, 2, 1, 3])?;
            match factor {
                Factor::Query => q = ops::multiply(&q, scale)?,
                Factor::Both => {
                    q = ops::multiply(&q, scale.sqrt())?;
                    k = ops::multiply(&k, scale.sqrt())?;
                }
                _ => {}
            }
            let product = ops::matmul(&q, &k)?;
            let mut scores = match factor {
                Factor::Scores => ops::multiply(&product, scale)?,
                Factor::Divisor => ops::divide(&product, 1.0 / scale)?,
                _ => product.clone(),
            };
            if mask {
                scores = ops::add(&scores, &added)?;
            }
            if wide {
                scores = ops::astype(&scores, Dtype::Float32)?;
            }
            let weights = ops::softmax(&scores, &[-1], true)?;
            let weights = ops::astype(&weights, dtype)?;
            let out = ops::transpose(&ops::matmul(&weights, &v)?, &[0, 2, 1, 3])?;
            let mut results = vec![ops::reshape(&out, &[batch as isize, queries as isize, -1])?];
            let inside = [product, weights];
            results.extend(seen.map(|seen| inside[seen].clone()));
            Ok(results)
        }
    }

    fn is_one(&self) {
        agrees(&format!("{self:?}"), self.operations() - 1, self.dtype, &self.attention(None));
    }
}

#[test]
fn factors_and_masks() {
    let _turn = turn();
    for factor in [Factor::Query, Factor::Both, Factor::Scores, Factor::Divisor] {
        for (mask, wide) in [(false, false), (true, false), (true, true)] {
            Shape { factor, mask, wide, ..SHAPE }.is_one();
        }
    }
}

/// One query over caches of any length, several sequences, and widths of real models.
#[test]
fn every_kind_of_head() {
    let _turn = turn();
    let shapes = [
        Shape { queries: 1, keys: 1, ..SHAPE },
        Shape { queries: 1, keys: 300, factor: Factor::Both, ..SHAPE },
        Shape { queries: 1, keys: 77, dtype: Dtype::Float32, ..SHAPE },
        Shape { queries: 1, keys: 65, mask: true, dtype: Dtype::Bfloat16, ..SHAPE },
        Shape { batch: 3, queries: 17, keys: 33, dtype: Dtype::Bfloat16, ..SHAPE },
        Shape { batch: 2, heads: 3, width: 80, mask: true, ..SHAPE },
        Shape { heads: 2, queries: 100, keys: 100, width: 128, factor: Factor::Scores, ..SHAPE },
    ];
    shapes.iter().for_each(Shape::is_one);
}

/// Results inside that somebody sees, and keys whose features lie apart.
#[test]
fn others_are_left_alone() {
    let _turn = turn();
    for seen in 0..2 {
        agrees(&format!("{seen} is seen"), 0, SHAPE.dtype, &SHAPE.attention(Some(seen)));
    }
    let apart = Shape { dense: false, ..SHAPE };
    agrees("keys apart", 0, apart.dtype, &apart.attention(None));
}
