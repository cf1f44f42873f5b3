//! Plain Rust: what the compiler makes of it on any machine.

use half::f16;

use super::{Isa, LANES, isa::E2M1};

/// No instruction beyond the target's own.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

type F = [f32; LANES];

#[inline(always)]
fn each(f: impl Fn(usize) -> f32) -> F {
    std::array::from_fn(f)
}

impl Isa for Portable {
    type F = F;
    type W = [u32; LANES];

    #[inline(always)]
    fn splat(self, x: f32) -> F {
        [x; LANES]
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> F {
        *x
    }
    #[inline(always)]
    fn store(self, x: F, out: &mut [f32; LANES]) {
        *out = x;
    }
    #[inline(always)]
    fn load_f16(self, x: &[f16; LANES]) -> F {
        each(|i| x[i].to_f32())
    }
    #[inline(always)]
    fn store_f16(self, x: F, out: &mut [f16; LANES]) {
        out.iter_mut().zip(x).for_each(|(o, x)| *o = f16::from_f32(x));
    }
    #[inline(always)]
    fn load_u8(self, x: &[u8; LANES]) -> F {
        each(|i| x[i] as f32)
    }
    #[inline(always)]
    fn words(self, x: &[u32; LANES]) -> [u32; LANES] {
        *x
    }
    #[inline(always)]
    fn words_upto(self, x: &[u32]) -> [u32; LANES] {
        super::lanes::partial(x)
    }
    #[inline(always)]
    fn words_u16(self, x: &[u16; LANES]) -> [u32; LANES] {
        x.map(u32::from)
    }

    #[inline(always)]
    fn add(self, a: F, b: F) -> F {
        each(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn sub(self, a: F, b: F) -> F {
        each(|i| a[i] - b[i])
    }
    #[inline(always)]
    fn mul(self, a: F, b: F) -> F {
        each(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn fma(self, a: F, b: F, c: F) -> F {
        each(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn max(self, a: F, b: F) -> F {
        each(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn round(self, a: F) -> F {
        // Adding 1.5 * 2^23 leaves no bits for a fraction.
        const MAGIC: f32 = 12_582_912.0;
        each(|i| (a[i] + MAGIC) - MAGIC)
    }
    #[inline(always)]
    fn pow2(self, n: F) -> F {
        each(|i| f32::from_bits(((n[i] as i32).wrapping_add(127) as u32) << 23))
    }
    #[inline(always)]
    fn sum(self, a: F) -> f32 {
        let mut width = LANES / 2;
        let mut a = a;
        while width > 0 {
            (0..width).for_each(|i| a[i] += a[i + width]);
            width /= 2;
        }
        a[0]
    }

    #[inline(always)]
    fn as_floats(self, a: [u32; LANES]) -> F {
        a.map(f32::from_bits)
    }
    #[inline(always)]
    fn shl<const N: u32>(self, a: [u32; LANES]) -> [u32; LANES] {
        a.map(|a| a << N)
    }
    #[inline(always)]
    fn field<const BITS: usize>(self, a: [u32; LANES], i: usize) -> F {
        each(|l| (a[l] >> (i * BITS) & ((1 << BITS) - 1)) as f32)
    }
    #[inline(always)]
    fn e2m1(self, a: [u32; LANES], i: usize) -> F {
        each(|l| E2M1[(a[l] >> (4 * i) & 15) as usize])
    }
    #[inline(always)]
    fn repeat<const PER: usize>(self, x: &[f32; 8]) -> F {
        each(|l| x[l / PER])
    }
    #[inline(always)]
    fn unpack8<const BITS: usize>(self, x: u64) -> u64 {
        let mask = (1u64 << BITS) - 1;
        (0..8).fold(0, |out, i| out | (x >> (i * BITS) & mask) << (8 * i))
    }
}
