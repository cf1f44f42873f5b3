//! Group norm as mlx.nn writes it where it agrees with PyTorch, with a weight, a bias and silu behind it.

use mlx::{Array, Dtype, Result, fast, ops};

use super::{agrees, noise, turn};

/// What follows the norm.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behind {
    Nothing,
    Affine,
    Silu,
    /// A weight, and a bias that is as large as the image.
    Residual,
}

/// Images.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: usize,
    sides: [usize; 2],
    groups: usize,
    /// Channels of a group.
    each: usize,
    dtype: Dtype,
    behind: Behind,
    /// What all elements are about.
    level: f32,
}

const SHAPE: Shape = Shape {
    batch: 2,
    sides: [5, 7],
    groups: 4,
    each: 6,
    dtype: Dtype::Float16,
    behind: Behind::Silu,
    level: 0.0,
};

impl Shape {
    /// Operations that become one: two copies and the norm, and what follows.
    fn operations(&self) -> u64 {
        match self.behind {
            Behind::Nothing | Behind::Residual => 3,
            Behind::Affine => 5,
            Behind::Silu => 7,
        }
    }

    /// The norm; who sees what is inside also gets the rows that are normalized.
    fn norm(&self, seen: bool) -> impl Fn() -> Result<Vec<Array>> {
        let Shape { batch, sides: [high, wide], groups, each, dtype, behind, level } = *self;
        let image = [batch, high, wide, groups * each];
        let x = ops::add(noise(1, &image, dtype), level).unwrap();
        let [weight, bias] = [2, 3].map(|seed| noise(seed, &[groups * each], dtype));
        let other = noise(4, &image, dtype);
        mlx::eval(&[&x, &weight, &bias, &other]).unwrap();
        let size = |sizes: &[usize]| sizes.iter().map(|&size| size as isize).collect::<Vec<_>>();
        move || {
            let split = ops::reshape(&x, &size(&[batch, high * wide, groups, each]))?;
            let turned = ops::transpose(&split, &[0, 2, 1, 3])?;
            let rows = ops::reshape(&turned, &[batch as isize, groups as isize, -1])?;
            let normed = fast::layer_norm(&rows, None, None, 1e-5)?;
            let split = ops::reshape(&normed, &size(&[batch, groups, high * wide, each]))?;
            let turned = ops::transpose(&split, &[0, 2, 1, 3])?;
            let mut y = ops::reshape(&turned, &size(&image))?;
            if behind != Behind::Nothing {
                y = ops::multiply(&weight, &y)?;
                y = ops::add(&y, if behind == Behind::Residual { &other } else { &bias })?;
            }
            if behind == Behind::Silu {
                y = ops::multiply(&y, &ops::sigmoid(&y)?)?;
            }
            let mut results = vec![y];
            results.extend(seen.then_some(rows));
            Ok(results)
        }
    }

    fn is_one(&self) {
        agrees(&format!("{self:?}"), self.operations() - 1, self.dtype, &self.norm(false));
    }
}

#[test]
fn what_may_follow() {
    let _turn = turn();
    for dtype in [Dtype::Float16, Dtype::Bfloat16, Dtype::Float32] {
        for behind in [Behind::Nothing, Behind::Affine, Behind::Silu, Behind::Residual] {
            Shape { dtype, behind, ..SHAPE }.is_one();
        }
    }
}

/// Sides of real models, groups that share a quad, one position, and elements far from zero.
#[test]
fn images_of_all_sizes() {
    let _turn = turn();
    let shapes = [
        Shape { batch: 1, sides: [64, 64], groups: 32, each: 10, ..SHAPE },
        Shape { batch: 1, sides: [33, 40], groups: 32, each: 4, dtype: Dtype::Float32, ..SHAPE },
        Shape { sides: [3, 3], groups: 32, each: 80, ..SHAPE },
        Shape { sides: [1, 1], groups: 2, each: 2, behind: Behind::Affine, ..SHAPE },
        Shape { groups: 1, each: 4, ..SHAPE },
        Shape { groups: 128, each: 1, dtype: Dtype::Float32, ..SHAPE },
        Shape { level: 100.0, dtype: Dtype::Float32, behind: Behind::Affine, ..SHAPE },
    ];
    shapes.iter().for_each(Shape::is_one);
}

/// Channels that are no quads, too many groups, and rows that somebody sees.
#[test]
fn others_are_left_alone() {
    let _turn = turn();
    for (groups, each) in [(3, 3), (256, 1)] {
        let shape = Shape { groups, each, ..SHAPE };
        agrees(&format!("{shape:?}"), 0, shape.dtype, &shape.norm(false));
    }
    agrees("rows are seen", 0, SHAPE.dtype, &SHAPE.norm(true));
}
