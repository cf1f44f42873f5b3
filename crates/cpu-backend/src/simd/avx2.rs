//! AVX2 with FMA: two registers hold the lanes.

use std::arch::x86_64::*;

use half::f16;

use super::{
    Isa, Kernel, LANES,
    isa::{AHEAD, E2M1, byte_mask},
};

/// Proof that AVX2, FMA, F16C and BMI2 are there.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

/// Runs a kernel with AVX2 instructions.
#[target_feature(enable = "avx2,fma,f16c,bmi2")]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx2(()))
}

/// Lanes 0 to 7 and 8 to 15.
type F = [__m256; 2];
type W = [__m256i; 2];

/// Intrinsics on each half.
macro_rules! halves {
    ($($name:ident($($arg:ident: $t:ty),*) -> $ret:ty = |$i:ident| $e:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: $t),*) -> $ret {
            // SAFETY: `self` proves that the instructions are there; memory is accessed only
            // within the referenced array, of whose two halves the index is 0 or 1.
            unsafe { [{ let $i = 0usize; let _ = $i; $e }, { let $i = 1usize; let _ = $i; $e }] }
        }
    )*};
}

const fn repeated<const PER: usize>() -> [i32; LANES] {
    let mut lanes = [0; LANES];
    let mut i = 0;
    while i < LANES {
        lanes[i] = (i / PER) as i32;
        i += 1;
    }
    lanes
}

impl Isa for Avx2 {
    type F = F;
    type W = W;
    const BYTES: bool = true;

