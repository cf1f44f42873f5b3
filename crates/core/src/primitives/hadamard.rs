//! The Hadamard transform.

use super::{Exact, Family, Input, SpecRef, Specs, spec::one};
use crate::Dtype;

/// A Hadamard transform of the last axis, of `m * power` elements: the Kronecker product of a
/// Hadamard matrix of order `m` with Sylvester's of order `power`, times `scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hadamard {
    /// Order of the first factor: 1, 12, 20 or 28.
    pub m: usize,
    /// Order of the second factor, a power of two.
    pub power: usize,
    /// Factor of the result.
    pub scale: Exact<f32>,
}

impl Hadamard {
    /// The transform of `n` elements, if there is one.
    pub fn of(n: usize, scale: f32) -> Option<Hadamard> {
        let fits = |&m: &usize| n.is_multiple_of(m) && (n / m).is_power_of_two();
        let m = [1, 12, 20, 28].into_iter().find(fits)?;
        Some(Hadamard { m, power: n / m, scale: Exact(scale) })
    }

    /// Signs of row `row` of the matrix of order `m`: bit `i` is set where element `i` is -1.
    /// The matrices are Sloane's had.12, had.20.pal and had.28.pal2
    /// (<http://neilsloane.com/hadamard/>), those of MLX.
    pub fn signs(self) -> &'static [u32] {
        match self.m {
            12 => &HADAMARD_12,
            20 => &HADAMARD_20,
            28 => &HADAMARD_28,
            _ => &[0],
        }
    }
}

impl Family for Hadamard {
    fn name(&self) -> &'static str {
        "Hadamard"
    }

    fn is_view(&self) -> bool {
        false
    }

    fn takes(&self, dtype: Dtype) -> bool {
        dtype.is_floating()
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let [a] = inputs else { return None };
        let transform = Hadamard::of(*a.shape.last()?, self.scale.0);
        (transform == Some(*self)).then(|| one(a.shape, a.dtype))?
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let transform = Hadamard::of(24, 0.25).expect("24 = 12 * 2");
        vec![(transform, vec![Input::new(&[2, 24], dtype)])]
    }
}

const HADAMARD_12: [u32; 12] =
    [0x2, 0xaab, 0x3c8, 0x96e, 0xf20, 0x5ba, 0xc8c, 0x6e6, 0x23c, 0xb96, 0x8f0, 0xe5a];

const HADAMARD_20: [u32; 20] = [
    0x933de, 0x2e3bd, 0x5477b, 0xa0ef7, 0x499ef, 0x637c1, 0xc6ba2, 0x8d764, 0x1aee8, 0x359f0,
    0xfa53, 0x174a7, 0x26d4e, 0x45e9c, 0x83d39, 0xf7a6d, 0xef4fa, 0xdedd5, 0xbdf8b, 0x7bf36,
];

const HADAMARD_28: [u32; 28] = [
    0xcd69e7e, 0x9ad7c7d, 0x37ab8fb, 0x6d571f7, 0xd8ae3ef, 0xb3587df, 0x66b4f3f, 0xb467f43,
    0x6acbe87, 0xd593d8e, 0xab27b9c, 0x564f7b8, 0xac9aff0, 0x5b31fe1, 0x87fb325, 0xff66ca,
    0x1decd95, 0x39ddb2a, 0x71bf654, 0xe17eca9, 0xc2fd9d2, 0xfcf1299, 0xfbe2532, 0xf7c4ae4,
    0xef8d549, 0xdf1ea13, 0xbe3d4a6, 0x7e7a94c,
];
