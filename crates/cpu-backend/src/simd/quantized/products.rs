//! Products of activations with quantized rows.

#![expect(clippy::needless_range_loop, reason = "an index runs over several small arrays at once")]

use std::marker::PhantomData;

use mlx_vulkan_core::primitives::FpMode;

use super::{
    Activations, AffineGroups, Bytes, E2m1, E4m3, Fields, FloatScales, Groups, Integers, Quantized,
    Row, in_pairs, int8_rows, unpack,
};
use crate::simd::{Isa, Kernel, LANES, Lanes};

/// `out[n * rows + m] = x[m] · w[n]` for the rows of `x`, which are elements of `T`, and
/// `out.len() / rows` rows of `w`.
pub(crate) struct Products<'a, T, G> {
    pub(crate) x: &'a Activations,
    pub(crate) w: Quantized<'a, G>,
    pub(crate) out: &'a mut [f32],
    pub(crate) elements: PhantomData<T>,
}

/// Fills results four rows at a time, then two, then one: `$R` is bound to that number.
macro_rules! for_rows {
    ($out:expr, $at:ident, $R:ident => $dot:expr) => {{
        let (fours, rest) = $out.as_chunks_mut::<4>();
        let (twos, ones) = rest.as_chunks_mut::<2>();
        let mut $at = 0;
        for out in fours {
            const $R: usize = 4;
            *out = $dot;
            $at += 4;
        }
        for out in twos {
            const $R: usize = 2;
            *out = $dot;
            $at += 2;
        }
        for out in ones {
            const $R: usize = 1;
            [*out] = $dot;
        }
    }};
}

impl<T: Lanes> Kernel for Products<'_, T, AffineGroups<'_, T>> {
    type Output = ();
    const PAIRS: bool = in_pairs::<T>();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        if I::BYTES
            && let Some(rows) = self.x.int8()
        {
            return match self.w.packing.group_size() {
                32 => self.by_int8_rows::<I, 4>(isa, rows),
                64 => self.by_int8_rows::<I, 8>(isa, rows),
                _ => self.by_int8_rows::<I, 16>(isa, rows),
            };
        }
        match (self.w.packing.bits(), self.w.packing.group_size()) {
            (2, 32) => self.by_fields::<I, Integers<2>, 2>(isa),
            (2, 64) => self.by_fields::<I, Integers<2>, 4>(isa),
            (2, _) => self.by_fields::<I, Integers<2>, 8>(isa),
            (4, 32) => self.by_fields::<I, Integers<4>, 4>(isa),
            (4, 64) => self.by_fields::<I, Integers<4>, 8>(isa),
            (4, _) => self.by_fields::<I, Integers<4>, 16>(isa),
            (_, 32) => self.by_bytes::<I, Integers<8>, 32>(isa),
            (_, 64) => self.by_bytes::<I, Integers<8>, 64>(isa),
            (_, _) => self.by_bytes::<I, Integers<8>, 128>(isa),
        }
    }
}

impl<T: Lanes> Kernel for Products<'_, T, FloatScales<'_>> {
    type Output = ();
    const PAIRS: bool = in_pairs::<T>();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        match self.w.groups.mode {
            FpMode::Mxfp4 => self.by_fields::<I, E2m1, 4>(isa),
            FpMode::Nvfp4 => self.by_fields::<I, E2m1, 2>(isa),
            FpMode::Mxfp8 => self.by_bytes::<I, E4m3, 32>(isa),
        }
    }
}

impl<T: Lanes, G: Groups> Products<'_, T, G> {
    /// `PER` words of fields of four bits hold a group.
    #[inline(always)]
    fn by_int8_rows<I: Isa, const PER: usize>(self, isa: I, rows: &int8_rows::Int8Rows) {
        for (n, out) in self.out.chunks_exact_mut(self.x.rows()).enumerate() {
            let w = self.w.row(n);
            match T::BYTES {
                2 => {
                    for_rows!(out, at, R => int8_rows::dot::<I, G, 2, PER, R>(isa, self.x, rows, at, w))
                }
                _ => {
                    for_rows!(out, at, R => int8_rows::dot::<I, G, 3, PER, R>(isa, self.x, rows, at, w))
                }
            }
        }
    }

    /// `PER` words hold a group.
    #[inline(always)]
    fn by_fields<I: Isa, F: Fields, const PER: usize>(self, isa: I) {
        for (n, out) in self.out.chunks_exact_mut(self.x.rows()).enumerate() {
            let w = self.w.row(n);
            for_rows!(out, at, R => fields_dot::<I, T, F, G, PER, R>(isa, self.x, at, w));
        }
    }

    #[inline(always)]
    fn by_bytes<I: Isa, B: Bytes, const GROUP: usize>(self, isa: I) {
        let bits = self.w.packing.bits();
        let mut unpacked = vec![0u8; if bits == 8 { 0 } else { self.w.columns }];
        for (n, out) in self.out.chunks_exact_mut(self.x.rows()).enumerate() {
            let w = self.w.row(n);
            let bytes: &[u8] = match bits {
                8 => bytemuck::cast_slice(w.words),
                bits => {
                    unpack(isa, bits, w.words, &mut unpacked);
                    &unpacked
                }
            };
            for_rows!(out, at, R => bytes_dot::<I, B, G, GROUP, R>(isa, self.x, at, bytes, w));
        }
    }
}

