//! Element types that load as float32 lanes.

use half::{bf16, f16};

use super::{Isa, LANES};

/// An element type that is computed with in float32.
pub(crate) trait Lanes: Copy + Default + Send + Sync + 'static {
    /// As many bfloat16 add up to any finite element exactly: its upper 16 bits as float32, then
    /// those of what is left.
    const PARTS: usize;
    /// Signed bytes that an element is split into: with two it is off by 2^-16 of the largest one of its
    /// group, with three by 2^-24.
    const BYTES: usize;

    /// Loads sixteen elements.
    fn load<I: Isa>(isa: I, x: &[Self; LANES]) -> I::F;
    /// Loads at most sixteen elements, then zeros.
    fn load_upto<I: Isa>(isa: I, x: &[Self]) -> I::F;
    /// Rounds to nearest even and stores.
    fn store<I: Isa>(isa: I, x: I::F, out: &mut [Self; LANES]);
}

impl Lanes for f32 {
    const PARTS: usize = 3;
    const BYTES: usize = 3;

    #[inline(always)]
    fn load<I: Isa>(isa: I, x: &[f32; LANES]) -> I::F {
        isa.load(x)
    }
    #[inline(always)]
    fn load_upto<I: Isa>(isa: I, x: &[f32]) -> I::F {
        isa.as_floats(isa.words_upto(bytemuck::cast_slice(x)))
    }
    #[inline(always)]
    fn store<I: Isa>(isa: I, x: I::F, out: &mut [f32; LANES]) {
        isa.store(x, out);
    }
}

impl Lanes for f16 {
    const PARTS: usize = 2;
    const BYTES: usize = 3;

    #[inline(always)]
    fn load<I: Isa>(isa: I, x: &[f16; LANES]) -> I::F {
        isa.load_f16(x)
    }
    #[inline(always)]
    fn load_upto<I: Isa>(isa: I, x: &[f16]) -> I::F {
        isa.load_f16_upto(x)
    }
    #[inline(always)]
    fn store<I: Isa>(isa: I, x: I::F, out: &mut [f16; LANES]) {
        isa.store_f16(x, out);
    }
}

impl Lanes for bf16 {
    const PARTS: usize = 1;
    const BYTES: usize = 2;

    #[inline(always)]
    fn load<I: Isa>(isa: I, x: &[bf16; LANES]) -> I::F {
        let bits: &[u16; LANES] = bytemuck::cast_ref(x);
        isa.as_floats(isa.shl::<16>(isa.words_u16(bits)))
    }
    #[inline(always)]
    fn load_upto<I: Isa>(isa: I, x: &[bf16]) -> I::F {
        isa.as_floats(isa.shl::<16>(isa.words_u16_upto(bytemuck::cast_slice(x))))
    }
    #[inline(always)]
    fn store<I: Isa>(isa: I, x: I::F, out: &mut [bf16; LANES]) {
        let mut wide = [0.0f32; LANES];
        isa.store(x, &mut wide);
        out.iter_mut().zip(wide).for_each(|(o, x)| *o = round_to_bf16(x));
    }
}

/// Rounds to nearest even without branches; NaN stays NaN.
#[inline(always)]
fn round_to_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
    let nan = bits >> 16 | 0x40;
    bf16::from_bits(if x.is_nan() { nan } else { rounded } as u16)
}

/// The elements of a slice of at most sixteen, then zeros.
#[inline(always)]
pub(super) fn partial<T: Copy + Default>(x: &[T]) -> [T; LANES] {
    let mut out = [T::default(); LANES];
    out[..x.len()].copy_from_slice(x);
    out
}
