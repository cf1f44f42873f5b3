//! AVX-512: one register holds all lanes.

use std::arch::x86_64::*;

use half::f16;

use super::{
    Isa, Kernel, LANES,
    isa::{AHEAD, E2M1, byte_mask},
};

/// Proof that AVX-512 F, BW, DQ, VL, FMA, F16C and BMI2 are there, and BF16 with `PAIRS`.
#[derive(Clone, Copy)]
pub(crate) struct Avx512<const PAIRS: bool>(());

/// Runs a kernel with AVX-512 instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2")]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512::<false>(()))
}

/// Runs a kernel with AVX-512 instructions, those on pairs of bfloat16 included.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c,bmi2")]
pub(super) fn run_pairs<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512::<true>(()))
}

/// Intrinsics that only compute.
macro_rules! intrinsics {
    ($($name:ident($($arg:ident: $t:ty),*) -> $ret:ty = $e:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: $t),*) -> $ret {
            // SAFETY: `self` proves that the instructions are there; memory is accessed only
            // through references to as many bytes as the instruction reads or writes.
            unsafe { $e }
        }
    )*};
}

/// The table that turns the low four bits of an index into the value of its low `BITS` bits.
const fn field_values<const BITS: usize>() -> [f32; LANES] {
    let mut table = [0.0; LANES];
    let mut i = 0;
    while i < LANES {
        table[i] = (i & ((1 << BITS) - 1)) as f32;
        i += 1;
    }
    table
}

/// The table that turns the low five bits of an index into the value of its low `BITS` bits as
/// bfloat16.
const fn pair_values<const BITS: usize>() -> [u16; 2 * LANES] {
    let mut table = [0; 2 * LANES];
    let mut i = 0;
    while i < 2 * LANES {
        table[i] = (((i & ((1 << BITS) - 1)) as f32).to_bits() >> 16) as u16;
        i += 1;
    }
    table
}

/// The table that turns the low five bits of an index into the value of an e2m1 number with the low
/// four of them, as bfloat16.
const PAIR_E2M1: [u16; 2 * LANES] = {
    let mut table = [0; 2 * LANES];
    let mut i = 0;
    while i < 2 * LANES {
        table[i] = (E2M1[i & 15].to_bits() >> 16) as u16;
        i += 1;
    }
    table
};

const fn repeated<const PER: usize>() -> [i32; LANES] {
    let mut lanes = [0; LANES];
    let mut i = 0;
    while i < LANES {
        lanes[i] = (i / PER) as i32;
        i += 1;
    }
    lanes
}

/// The mask of the first lanes.
#[inline(always)]
const fn upto(lanes: usize) -> __mmask16 {
    let lanes = if lanes < LANES { lanes } else { LANES };
    ((1u32 << lanes) - 1) as __mmask16
}

impl<const PAIRS: bool> Isa for Avx512<PAIRS> {
    type F = __m512;
    type W = __m512i;
    const PAIRS: bool = PAIRS;
    const BYTES: bool = !PAIRS;

