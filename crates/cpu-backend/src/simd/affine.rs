//! Kernels on affine-quantized rows: products with activations, and dequantization.
//!
//! A product keeps float32 activations: within a group it sums `q * x` with the integers `q` as
//! floats, then multiplies once by the group's scale; the bias is multiplied by the group's sum of
//! `x`, which is the same for every row of the weights and computed once.
//!
//! Words of 2 and 4 bits are used as they lie: field `i` of sixteen words at a time, against
//! activations that were put in that order before. Other widths are unpacked to bytes first.

#![expect(clippy::needless_range_loop, reason = "an index runs over several small arrays at once")]

use mlx_core::primitives::Affine;

use super::{Isa, Kernel, LANES};

/// Floats that rows of scales and biases have after their last group, at least.
const SLACK: usize = 8;

/// Floats that a row of `groups` scales or biases takes in [`Quantized`].
pub(crate) fn padded_groups(groups: usize) -> usize {
    groups.next_multiple_of(LANES) + SLACK
}

/// Activations in the order in which kernels want them, with the sums of their groups.
pub(crate) struct Activations {
    rows: usize,
    /// Sixteens of a row, and the rows one after the other.
    chunks: usize,
    values: Vec<[f32; LANES]>,
    /// Floats of a row of sums, and the rows one after the other.
    groups: usize,
    sums: Vec<f32>,
}

impl Activations {
    /// Prepares rows of `columns` float32 for weights quantized like `affine`.
    pub(crate) fn new(x: &[f32], columns: usize, affine: Affine) -> Self {
        let rows = x.len() / columns;
        let chunks = match affine.bits {
            2 | 4 => columns.next_multiple_of(LANES * 32 / affine.bits) / LANES,
            _ => columns / LANES,
        };
        let groups = (columns / affine.group_size).next_multiple_of(LANES);
        let mut values = vec![[0.0; LANES]; rows * chunks];
        let mut sums = vec![0.0; rows * groups];
        for (i, x) in x.chunks_exact(columns).enumerate() {
            let values = values[i * chunks..(i + 1) * chunks].as_flattened_mut();
            match affine.bits {
                2 => by_fields::<16>(x, values),
                4 => by_fields::<8>(x, values),
                _ => values.copy_from_slice(x),
            }
            let groups = sums[i * groups..].iter_mut().zip(x.chunks_exact(affine.group_size));
            groups.for_each(|(sum, group)| *sum = lane_sum(group));
        }
        Activations { rows, chunks, values, groups, sums }
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    fn values(&self, row: usize) -> &[[f32; LANES]] {
        &self.values[row * self.chunks..(row + 1) * self.chunks]
    }

    #[inline(always)]
    fn sums(&self, row: usize) -> &[f32] {
        &self.sums[row * self.groups..(row + 1) * self.groups]
    }
}

/// Sum of a group, whose length is a multiple of eight.
fn lane_sum(x: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    for x in x.as_chunks::<8>().0 {
        sums.iter_mut().zip(x).for_each(|(s, x)| *s += x);
    }
    sums.iter().sum()
}

/// Puts elements that are field `i` of sixteen neighbouring words next to each other.
fn by_fields<const FIELDS: usize>(x: &[f32], out: &mut [f32]) {
    for (x, out) in x.chunks(LANES * FIELDS).zip(out.chunks_exact_mut(LANES * FIELDS)) {
        for (word, x) in x.as_chunks::<FIELDS>().0.iter().enumerate() {
            x.iter().enumerate().for_each(|(field, &x)| out[field * LANES + word] = x);
        }
    }
}

/// Rows of quantized weights, with scales and biases as float32, `padded_groups` apart and zero
/// past the last group.
#[derive(Clone, Copy)]
pub(crate) struct Quantized<'a> {
    pub(crate) affine: Affine,
    pub(crate) words: &'a [u32],
    /// Words between rows.
    pub(crate) stride: usize,
    pub(crate) columns: usize,
    pub(crate) scales: &'a [f32],
    pub(crate) biases: &'a [f32],
}

impl<'a> Quantized<'a> {
    #[inline(always)]
    fn row(&self, row: usize) -> Row<'a> {
        let padded = padded_groups(self.columns / self.affine.group_size);
        Row {
            words: &self.words[row * self.stride..][..self.affine.packed_words(self.columns)],
            scales: &self.scales[row * padded..(row + 1) * padded],
            biases: &self.biases[row * padded..(row + 1) * padded],
        }
    }
}

#[derive(Clone, Copy)]
struct Row<'a> {
    words: &'a [u32],
    scales: &'a [f32],
    biases: &'a [f32],
}

/// `out[n * rows + m] = x[m] · w[n]` for the rows of `x` and `out.len() / rows` rows of `w`.
pub(crate) struct Products<'a> {
    pub(crate) x: &'a Activations,
    pub(crate) w: Quantized<'a>,
    pub(crate) out: &'a mut [f32],
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

