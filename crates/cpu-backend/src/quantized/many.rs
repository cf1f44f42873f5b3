//! Products of many rows: tiles of the weights are dequantized and multiplied as matrices.

use rayon::prelude::*;

use super::{
    few::untranspose,
    weights::{Compute, Matrix},
};
use crate::{
    float::Wide,
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
                    MatMut::dense_columns(products, rows, outputs),
                    MatRef::dense(x, rows, w.columns),
                    MatRef::dense(scratch, outputs, w.columns).t(),
                );
            },
        );
        untranspose(&products, rows, out);
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
    for (i, products) in products.chunks(COLUMNS * rows).enumerate() {
        let columns = products.len() / rows;
        for (row, products) in products.chunks(columns).enumerate() {
            let first = row * w.columns + i * COLUMNS;
            T::narrow_slice(products, &mut out[first..first + columns]);
        }
    }
}

/// `out += a @ b` on one core.
fn multiply<W: Wide>(out: MatMut<'_, W>, a: MatRef<'_, W>, b: MatRef<'_, W>) {
    let one = W::from_f64(1.0);
    gemm(out, one, a, b, one, false);
}