    intrinsics! {
        splat(x: f32) -> __m512 = _mm512_set1_ps(x);
        load(x: &[f32; LANES]) -> __m512 = _mm512_loadu_ps(x.as_ptr());
        store(x: __m512, out: &mut [f32; LANES]) -> () = _mm512_storeu_ps(out.as_mut_ptr(), x);
        load_f16(x: &[f16; LANES]) -> __m512 = _mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast()));
        store_f16(x: __m512, out: &mut [f16; LANES]) -> () = _mm256_storeu_si256(
            out.as_mut_ptr().cast(),
            _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x),
        );
        load_u8(x: &[u8; LANES]) -> __m512 =
            _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(x.as_ptr().cast())));
        words(x: &[u32; LANES]) -> __m512i = _mm512_loadu_si512(x.as_ptr().cast());
        words_u16(x: &[u16; LANES]) -> __m512i =
            _mm512_cvtepu16_epi32(_mm256_loadu_si256(x.as_ptr().cast()));

        add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        round(a: __m512) -> __m512 = _mm512_roundscale_ps::<_MM_FROUND_TO_NEAREST_INT>(a);
        pow2(n: __m512) -> __m512 = _mm512_castsi512_ps(_mm512_slli_epi32::<23>(
            _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)),
        ));
        sum(a: __m512) -> f32 = _mm512_reduce_add_ps(a);
        as_floats(a: __m512i) -> __m512 = _mm512_castsi512_ps(a);
        to_floats(a: __m512i) -> __m512 = _mm512_cvtepi32_ps(a);
    }

    #[inline(always)]
    fn nibbles(self, a: __m512i) -> [__m512i; 2] {
        // SAFETY: `self` proves that the instructions are there; no memory.
        unsafe {
            let low = _mm512_set1_epi8(15);
            let odd = _mm512_and_si512(_mm512_srli_epi16::<4>(a), low);
            [_mm512_and_si512(a, low), odd]
        }
    }

    #[inline(always)]
    fn dot_nibbles<const TIMES: i16>(
        self,
        a: [__m512i; 2],
        b: [__m512i; 2],
        c: __m512i,
    ) -> __m512i {
        // SAFETY: as above. Sums of four products are at most 4 * 15 * 128 and fit 16 bits.
        unsafe {
            let even = _mm512_maddubs_epi16(a[0], b[0]);
            let fours = _mm512_add_epi16(even, _mm512_maddubs_epi16(a[1], b[1]));
            _mm512_add_epi32(_mm512_madd_epi16(fours, _mm512_set1_epi16(TIMES)), c)
        }
    }

    #[inline(always)]
    fn to_integers(self, a: __m512) -> [i32; LANES] {
        let mut out = [0; LANES];
        // SAFETY: as above; `out` has room for all lanes.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), _mm512_cvtps_epi32(a)) };
        out
    }

    #[inline(always)]
    fn prefetch(self, words: &[u32; LANES]) {
        // SAFETY: as above; a prefetch accesses nothing, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().cast::<i8>().wrapping_add(AHEAD)) }
    }

    #[inline(always)]
    fn words_upto(self, x: &[u32]) -> __m512i {
        // SAFETY: `self` proves that the instructions are there; words past the slice are masked
        // off and not accessed.
        unsafe { _mm512_maskz_loadu_epi32(upto(x.len()), x.as_ptr().cast()) }
    }

    #[inline(always)]
    fn load_f16_upto(self, x: &[f16]) -> __m512 {
        // SAFETY: as above, of halves.
        unsafe { _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(upto(x.len()), x.as_ptr().cast())) }
    }

    #[inline(always)]
    fn words_u16_upto(self, x: &[u16]) -> __m512i {
        // SAFETY: as above, of halves.
        unsafe { _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(upto(x.len()), x.as_ptr().cast())) }
    }

    #[inline(always)]
    fn shl<const N: u32>(self, a: __m512i) -> __m512i {
        // SAFETY: `self` proves that the instructions are there.
        unsafe { _mm512_slli_epi32::<N>(a) }
    }

    #[inline(always)]
    fn field<const BITS: usize>(self, a: __m512i, i: usize) -> __m512 {
        let values = const { &field_values::<BITS>() };
        // SAFETY: as above. The permutation looks at the low four bits of an index only, so that
        // it masks, converts and, for two bits, forgets the upper field in one instruction.
        unsafe {
            let index = _mm512_srl_epi32(a, _mm_cvtsi32_si128((i * BITS) as i32));
            _mm512_permutexvar_ps(index, _mm512_loadu_ps(values.as_ptr()))
        }
    }

    #[inline(always)]
    fn pair_field<const BITS: usize>(self, a: __m512i, i: usize) -> __m512i {
        let values = const { &pair_values::<BITS>() };
        // SAFETY: as above. The permutation looks at the low five bits of an index only.
        unsafe {
            let index = _mm512_srl_epi16(a, _mm_cvtsi32_si128((i * BITS) as i32));
            _mm512_permutexvar_epi16(index, _mm512_loadu_si512(values.as_ptr().cast()))
        }
    }

    #[inline(always)]
    fn e2m1(self, a: __m512i, i: usize) -> __m512 {
        // SAFETY: as above. The permutation looks at the low four bits of an index only.
        unsafe {
            let index = _mm512_srl_epi32(a, _mm_cvtsi32_si128((4 * i) as i32));
            _mm512_permutexvar_ps(index, _mm512_loadu_ps(const { &E2M1 }.as_ptr()))
        }
    }

    #[inline(always)]
    fn pair_e2m1(self, a: __m512i, i: usize) -> __m512i {
        // SAFETY: as above. The permutation looks at the low five bits of an index only.
        unsafe {
            let index = _mm512_srl_epi16(a, _mm_cvtsi32_si128((4 * i) as i32));
            _mm512_permutexvar_epi16(
                index,
                _mm512_loadu_si512(const { &PAIR_E2M1 }.as_ptr().cast()),
            )
        }
    }

    #[inline(always)]
    fn dot_pairs(self, a: __m512i, b: __m512i, c: __m512) -> __m512 {
        assert!(PAIRS, "asked for only where PAIRS is true");
        // SAFETY: `self` with `PAIRS` proves that the instruction is there; both types are 64
        // bytes of which any are valid. No `map` does both: its closure would be called, by way of memory.
        unsafe {
            let a = std::mem::transmute::<__m512i, __m512bh>(a);
            let b = std::mem::transmute::<__m512i, __m512bh>(b);
            _mm512_dpbf16_ps(c, a, b)
        }
    }

    #[inline(always)]
    fn repeat<const PER: usize>(self, x: &[f32; 8]) -> __m512 {
        let lanes = const { &repeated::<PER>() };
        // SAFETY: as above; the table names lanes 0 to 7 at most for `PER` of 2 and more.
        unsafe {
            let x = _mm512_castps256_ps512(_mm256_loadu_ps(x.as_ptr()));
            _mm512_permutexvar_ps(_mm512_loadu_si512(lanes.as_ptr().cast()), x)
        }
    }

    #[inline(always)]
    fn unpack8<const BITS: usize>(self, x: u64) -> u64 {
        // SAFETY: as above.
        unsafe { _pdep_u64(x, byte_mask::<BITS>()) }
    }
}
