//! Activations as products with quantized rows read them.

use mlx_vulkan_core::primitives::Packing;

use super::{in_bytes, in_pairs, int8_rows::Int8Rows};
use crate::simd::{LANES, Lanes, Level};

/// Activations in the order in which kernels want them, with the sums of their groups.
pub(crate) struct Activations {
    rows: usize,
    /// Sixteens of a row in `values` or `pairs`.
    chunks: usize,
    /// The rows one after the other, as float32, unless they are in `pairs` or `int8`.
    values: Vec<[f32; LANES]>,
    /// The rows one after the other, as pairs of bfloat16; the parts of an element lie in
    /// neighbouring sixteens.
    pairs: Vec<[u32; LANES]>,
    /// Floats of a row of sums, and the rows one after the other; nothing where there are no biases.
    groups: usize,
    sums: Vec<f32>,
    int8: Option<Int8Rows>,
}

impl Activations {
    /// Prepares rows of `columns` elements, which are those of a `T`, for weights packed so and
    /// kernels that run at `level`.
    pub(crate) fn new<T: Lanes>(x: &[f32], columns: usize, packing: Packing, level: Level) -> Self {
        let rows = x.len() / columns;
        let (bits, group_size) = (packing.bits(), packing.group_size());
        let fields = matches!(bits, 2 | 4);
        let pairs = fields && level == Level::Avx512Bf16 && in_pairs::<T>();
        let bytes = bits == 4 && matches!(packing, Packing::Affine(_)) && in_bytes::<T>(level);
        let int8 = bytes.then(|| Int8Rows::new::<T>(x, columns, group_size, level)).flatten();
        let chunks = match fields {
            true => columns.next_multiple_of(LANES * 32 / bits) / LANES,
            false => columns / LANES,
        };
        let chunks = if pairs { chunks / 2 * T::PARTS } else { chunks };
        let groups = match packing {
            Packing::Affine(_) => (columns / group_size).next_multiple_of(LANES),
            Packing::Floats(_) => 0,
        };
        let mut out = Activations {
            rows,
            chunks,
            values: vec![[0.0; LANES]; if pairs || int8.is_some() { 0 } else { rows * chunks }],
            pairs: vec![[0; LANES]; if pairs { rows * chunks } else { 0 }],
            groups,
            sums: vec![0.0; rows * groups],
            int8,
        };
        for (i, x) in x.chunks_exact(columns).enumerate() {
            let range = i * chunks..(i + 1) * chunks;
            match bits {
                _ if out.int8.is_some() => {}
                2 if pairs => by_pairs::<16, T>(x, &mut out.pairs[range]),
                4 if pairs => by_pairs::<8, T>(x, &mut out.pairs[range]),
                2 => by_fields::<16>(x, out.values[range].as_flattened_mut()),
                4 => by_fields::<8>(x, out.values[range].as_flattened_mut()),
                _ => out.values[range].as_flattened_mut().copy_from_slice(x),
            }
            let sums = out.sums[i * groups..].iter_mut().zip(x.chunks_exact(group_size));
            sums.for_each(|(sum, group)| *sum = lane_sum(group));
        }
        out
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The rows split into bytes, where [`Isa::BYTES`] is true and they can be.
    ///
    /// [`Isa::BYTES`]: crate::simd::Isa::BYTES
    #[inline(always)]
    pub(super) fn int8(&self) -> Option<&Int8Rows> {
        self.int8.as_ref()
    }

    #[inline(always)]
    pub(super) fn values(&self, row: usize) -> &[[f32; LANES]] {
        &self.values[row * self.chunks..(row + 1) * self.chunks]
    }

    #[inline(always)]
    pub(super) fn pairs(&self, row: usize) -> &[[u32; LANES]] {
        &self.pairs[row * self.chunks..(row + 1) * self.chunks]
    }

    #[inline(always)]
    pub(super) fn sums(&self, row: usize) -> &[[f32; LANES]] {
        self.sums[row * self.groups..(row + 1) * self.groups].as_chunks().0
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

/// Puts elements that are field `i` of both halves of sixteen neighbouring words next to each
/// other, as the parts of a `T`.
fn by_pairs<const FIELDS: usize, T: Lanes>(x: &[f32], out: &mut [[u32; LANES]]) {
    let half = FIELDS / 2;
    for (x, out) in x.chunks(LANES * FIELDS).zip(out.chunks_exact_mut(half * T::PARTS)) {
        for (word, x) in x.as_chunks::<FIELDS>().0.iter().enumerate() {
            for i in 0..half {
                let (mut low, mut high) = (x[i], x[half + i]);
                for part in 0..T::PARTS {
                    let bits = cut(&mut low) >> 16 | cut(&mut high);
                    out[i * T::PARTS + part][word] = bits;
                }
            }
        }
    }
}

/// The upper 16 bits of a float32; leaves what they are less than `x` there.
#[inline(always)]
pub(super) fn cut(x: &mut f32) -> u32 {
    let upper = x.to_bits() & 0xFFFF_0000;
    let rest = *x - f32::from_bits(upper);
    // Of infinity nothing is left.
    *x = if x.is_infinite() { 0.0 } else { rest };
    upper
}
