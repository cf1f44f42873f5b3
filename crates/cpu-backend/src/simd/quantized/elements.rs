//! What packed elements stand for: integers, or small floats.

use half::f16;

use crate::simd::{Isa, LANES};

/// What the fields of a word stand for.
pub(super) trait Fields {
    /// Bits of a field: 2 or 4.
    const BITS: usize;

    /// Field `i` of every word.
    fn one<I: Isa>(isa: I, words: I::W, i: usize) -> I::F;
    /// Field `i` of the lower and of the upper half of every word, as a pair of bfloat16; asked for
    /// only where [`Isa::PAIRS`] is true.
    fn pair<I: Isa>(isa: I, words: I::W, i: usize) -> I::W;
}

/// What bytes, each with one element, stand for.
pub(super) trait Bytes {
    fn load<I: Isa>(isa: I, codes: &[u8; LANES]) -> I::F;
}

/// Unsigned integers of so many bits.
pub(super) struct Integers<const BITS: usize>;
/// Floats of four bits: a sign, two of exponent, one of mantissa.
pub(super) struct E2m1;
/// Floats of eight bits: a sign, four of exponent, three of mantissa.
pub(super) struct E4m3;

impl<const BITS: usize> Fields for Integers<BITS> {
    const BITS: usize = BITS;

    #[inline(always)]
    fn one<I: Isa>(isa: I, words: I::W, i: usize) -> I::F {
        isa.field::<BITS>(words, i)
    }
    #[inline(always)]
    fn pair<I: Isa>(isa: I, words: I::W, i: usize) -> I::W {
        isa.pair_field::<BITS>(words, i)
    }
}

impl<const BITS: usize> Bytes for Integers<BITS> {
    #[inline(always)]
    fn load<I: Isa>(isa: I, codes: &[u8; LANES]) -> I::F {
        isa.load_u8(codes)
    }
}

impl Fields for E2m1 {
    const BITS: usize = 4;

    #[inline(always)]
    fn one<I: Isa>(isa: I, words: I::W, i: usize) -> I::F {
        isa.e2m1(words, i)
    }
    #[inline(always)]
    fn pair<I: Isa>(isa: I, words: I::W, i: usize) -> I::W {
        isa.pair_e2m1(words, i)
    }
}

impl Bytes for E2m1 {
    #[inline(always)]
    fn load<I: Isa>(isa: I, codes: &[u8; LANES]) -> I::F {
        let mut words = [0u32; LANES];
        for (word, &code) in words.iter_mut().zip(codes) {
            *word = u32::from(code);
        }
        isa.e2m1(isa.words(&words), 0)
    }
}

impl Bytes for E4m3 {
    /// A float16 with these bits is 2^8 smaller, and machines convert it without a detour where it is
    /// subnormal.
    #[inline(always)]
    fn load<I: Isa>(isa: I, codes: &[u8; LANES]) -> I::F {
        let mut bits = [0u16; LANES];
        for (bits, &code) in bits.iter_mut().zip(codes) {
            let (sign, size) = (u16::from(code & 0x80), u16::from(code & 0x7f));
            let size = if size == 0x7f { f16::NAN.to_bits() } else { size << 7 };
            *bits = sign << 8 | size;
        }
        let halves: &[f16; LANES] = bytemuck::cast_ref(&bits);
        isa.mul(isa.load_f16(halves), isa.splat(256.0))
    }
}

/// Powers of two with these exponents, biased by 127; the least one is 2^-127.
#[inline(always)]
pub(super) fn powers<I: Isa>(isa: I, exponents: &[u8; LANES]) -> I::F {
    let mut bits = [0u32; LANES];
    for (bits, &exponent) in bits.iter_mut().zip(exponents) {
        *bits = (u32::from(exponent) << 23).max(1 << 22);
    }
    isa.as_floats(isa.words(&bits))
}

/// Unpacks fields of `bits` to bytes; `out` holds a multiple of 32.
#[inline(always)]
pub(super) fn unpack<I: Isa>(isa: I, bits: usize, words: &[u32], out: &mut [u8]) {
    match bits {
        2 => unpack_bits::<I, 2>(isa, words, out),
        3 => unpack_bits::<I, 3>(isa, words, out),
        4 => unpack_bits::<I, 4>(isa, words, out),
        5 => unpack_bits::<I, 5>(isa, words, out),
        6 => unpack_bits::<I, 6>(isa, words, out),
        _ => out.copy_from_slice(bytemuck::cast_slice(words)),
    }
}

#[inline(always)]
fn unpack_bits<I: Isa, const BITS: usize>(isa: I, words: &[u32], out: &mut [u8]) {
    let bytes: &[u8] = bytemuck::cast_slice(words);
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let bytes = &bytes[i * BITS..];
        let eight = match bytes.first_chunk::<8>() {
            Some(eight) => *eight,
            None => {
                let mut eight = [0; 8];
                eight[..bytes.len()].copy_from_slice(bytes);
                eight
            }
        };
        *out = isa.unpack8::<BITS>(u64::from_le_bytes(eight)).to_le_bytes();
    }
}
