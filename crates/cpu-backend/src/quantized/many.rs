//! Products of many rows: tiles of the weights are dequantized and multiplied as matrices.

use rayon::prelude::*;

use super::weights::{Compute, Matrix};
use crate::{
    float::{Real, Wide},
    simd::gemm::{MatMut, MatRef, gemm},
};

/// Rows of transposed weights in a tile.
const OUTPUTS: usize = 128;
/// Columns of plain weights in a tile; a multiple of every group size.
const COLUMNS: usize = 256;
/// Rows of plain weights that are dequantized at a time.
const DEPTH: usize = 128;
/// Unrounded results that are kept at a time.
const RESULTS: usize = 1 << 24;

/// `out = x @ wᵀ` for `rows` rows of `x`.
pub(super) fn transposed<T: Compute>(x: &[T::Wide], rows: usize, w: &Matrix<'_, T>, out: &mut [T]) {
    let step = (RESULTS / w.rows).clamp(64, rows.max(64));
    for (x, out) in x.chunks(step * w.columns).zip(out.chunks_mut(step * w.rows)) {
        let rows = x.len() / w.columns;
        let mut products = vec![T::Wide::default(); w.rows * rows];
        let scratch = || vec![T::Wide::default(); OUTPUTS * w.columns];
        products.par_chunks_mut(OUTPUTS * rows).enumerate().for_each_init(
            scratch,
            |scratch, (i, products)| {
                let outputs = products.len() / rows;
                let tile = w.tile(i * OUTPUTS, outputs, 0, w.columns);
                let scratch = &mut scratch[..outputs * w.columns];
                T::dequantize(&tile, scratch);
                multiply(
                    MatMut::dense(products, rows, outputs),
                    MatRef::dense(x, rows, w.columns),
                    MatRef::dense(scratch, outputs, w.columns).t(),
                );
            },
        );
        from_tiles(&products, rows, OUTPUTS, out);
    }
}

/// `out = x @ w` for `rows` rows of `x`.
pub(super) fn plain<T: Compute>(x: &[T::Wide], rows: usize, w: &Matrix<'_, T>, out: &mut [T]) {
    let x = MatRef::dense(x, rows, w.rows);
    let mut products = vec![T::Wide::default(); out.len()];
    products.par_chunks_mut(COLUMNS * rows).enumerate().for_each(|(i, products)| {
        let columns = products.len() / rows;
        let mut scratch = vec![T::Wide::default(); DEPTH * columns];
        for from in (0..w.rows).step_by(DEPTH) {
            let depth = DEPTH.min(w.rows - from);
            let scratch = &mut scratch[..depth * columns];
            T::dequantize(&w.tile(from, depth, i * COLUMNS, columns), scratch);
            multiply(
                MatMut::dense(products, rows, columns),
                x.columns(from, depth),
                MatRef::dense(scratch, depth, columns),
            );
        }
    });
    from_tiles(&products, rows, COLUMNS, out);
}

/// Rounds a matrix of tiles of `width` columns, which lie one after the other, all row-major.
fn from_tiles<T: Real>(tiles: &[T::Wide], rows: usize, width: usize, out: &mut [T]) {
    let columns = out.len() / rows;
    out.par_chunks_mut(columns)
        .enumerate()
        .with_min_len((1 << 14) / columns.min(1 << 14))
        .for_each(|(row, out)| {
            for (tile, out) in tiles.chunks(width * rows).zip(out.chunks_mut(width)) {
                T::narrow_slice(&tile[row * out.len()..][..out.len()], out);
            }
        });
}

/// `out += a @ b` on one core.
fn multiply<W: Wide>(out: MatMut<'_, W>, a: MatRef<'_, W>, b: MatRef<'_, W>) {
    let one = W::from_f64(1.0);
    gemm(out, one, a, b, one, false);
}
