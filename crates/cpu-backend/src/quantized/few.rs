//! Products of few rows with transposed weights, as in decoding: the packed weights are read once.

use rayon::prelude::*;

use super::{PARALLEL, weights::Matrix};
use crate::{
    float::Real,
    simd::{self, Lanes, quantized::Activations},
};

/// Bytes of packed weights that one core takes at a time.
const TILE_BYTES: usize = 1 << 15;

/// `out = x @ wᵀ`.
pub(super) fn transposed<T>(x: &[f32], w: &Matrix<'_, T>, out: &mut [T])
where
    T: Real<Wide = f32> + Lanes,
{
    let x = Activations::new::<T>(x, w.columns, w.packing, simd::level());
    let rows = x.rows();
    let outputs = (TILE_BYTES / (4 * w.packing.packed_words(w.columns))).clamp(8, 256);
    let tile = |i: usize, products: &mut [f32]| {
        let tile = w.tile(i * outputs, products.len() / rows, 0, w.columns);
        tile.products(&x, products);
    };
    let parallel = w.rows * w.columns >= PARALLEL;
    if rows == 1 {
        let one = |i: usize, out: &mut [T]| {
            let mut products = [0.0; 256];
            tile(i, &mut products[..out.len()]);
            T::narrow_slice(&products, out);
        };
        return match parallel {
            true => out.par_chunks_mut(outputs).enumerate().for_each(|(i, out)| one(i, out)),
            false => out.chunks_mut(outputs).enumerate().for_each(|(i, out)| one(i, out)),
        };
    }
    let mut products = vec![0.0; out.len()];
    match parallel {
        true => products.par_chunks_mut(outputs * rows).enumerate().for_each(|(i, p)| tile(i, p)),
        false => products.chunks_mut(outputs * rows).enumerate().for_each(|(i, p)| tile(i, p)),
    }
    untranspose(&products, rows, out);
}

/// `out[m, n] = products[n, m]`, rounded.
fn untranspose<T: Real>(products: &[T::Wide], rows: usize, out: &mut [T]) {
    let columns = out.len() / rows;
    out.par_chunks_mut(columns)
        .enumerate()
        .with_min_len((1 << 14) / columns.min(1 << 14))
        .for_each(|(m, out)| {
            let products = products[m..].iter().step_by(rows);
            out.iter_mut().zip(products).for_each(|(out, &p)| *out = T::narrow(p));
        });
}