/// Products of rows `at` to `at + R` of `x` with a row of weights of 2 or 4 bits.
#[inline(always)]
fn fields_dot<I: Isa, T: Lanes, F: Fields, G: Groups, const PER: usize, const R: usize>(
    isa: I,
    x: &Activations,
    at: usize,
    w: Row<'_, G>,
) -> [f32; R] {
    let mut acc = [isa.splat(0.0); R];
    // The words of sixteen groups, sixteen at a time.
    for (s, words) in w.words.chunks(LANES * PER).enumerate() {
        let scales = w.groups.scales(isa, s * LANES);
        let (words, rest) = words.as_chunks::<LANES>();
        for (b, words) in words.iter().enumerate() {
            isa.prefetch(words);
            let products = block::<I, T, F, R>(isa, x, at, s * PER + b, isa.words(words));
            scale::<I, PER, R>(isa, &scales, b, products, &mut acc);
        }
        if !rest.is_empty() {
            let (b, words) = (words.len(), isa.words_upto(rest));
            let products = block::<I, T, F, R>(isa, x, at, s * PER + b, words);
            scale::<I, PER, R>(isa, &scales, b, products, &mut acc);
        }
    }
    w.groups.add_biases(isa, x, at, &mut acc);
    sums(isa, acc)
}

/// The products with the fields of sixteen words, block `b` of a row of weights, word by word.
#[inline(always)]
fn block<I: Isa, T: Lanes, F: Fields, const R: usize>(
    isa: I,
    x: &Activations,
    at: usize,
    b: usize,
    words: I::W,
) -> [I::F; R] {
    let mut products = [isa.splat(0.0); R];
    if I::PAIRS && in_pairs::<T>() {
        let (pairs, sixteens) = (16 / F::BITS, 16 / F::BITS * T::PARTS);
        let mut values: [&[[u32; LANES]]; R] = [&[]; R];
        for r in 0..R {
            values[r] = &x.pairs(at + r)[b * sixteens..][..sixteens];
        }
        for i in 0..pairs {
            let q = F::pair(isa, words, i);
            for r in 0..R {
                for part in 0..T::PARTS {
                    let x = isa.words(&values[r][i * T::PARTS + part]);
                    products[r] = isa.dot_pairs(q, x, products[r]);
                }
            }
        }
    } else {
        let fields = 32 / F::BITS;
        let mut values: [&[[f32; LANES]]; R] = [&[]; R];
        for r in 0..R {
            values[r] = &x.values(at + r)[b * fields..][..fields];
        }
        for i in 0..fields {
            let q = F::one(isa, words, i);
            for r in 0..R {
                products[r] = isa.fma(q, isa.load(&values[r][i]), products[r]);
            }
        }
    }
    products
}

/// Adds products word by word, times the scales of their groups: those of block `b` of sixteen
/// words among the sixteen groups.
#[inline(always)]
fn scale<I: Isa, const PER: usize, const R: usize>(
    isa: I,
    scales: &[f32; LANES + 8],
    b: usize,
    products: [I::F; R],
    acc: &mut [I::F; R],
) {
    let scales = scales[b * LANES / PER..].first_chunk().expect("there are eight more");
    let scales = isa.repeat::<PER>(scales);
    for r in 0..R {
        acc[r] = isa.fma(products[r], scales, acc[r]);
    }
}

/// Products of rows `at` to `at + R` of `x` with a row of weights unpacked to bytes.
#[inline(always)]
fn bytes_dot<I: Isa, B: Bytes, G: Groups, const GROUP: usize, const R: usize>(
    isa: I,
    x: &Activations,
    at: usize,
    bytes: &[u8],
    w: Row<'_, G>,
) -> [f32; R] {
    let mut acc = [isa.splat(0.0); R];
    let per = GROUP / LANES;
    for (s, bytes) in bytes.chunks(LANES * GROUP).enumerate() {
        let scales = w.groups.scales(isa, s * LANES);
        for (g, (bytes, &scale)) in bytes.as_chunks::<GROUP>().0.iter().zip(&scales).enumerate() {
            let bytes = bytes.as_chunks::<LANES>().0;
            let mut values: [&[[f32; LANES]]; R] = [&[]; R];
            for r in 0..R {
                values[r] = &x.values(at + r)[(s * LANES + g) * per..][..per];
            }
            let mut products = [isa.splat(0.0); R];
            for i in 0..per {
                let q = B::load(isa, &bytes[i]);
                for r in 0..R {
                    products[r] = isa.fma(q, isa.load(&values[r][i]), products[r]);
                }
            }
            for r in 0..R {
                acc[r] = isa.fma(products[r], isa.splat(scale), acc[r]);
            }
        }
    }
    w.groups.add_biases(isa, x, at, &mut acc);
    sums(isa, acc)
}

#[inline(always)]
pub(super) fn sums<I: Isa, const R: usize>(isa: I, acc: [I::F; R]) -> [f32; R] {
    let mut out = [0.0; R];
    for r in 0..R {
        out[r] = isa.sum(acc[r]);
    }
    out
}
