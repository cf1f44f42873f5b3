//! Kernels on quantized rows: products with activations, and dequantization.
//!
//! A product keeps the activations as they are: within a group it sums `q * x` in float32, with
//! exact products, then multiplies once by the group's scale; the bias of the affine format is
//! multiplied by the group's sum of `x`, which is the same for every row of the weights and computed
//! once. `q` is an integer, or a small float.
//!
//! Words of 2 and 4 bits are used as they lie: field `i` of sixteen words at a time, against
//! activations that were put in that order before. Where the machine multiplies pairs of bfloat16,
//! that is field `i` of both halves of the words; a float16 activation is the sum of two bfloat16,
//! so that its products stay exact. Where it does not, words of 4 bits meet activations split into bytes
//! (`int8_rows`). Other widths are unpacked to bytes first.

mod activations;
mod elements;
mod groups;
mod int8_rows;
mod products;
#[cfg(test)]
mod tests;

use mlx_vulkan_core::primitives::{FpMode, Packing};

use super::{Isa, Kernel, LANES, Lanes, Level};
pub(crate) use activations::Activations;
use elements::{Bytes, E2m1, E4m3, Fields, Integers, unpack};
use groups::Groups;
pub(crate) use groups::{AffineGroups, FloatScales, Parameters};
pub(crate) use products::Products;

/// Whether products with activations of type `T` multiply pairs of bfloat16. With the three parts
/// of a float32 that was no faster than single products.
const fn in_pairs<T: Lanes>() -> bool {
    T::PARTS <= 2
}

/// Whether those with fields of four bits multiply bytes at a level. With AVX-512 the three bytes of a
/// float32 were no faster than floats.
fn in_bytes<T: Lanes>(level: Level) -> bool {
    match level {
        Level::Avx2 => true,
        Level::Avx512 => in_pairs::<T>(),
        Level::Portable | Level::Avx512Bf16 => false,
    }
}

/// Rows of quantized weights.
#[derive(Clone, Copy)]
pub(crate) struct Quantized<'a, G> {
    pub(crate) packing: Packing,
    pub(crate) words: &'a [u32],
    /// Words between rows.
    pub(crate) stride: usize,
    pub(crate) columns: usize,
    pub(crate) groups: G,
}

impl<'a, G: Groups> Quantized<'a, G> {
    #[inline(always)]
    fn row(&self, row: usize) -> Row<'a, G> {
        let groups = self.columns / self.packing.group_size();
        Row {
            words: &self.words[row * self.stride..][..self.packing.packed_words(self.columns)],
            groups: self.groups.row(row, groups),
        }
    }
}

/// One row, and its groups.
#[derive(Clone, Copy)]
struct Row<'a, G> {
    words: &'a [u32],
    groups: G,
}

/// Rows of `w` as float32, one after the other in `out`.
pub(crate) struct Dequantize<'a, G> {
    pub(crate) w: Quantized<'a, G>,
    pub(crate) out: &'a mut [f32],
}

impl<T: Lanes> Kernel for Dequantize<'_, AffineGroups<'_, T>> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        self.all::<I, Integers<8>>(isa);
    }
}

impl Kernel for Dequantize<'_, FloatScales<'_>> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        match self.w.groups.mode {
            FpMode::Mxfp8 => self.all::<I, E4m3>(isa),
            FpMode::Mxfp4 | FpMode::Nvfp4 => self.all::<I, E2m1>(isa),
        }
    }
}

impl<G: Groups> Dequantize<'_, G> {
    /// Elements are what `B` makes of their codes.
    #[inline(always)]
    fn all<I: Isa, B: Bytes>(self, isa: I) {
        let (group_size, bits) = (self.w.packing.group_size(), self.w.packing.bits());
        let mut bytes = vec![0u8; self.w.columns];
        for (n, out) in self.out.chunks_exact_mut(self.w.columns).enumerate() {
            let row = self.w.row(n);
            unpack(isa, bits, row.words, &mut bytes);
            let sixteens = bytes.chunks(LANES * group_size).zip(out.chunks_mut(LANES * group_size));
            for (s, (bytes, out)) in sixteens.enumerate() {
                let scales = row.groups.scales(isa, s * LANES);
                let biases = row.groups.biases(isa, s * LANES);
                let groups = bytes.chunks_exact(group_size).zip(out.chunks_exact_mut(group_size));
                for ((q, out), (&scale, &bias)) in groups.zip(scales.iter().zip(&biases)) {
                    let (scale, bias) = (isa.splat(scale), isa.splat(bias));
                    let lanes = q.as_chunks::<LANES>().0.iter().zip(out.as_chunks_mut::<LANES>().0);
                    for (q, out) in lanes {
                        isa.store(isa.fma(B::load(isa, q), scale, bias), out);
                    }
                }
            }
        }
    }
}
