//! Kernels on affine-quantized rows: products with activations, and dequantization.
//!
//! A product keeps the activations as they are: within a group it sums `q * x` in float32, with
//! exact products, then multiplies once by the group's scale; the bias is multiplied by the group's
//! sum of `x`, which is the same for every row of the weights and computed once.
//!
//! Words of 2 and 4 bits are used as they lie: field `i` of sixteen words at a time, against
//! activations that were put in that order before. Where the machine multiplies pairs of bfloat16,
//! that is field `i` of both halves of the words; a float16 activation is the sum of two bfloat16,
//! so that its products stay exact. Other widths are unpacked to bytes first.

mod activations;
mod products;
#[cfg(test)]
mod tests;

use mlx_vulkan_core::primitives::Affine;

use super::{Isa, Kernel, LANES, Lanes, lanes::partial};
pub(crate) use activations::Activations;
pub(crate) use products::Products;

/// Whether products with activations of type `T` multiply pairs of bfloat16. With the three parts
/// of a float32 that was no faster than single products.
const fn in_pairs<T: Lanes>() -> bool {
    T::PARTS <= 2
}

/// Scales or biases of rows of weights.
#[derive(Clone, Copy)]
pub(crate) struct Parameters<'a, T> {
    pub(crate) data: &'a [T],
    /// Elements between rows.
    pub(crate) stride: usize,
}

impl<'a, T: Lanes> Parameters<'a, T> {
    #[inline(always)]
    fn row(&self, row: usize, groups: usize) -> &'a [T] {
        &self.data[row * self.stride..][..groups]
    }
}

/// Rows of quantized weights.
#[derive(Clone, Copy)]
pub(crate) struct Quantized<'a, T> {
    pub(crate) affine: Affine,
    pub(crate) words: &'a [u32],
    /// Words between rows.
    pub(crate) stride: usize,
    pub(crate) columns: usize,
    pub(crate) scales: Parameters<'a, T>,
    pub(crate) biases: Parameters<'a, T>,
}

impl<'a, T: Lanes> Quantized<'a, T> {
    #[inline(always)]
    fn row(&self, row: usize) -> Row<'a, T> {
        let groups = self.columns / self.affine.group_size;
        Row {
            words: &self.words[row * self.stride..][..self.affine.packed_words(self.columns)],
            scales: self.scales.row(row, groups),
            biases: self.biases.row(row, groups),
        }
    }
}

#[derive(Clone, Copy)]
struct Row<'a, T> {
    words: &'a [u32],
    scales: &'a [T],
    biases: &'a [T],
}

/// Sixteen elements from `at` on; zeros past the end.
#[inline(always)]
fn load_upto<I: Isa, T: Lanes>(isa: I, x: &[T], at: usize) -> I::F {
    match x[at..].first_chunk() {
        Some(x) => T::load(isa, x),
        None => T::load(isa, &partial(&x[at..])),
    }
}

/// The scales of sixteen groups from `first` on, with as much behind them as kernels read.
#[inline(always)]
fn sixteen_scales<I: Isa, T: Lanes>(isa: I, scales: &[T], first: usize) -> [f32; LANES + 8] {
    let mut out = [0.0; LANES + 8];
    let sixteen = out.first_chunk_mut().expect("there is room for more");
    isa.store(load_upto(isa, scales, first), sixteen);
    out
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
pub(crate) struct Dequantize<'a, T> {
    pub(crate) w: Quantized<'a, T>,
    pub(crate) out: &'a mut [f32],
}

impl<T: Lanes> Kernel for Dequantize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Affine { group_size, bits } = self.w.affine;
        let mut bytes = vec![0u8; self.w.columns];
        for (n, out) in self.out.chunks_exact_mut(self.w.columns).enumerate() {
            let row = self.w.row(n);
            unpack(isa, bits, row.words, &mut bytes);
            let sixteens = bytes.chunks(LANES * group_size).zip(out.chunks_mut(LANES * group_size));
            for (s, (bytes, out)) in sixteens.enumerate() {
                let scales = sixteen_scales(isa, row.scales, s * LANES);
                let biases = sixteen_scales(isa, row.biases, s * LANES);
                let groups = bytes.chunks_exact(group_size).zip(out.chunks_exact_mut(group_size));
                for ((q, out), (&scale, &bias)) in groups.zip(scales.iter().zip(&biases)) {
                    let (scale, bias) = (isa.splat(scale), isa.splat(bias));
                    let lanes = q.as_chunks::<LANES>().0.iter().zip(out.as_chunks_mut::<LANES>().0);
                    for (q, out) in lanes {
                        isa.store(isa.fma(isa.load_u8(q), scale, bias), out);
                    }
                }
            }
        }
    }
}