impl Kernel for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        match (self.w.affine.bits, self.w.affine.group_size) {
            (2, 32) => self.by_fields::<I, 2, 2>(isa),
            (2, 64) => self.by_fields::<I, 2, 4>(isa),
            (2, _) => self.by_fields::<I, 2, 8>(isa),
            (4, 32) => self.by_fields::<I, 4, 4>(isa),
            (4, 64) => self.by_fields::<I, 4, 8>(isa),
            (4, _) => self.by_fields::<I, 4, 16>(isa),
            (_, 32) => self.by_bytes::<I, 32>(isa),
            (_, 64) => self.by_bytes::<I, 64>(isa),
            (_, _) => self.by_bytes::<I, 128>(isa),
        }
    }
}

impl Products<'_> {
    /// `BITS` are 2 or 4; `PER` words hold a group.
    #[inline(always)]
    fn by_fields<I: Isa, const BITS: usize, const PER: usize>(self, isa: I) {
        for (n, out) in self.out.chunks_exact_mut(self.x.rows()).enumerate() {
            let w = self.w.row(n);
            for_rows!(out, at, R => fields_dot::<I, BITS, PER, R>(isa, self.x, at, w));
        }
    }

    #[inline(always)]
    fn by_bytes<I: Isa, const GROUP: usize>(self, isa: I) {
        let mut unpacked = vec![0u8; if self.w.affine.bits == 8 { 0 } else { self.w.columns }];
        for (n, out) in self.out.chunks_exact_mut(self.x.rows()).enumerate() {
            let w = self.w.row(n);
            let bytes: &[u8] = match self.w.affine.bits {
                8 => bytemuck::cast_slice(w.words),
                bits => {
                    unpack(isa, bits, w.words, &mut unpacked);
                    &unpacked
                }
            };
            for_rows!(out, at, R => bytes_dot::<I, GROUP, R>(isa, self.x, at, bytes, w));
        }
    }
}

/// Products of rows `at` to `at + R` of `x` with a row of weights of 2 or 4 bits.
#[inline(always)]
fn fields_dot<I: Isa, const BITS: usize, const PER: usize, const R: usize>(
    isa: I,
    x: &Activations,
    at: usize,
    w: Row<'_>,
) -> [f32; R] {
    let mut acc = [isa.splat(0.0); R];
    let (words, rest) = w.words.as_chunks::<LANES>();
    for (b, words) in words.iter().enumerate() {
        fields_block::<I, BITS, PER, R>(isa, x, at, b, isa.words(words), w.scales, &mut acc);
    }
    if !rest.is_empty() {
        let (b, words) = (words.len(), isa.words_upto(rest));
        fields_block::<I, BITS, PER, R>(isa, x, at, b, words, w.scales, &mut acc);
    }
    add_biases(isa, x, at, w, &mut acc);
    sums(isa, acc)
}

/// Adds the products with sixteen words, block `b` of a row of weights.
#[inline(always)]
fn fields_block<I: Isa, const BITS: usize, const PER: usize, const R: usize>(
    isa: I,
    x: &Activations,
    at: usize,
    b: usize,
    words: I::W,
    scales: &[f32],
    acc: &mut [I::F; R],
) {
    let fields = 32 / BITS;
    let mut values: [&[[f32; LANES]]; R] = [&[]; R];
    for r in 0..R {
        values[r] = &x.values(at + r)[b * fields..][..fields];
    }
    let mut products = [isa.splat(0.0); R];
    for i in 0..fields {
        let q = isa.field::<BITS>(words, i);
        for r in 0..R {
            products[r] = isa.fma(q, isa.load(&values[r][i]), products[r]);
        }
    }
    let scales = scales[b * LANES / PER..].first_chunk().expect("rows of scales have slack");
    let scales = isa.repeat::<PER>(scales);
    for r in 0..R {
        acc[r] = isa.fma(products[r], scales, acc[r]);
    }
}

/// Products of rows `at` to `at + R` of `x` with a row of weights unpacked to bytes.
#[inline(always)]
fn bytes_dot<I: Isa, const GROUP: usize, const R: usize>(
    isa: I,
    x: &Activations,
    at: usize,
    bytes: &[u8],
    w: Row<'_>,
) -> [f32; R] {
    let mut acc = [isa.splat(0.0); R];
    let per = GROUP / LANES;
    for (g, (bytes, &scale)) in bytes.as_chunks::<GROUP>().0.iter().zip(w.scales).enumerate() {
        let bytes = bytes.as_chunks::<LANES>().0;
        let mut values: [&[[f32; LANES]]; R] = [&[]; R];
        for r in 0..R {
            values[r] = &x.values(at + r)[g * per..][..per];
        }
        let mut products = [isa.splat(0.0); R];
        for i in 0..per {
            let q = isa.load_u8(&bytes[i]);
            for r in 0..R {
                products[r] = isa.fma(q, isa.load(&values[r][i]), products[r]);
            }
        }
        for r in 0..R {
            acc[r] = isa.fma(products[r], isa.splat(scale), acc[r]);
        }
    }
    add_biases(isa, x, at, w, &mut acc);
    sums(isa, acc)
}

#[inline(always)]
fn sums<I: Isa, const R: usize>(isa: I, acc: [I::F; R]) -> [f32; R] {
    let mut out = [0.0; R];
    for r in 0..R {
        out[r] = isa.sum(acc[r]);
    }
    out
}