    halves! {
        splat(x: f32) -> F = |_i| _mm256_set1_ps(x);
        load(x: &[f32; LANES]) -> F = |i| _mm256_loadu_ps(x.as_ptr().add(8 * i));
        load_f16(x: &[f16; LANES]) -> F =
            |i| _mm256_cvtph_ps(_mm_loadu_si128(x.as_ptr().add(8 * i).cast()));
        load_u8(x: &[u8; LANES]) -> F =
            |i| _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(x.as_ptr().add(8 * i).cast())));
        words(x: &[u32; LANES]) -> W = |i| _mm256_loadu_si256(x.as_ptr().add(8 * i).cast());
        words_u16(x: &[u16; LANES]) -> W =
            |i| _mm256_cvtepu16_epi32(_mm_loadu_si128(x.as_ptr().add(8 * i).cast()));

        add(a: F, b: F) -> F = |i| _mm256_add_ps(a[i], b[i]);
        sub(a: F, b: F) -> F = |i| _mm256_sub_ps(a[i], b[i]);
        mul(a: F, b: F) -> F = |i| _mm256_mul_ps(a[i], b[i]);
        fma(a: F, b: F, c: F) -> F = |i| _mm256_fmadd_ps(a[i], b[i], c[i]);
        max(a: F, b: F) -> F = |i| _mm256_max_ps(a[i], b[i]);
        round(a: F) -> F =
            |i| _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a[i]);
        pow2(n: F) -> F = |i| _mm256_castsi256_ps(_mm256_slli_epi32::<23>(
            _mm256_add_epi32(_mm256_cvtps_epi32(n[i]), _mm256_set1_epi32(127)),
        ));
        as_floats(a: W) -> F = |i| _mm256_castsi256_ps(a[i]);
        to_floats(a: W) -> F = |i| _mm256_cvtepi32_ps(a[i]);
    }

    #[inline(always)]
    fn nibbles(self, a: W) -> [W; 2] {
        // SAFETY: `self` proves that the instructions are there; no memory.
        unsafe {
            let low = _mm256_set1_epi8(15);
            let odd = [_mm256_srli_epi16::<4>(a[0]), _mm256_srli_epi16::<4>(a[1])];
            let even = [_mm256_and_si256(a[0], low), _mm256_and_si256(a[1], low)];
            [even, [_mm256_and_si256(odd[0], low), _mm256_and_si256(odd[1], low)]]
        }
    }

    #[inline(always)]
    fn dot_nibbles<const TIMES: i16>(self, a: [W; 2], b: [W; 2], c: W) -> W {
        let mut out = c;
        for (half, out) in out.iter_mut().enumerate() {
            // SAFETY: as above. Sums of four products are at most 4 * 15 * 128 and fit 16 bits.
            unsafe {
                let even = _mm256_maddubs_epi16(a[0][half], b[0][half]);
                let odd = _mm256_maddubs_epi16(a[1][half], b[1][half]);
                let fours = _mm256_add_epi16(even, odd);
                *out = _mm256_add_epi32(_mm256_madd_epi16(fours, _mm256_set1_epi16(TIMES)), *out);
            }
        }
        out
    }

    #[inline(always)]
    fn to_integers(self, a: F) -> [i32; LANES] {
        let mut out = [0; LANES];
        // SAFETY: as above; `out` has room for both halves.
        unsafe {
            _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_cvtps_epi32(a[0]));
            _mm256_storeu_si256(out.as_mut_ptr().add(8).cast(), _mm256_cvtps_epi32(a[1]));
        }
        out
    }

    #[inline(always)]
    fn store(self, x: F, out: &mut [f32; LANES]) {
        // SAFETY: `self` proves that the instructions are there; `out` has room for both halves.
        unsafe {
            _mm256_storeu_ps(out.as_mut_ptr(), x[0]);
            _mm256_storeu_ps(out.as_mut_ptr().add(8), x[1]);
        }
    }

    #[inline(always)]
    fn store_f16(self, x: F, out: &mut [f16; LANES]) {
        // SAFETY: as above.
        unsafe {
            for (i, x) in x.into_iter().enumerate() {
                let half = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
                _mm_storeu_si128(out.as_mut_ptr().add(8 * i).cast(), half);
            }
        }
    }

    #[inline(always)]
    fn sum(self, a: F) -> f32 {
        // SAFETY: as above; no memory.
        unsafe {
            let a = _mm256_add_ps(a[0], a[1]);
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)))
        }
    }

    #[inline(always)]
    fn prefetch(self, words: &[u32; LANES]) {
        // SAFETY: as above; a prefetch accesses nothing, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().cast::<i8>().wrapping_add(AHEAD)) }
    }

    #[inline(always)]
    fn words_upto(self, x: &[u32]) -> W {
        /// From `LANES - n` on: as many set words as `n`, then zeros.
        const MASKS: [i32; 2 * LANES] = {
            let mut masks = [0; 2 * LANES];
            let mut i = 0;
            while i < LANES {
                masks[i] = -1;
                i += 1;
            }
            masks
        };
        let masks: &[i32; LANES] =
            MASKS[LANES - x.len().min(LANES)..].first_chunk().expect("at most sixteen before it");
        // SAFETY: as above; words past the slice are masked off and not accessed, and the pointer
        // to the second half is not dereferenced where the slice is shorter.
        unsafe {
            let low = _mm256_loadu_si256(masks.as_ptr().cast());
            let high = _mm256_loadu_si256(masks.as_ptr().add(8).cast());
            let x = x.as_ptr().cast::<i32>();
            [_mm256_maskload_epi32(x, low), _mm256_maskload_epi32(x.wrapping_add(8), high)]
        }
    }

    #[inline(always)]
    fn shl<const N: u32>(self, a: W) -> W {
        // SAFETY: as above; no memory.
        unsafe {
            let n = _mm_cvtsi32_si128(N as i32);
            [_mm256_sll_epi32(a[0], n), _mm256_sll_epi32(a[1], n)]
        }
    }

    #[inline(always)]
    fn field<const BITS: usize>(self, a: W, i: usize) -> F {
        // SAFETY: as above; no memory.
        unsafe {
            let shift = _mm_cvtsi32_si128((i * BITS) as i32);
            let mask = _mm256_set1_epi32((1 << BITS) - 1);
            let low = _mm256_and_si256(_mm256_srl_epi32(a[0], shift), mask);
            let high = _mm256_and_si256(_mm256_srl_epi32(a[1], shift), mask);
            [_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)]
        }
    }

    #[inline(always)]
    fn e2m1(self, a: W, i: usize) -> F {
        // SAFETY: as above; the table has the eight floats read. The permutation looks at the low
        // three bits of an index only; the fourth is the sign.
        unsafe {
            let shift = _mm_cvtsi32_si128((4 * i) as i32);
            let sizes = _mm256_loadu_ps(const { &E2M1 }.as_ptr());
            let mut out = [sizes; 2];
            for (out, a) in out.iter_mut().zip(a) {
                let field = _mm256_srl_epi32(a, shift);
                let sign = _mm256_slli_epi32::<28>(_mm256_and_si256(field, _mm256_set1_epi32(8)));
                let size = _mm256_permutevar8x32_ps(sizes, field);
                *out = _mm256_xor_ps(size, _mm256_castsi256_ps(sign));
            }
            out
        }
    }

    #[inline(always)]
    fn repeat<const PER: usize>(self, x: &[f32; 8]) -> F {
        let lanes = const { &repeated::<PER>() };
        if PER >= 8 {
            // A half gets one number: cheaper than a permutation.
            return [self.splat(x[0])[0], self.splat(x[8 / PER])[0]];
        }
        // SAFETY: as above; `x` has the eight floats and `lanes` the sixteen indices read.
        unsafe {
            let x = _mm256_loadu_ps(x.as_ptr());
            let low = _mm256_loadu_si256(lanes.as_ptr().cast());
            let high = _mm256_loadu_si256(lanes.as_ptr().add(8).cast());
            [_mm256_permutevar8x32_ps(x, low), _mm256_permutevar8x32_ps(x, high)]
        }
    }

    #[inline(always)]
    fn unpack8<const BITS: usize>(self, x: u64) -> u64 {
        // SAFETY: as above; no memory.
        unsafe { _pdep_u64(x, byte_mask::<BITS>()) }
    }
}
