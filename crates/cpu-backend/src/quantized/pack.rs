//! Quantization, bit-equal to MLX on the CPU for the same input.

use mlx_vulkan_core::primitives::Affine;
use rayon::prelude::*;

use super::CHUNK;
use crate::{
    encoder::In,
    float::{Real, Wide},
    rows::{RowStarts, widen_row},
};

/// Quantizes rows of `w` into dense words, scales and biases.
pub(super) fn quantize<T: Real>(
    affine: Affine,
    w: &In,
    words: &mut [u32],
    scales: &mut [T],
    biases: &mut [T],
) {
    if words.is_empty() {
        return;
    }
    let columns = w.shape[w.shape.len() - 1];
    let (per_row, groups) = (affine.packed_words(columns), columns / affine.group_size);
    let data = w.read::<T>();
    let starts = RowStarts::new(w, 1);
    let stride = w.layout.strides[w.shape.len() - 1];
    let rows = words
        .par_chunks_mut(per_row)
        .zip(scales.par_chunks_mut(groups))
        .zip(biases.par_chunks_mut(groups))
        .enumerate()
        .with_min_len(CHUNK.div_ceil(columns));
    let scratch = || (vec![T::Wide::default(); columns], vec![0.0; columns]);
    rows.for_each_init(scratch, |(wide, row), (i, ((words, scales), biases))| {
        widen_row(data.buffer(), starts.at(i), stride, wide);
        row.iter_mut().zip(&*wide).for_each(|(x, w)| *x = w.to_f32());
        let words = words.chunks_exact_mut(affine.packed_words(affine.group_size));
        let parameters = scales.iter_mut().zip(biases);
        for ((w, words), (scale, bias)) in
            row.chunks_exact(affine.group_size).zip(words).zip(parameters)
        {
            let (s, b) = quantize_group(w, affine.bits, words);
            *scale = T::narrow(T::Wide::from_f64(s as f64));
            *bias = T::narrow(T::Wide::from_f64(b as f64));
        }
    });
}

/// Packs one group and returns its scale and bias.
///
/// The scale has the sign that makes the edge farthest from zero an exact multiple: the edge is
/// the bias, and zero stays zero.
fn quantize_group(w: &[f32], bits: usize, words: &mut [u32]) -> (f32, f32) {
    const SMALLEST_SCALE: f32 = 1e-7;
    let largest = ((1u32 << bits) - 1) as f32;
    let low = w.iter().fold(f32::INFINITY, |a, &b| if b < a { b } else { a });
    let high = w.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
    let negative_edge = low.abs() > high.abs();
    let scale = ((high - low) / largest).max(SMALLEST_SCALE);
    let scale = if negative_edge { scale } else { -scale };
    let edge = if negative_edge { low } else { high };
    let steps = (edge / scale).round_ties_even();
    let (scale, bias) = if steps == 0.0 { (scale, 0.0) } else { (edge / steps, edge) };
    pack(
        w.iter().map(|x| ((x - bias) / scale).round_ties_even().clamp(0.0, largest) as u32),
        bits,
        words,
    );
    (scale, bias)
}

/// Packs fields from the lowest bit up.
fn pack(fields: impl Iterator<Item = u32>, bits: usize, words: &mut [u32]) {
    let mut words = words.iter_mut();
    let (mut open, mut count) = (0u64, 0);
    for field in fields {
        open |= (field as u64) << count;
        count += bits;
        if count >= 32 {
            *words.next().expect("a group fills whole words") = open as u32;
            open >>= 32;
            count -= 32;
        }
    }
}