/// Adds every group's bias times its sum of activations.
#[inline(always)]
fn add_biases<I: Isa, const R: usize>(
    isa: I,
    x: &Activations,
    at: usize,
    w: Row<'_>,
    acc: &mut [I::F; R],
) {
    for r in 0..R {
        let sums = x.sums(at + r).as_chunks::<LANES>().0;
        for (sums, biases) in sums.iter().zip(w.biases.as_chunks::<LANES>().0) {
            acc[r] = isa.fma(isa.load(sums), isa.load(biases), acc[r]);
        }
    }
}

/// Unpacks fields of `bits` to bytes; `out` holds a multiple of 32.
#[inline(always)]
fn unpack<I: Isa>(isa: I, bits: usize, words: &[u32], out: &mut [u8]) {
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

/// Rows of `w` as float32, one after the other in `out`.
pub(crate) struct Dequantize<'a> {
    pub(crate) w: Quantized<'a>,
    pub(crate) out: &'a mut [f32],
}

impl Kernel for Dequantize<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Affine { group_size, bits } = self.w.affine;
        let mut bytes = vec![0u8; self.w.columns];
        for (n, out) in self.out.chunks_exact_mut(self.w.columns).enumerate() {
            let row = self.w.row(n);
            unpack(isa, bits, row.words, &mut bytes);
            let groups = bytes.chunks_exact(group_size).zip(out.chunks_exact_mut(group_size));
            for (g, (q, out)) in groups.enumerate() {
                let (scale, bias) = (isa.splat(row.scales[g]), isa.splat(row.biases[g]));
                for (q, out) in q.as_chunks::<LANES>().0.iter().zip(out.as_chunks_mut::<LANES>().0)
                {
                    isa.store(isa.fma(isa.load_u8(q), scale, bias), out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{dispatch_at, levels};

    /// Weights of some columns, with the values that they stand for.
    struct Example {
        words: Vec<u32>,
        scales: Vec<f32>,
        biases: Vec<f32>,
        values: Vec<f64>,
    }

    fn example(affine: Affine, rows: usize, columns: usize) -> Example {
        let Affine { group_size, bits } = affine;
        let words_per_row = affine.packed_words(columns);
        let padded = padded_groups(columns / group_size);
        let mut e = Example {
            words: vec![0; rows * words_per_row],
            scales: vec![0.0; rows * padded],
            biases: vec![0.0; rows * padded],
            values: Vec::new(),
        };
        for row in 0..rows {
            for c in 0..columns {
                let q = (row * 31 + c * 7 + c / 5) as u64 % (1 << bits);
                let (word, shift) = (c * bits / 32, c * bits % 32);
                let wide = q << shift;
                e.words[row * words_per_row + word] |= wide as u32;
                if wide >> 32 != 0 {
                    e.words[row * words_per_row + word + 1] |= (wide >> 32) as u32;
                }
                let group = row * padded + c / group_size;
                e.scales[group] = 0.01 + 0.001 * (c / group_size) as f32;
                e.biases[group] = -0.1 + 0.01 * row as f32;
                e.values.push(q as f64 * e.scales[group] as f64 + e.biases[group] as f64);
            }
        }
        e
    }

    fn all() -> impl Iterator<Item = Affine> {
        [32, 64, 128]
            .into_iter()
            .flat_map(|group_size| [2, 3, 4, 5, 6, 8].map(|bits| Affine { group_size, bits }))
    }

    #[test]
    fn products_and_dequantization_at_every_level() {
        for affine in all() {
            for groups in [1, 3, 4, 9] {
                let columns = groups * affine.group_size;
                let e = example(affine, 3, columns);
                let x: Vec<f32> = (0..7 * columns).map(|i| (i as f32 * 0.71).sin()).collect();
                for level in levels() {
                    check(affine, columns, &e, &x, level);
                }
            }
        }
    }

    fn check(affine: Affine, columns: usize, e: &Example, x: &[f32], level: crate::simd::Level) {
        let w = Quantized {
            affine,
            words: &e.words,
            stride: affine.packed_words(columns),
            columns,
            scales: &e.scales,
            biases: &e.biases,
        };
        let activations = Activations::new(x, columns, affine);
        let rows = activations.rows();
        let mut out = vec![f32::NAN; 3 * rows];
        dispatch_at(level, Products { x: &activations, w, out: &mut out });
        for n in 0..3 {
            for m in 0..rows {
                let pairs = x[m * columns..].iter().zip(&e.values[n * columns..(n + 1) * columns]);
                let want: f64 = pairs.map(|(x, w)| *x as f64 * w).sum();
                let got = out[n * rows + m] as f64;
                assert!((got - want).abs() < 2e-4, "{level:?} {affine:?} {columns}: {got} {want}");
            }
        }
        let mut out = vec![f32::NAN; 3 * columns];
        dispatch_at(level, Dequantize { w, out: &mut out });
        for (got, want) in out.iter().zip(&e.values) {
            assert!((*got as f64 - want).abs() < 1e-6, "{level:?} {affine:?}");
        }
    }
}
