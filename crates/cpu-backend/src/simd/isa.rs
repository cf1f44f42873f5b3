//! The operations that kernels are written in.

use half::f16;
use mlx_vulkan_core::primitives::FpMode;

use super::{LANES, lanes::partial};

/// Sixteen lanes of float32 and of 32-bit words, and what an instruction set can do with them.
///
/// A value of an implementing type is a proof that its instructions can run here.
pub(crate) trait Isa: Copy {
    /// Sixteen float32.
    type F: Copy;
    /// Sixteen 32-bit words.
    type W: Copy;
    /// Whether there are products of bfloat16 pairs: [`Isa::pair_field`] and [`Isa::dot_pairs`].
    const PAIRS: bool = false;
    /// Whether there are products of bytes: [`Isa::nibbles`] and [`Isa::dot_nibbles`].
    const BYTES: bool = false;

    fn splat(self, x: f32) -> Self::F;
    fn load(self, x: &[f32; LANES]) -> Self::F;
    fn store(self, x: Self::F, out: &mut [f32; LANES]);
    fn load_f16(self, x: &[f16; LANES]) -> Self::F;
    /// The elements of a slice of at most sixteen, then zeros.
    #[inline(always)]
    fn load_f16_upto(self, x: &[f16]) -> Self::F {
        self.load_f16(&partial(x))
    }
    fn store_f16(self, x: Self::F, out: &mut [f16; LANES]);
    /// Unsigned bytes as floats.
    fn load_u8(self, x: &[u8; LANES]) -> Self::F;
    fn words(self, x: &[u32; LANES]) -> Self::W;
    /// The words of a slice of at most sixteen, then zeros.
    fn words_upto(self, x: &[u32]) -> Self::W;
    /// Asks for the cache line [`AHEAD`] bytes after these words, whether or not it is theirs: the
    /// machine's own prefetching ends with each page, which left one core at two thirds of the
    /// speed that it reads memory at.
    fn prefetch(self, _words: &[u32; LANES]) {}
    /// Zero-extended 16-bit words.
    fn words_u16(self, x: &[u16; LANES]) -> Self::W;
    /// Those of a slice of at most sixteen, then zeros.
    #[inline(always)]
    fn words_u16_upto(self, x: &[u16]) -> Self::W {
        self.words_u16(&partial(x))
    }

    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`; fused where the machine can.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// Nearest integer; ties to even.
    fn round(self, a: Self::F) -> Self::F;
    /// Two to an integer power between -127 (which gives 0) and 127.
    fn pow2(self, n: Self::F) -> Self::F;
    fn sum(self, a: Self::F) -> f32;

    /// The same bits as floats.
    fn as_floats(self, a: Self::W) -> Self::F;
    /// Every word shifted left.
    fn shl<const N: u32>(self, a: Self::W) -> Self::W;
    /// Field `i` of `BITS` (2 or 4) bits of every word as a float.
    fn field<const BITS: usize>(self, a: Self::W, i: usize) -> Self::F;
    /// Field `i` of `BITS` (2 or 4) bits of the lower and of the upper half of every word, as a
    /// pair of bfloat16.
    fn pair_field<const BITS: usize>(self, _a: Self::W, _i: usize) -> Self::W {
        unreachable!("asked for only where PAIRS is true")
    }
    /// Field `i` of four bits of every word, as the value of an e2m1 number.
    fn e2m1(self, a: Self::W, i: usize) -> Self::F;
    /// [`Isa::pair_field`] with the values of e2m1 numbers.
    fn pair_e2m1(self, _a: Self::W, _i: usize) -> Self::W {
        unreachable!("asked for only where PAIRS is true")
    }
    /// Adds the products of pairs of bfloat16 to every lane. Products are exact, sums float32;
    /// numbers under 2^-126 count as zero.
    fn dot_pairs(self, _a: Self::W, _b: Self::W, _c: Self::F) -> Self::F {
        unreachable!("asked for only where PAIRS is true")
    }
    /// The even and the odd fields of four bits of every word, each as a byte.
    fn nibbles(self, _a: Self::W) -> [Self::W; 2] {
        unreachable!("asked for only where BYTES is true")
    }
    /// Products of the bytes of `a`, which are less than 16, with the signed ones of `b`: adds to every word
    /// of `c` the sum of its eight, `TIMES` as much.
    fn dot_nibbles<const TIMES: i16>(
        self,
        _a: [Self::W; 2],
        _b: [Self::W; 2],
        _c: Self::W,
    ) -> Self::W {
        unreachable!("asked for only where BYTES is true")
    }
    /// Signed words as floats.
    fn to_floats(self, _a: Self::W) -> Self::F {
        unreachable!("asked for only where BYTES is true")
    }
    /// The nearest integers, less than 2^31, as signed words.
    fn to_integers(self, _a: Self::F) -> [i32; LANES] {
        unreachable!("asked for only where BYTES is true")
    }
    /// Lane `l` gets `x[l / PER]`.
    fn repeat<const PER: usize>(self, x: &[f32; 8]) -> Self::F;

    /// Eight fields of `BITS` (2 to 6) bits from the lowest one up, each as a byte.
    fn unpack8<const BITS: usize>(self, x: u64) -> u64;
}

/// How far ahead [`Isa::prefetch`] looks.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "nothing is asked for"))]
pub(super) const AHEAD: usize = 4096;

/// The lowest `BITS` bits of every byte.
pub(crate) const fn byte_mask<const BITS: usize>() -> u64 {
    ((1u64 << BITS) - 1) * 0x0101_0101_0101_0101
}

/// Values of the e2m1 codes.
pub(super) const E2M1: [f32; LANES] = {
    let mut table = [0.0; LANES];
    let mut code = 0;
    while code < LANES {
        table[code] = FpMode::Mxfp4.element(code as u8);
        code += 1;
    }
    table
};
