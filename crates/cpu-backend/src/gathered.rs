//! Products of matrices that indices pick, and products over segments of the inner axis.

use mlx_vulkan_core::{Array, Result, backend::Output};
use rayon::prelude::*;

use crate::{
    encoder::{Encoder, In, Out},
    float::dispatch_real,
    indexing::{resolve, wrap},
    matmul::{Factor, Factors, Matrices, PARALLEL},
    rows::RowStarts,
    simd::gemm::MatRef,
};

/// Encodes `a[lhs[i]] @ b[rhs[i]]`.
pub(crate) fn gather_mm(
    enc: &mut Encoder<'_>,
    [a, b, lhs, rhs]: &[Array; 4],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let [a, b, lhs, rhs] = [a, b, lhs, rhs].map(In::from);
    dispatch_real!(out.dtype, T => enc.push(move || gather::<T>([&a, &b], [&lhs, &rhs], &out)))
}

fn gather<T: Factor>([a, b]: [&In; 2], [lhs, rhs]: [&In; 2], out: &Out) {
    let (left, right) = (a.read::<T>(), b.read::<T>());
    let (left, right) = (Matrices::new(a, left.buffer()), Matrices::new(b, right.buffer()));
    let lhs = resolve(lhs, |i| wrap(i, left.count()));
    let rhs = resolve(rhs, |i| wrap(i, right.count()));
    each_product(out, |i| (left.at(lhs[i]), right.at(rhs[i])));
}

/// Encodes `a[:, start..end] @ b[start..end, :]` for every segment.
pub(crate) fn segmented_mm(
    enc: &mut Encoder<'_>,
    [a, b, segments]: &[Array; 3],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let [a, b, segments] = [a, b, segments].map(In::from);
    dispatch_real!(out.dtype, T => enc.push(move || segment::<T>(&a, &b, &segments, &out)))
}

fn segment<T: Factor>(a: &In, b: &In, segments: &In, out: &Out) {
    let (left, right, ends) = (a.read::<T>(), b.read::<T>(), segments.read::<u32>());
    let left = Matrices::new(a, left.buffer()).at(0);
    let right = Matrices::new(b, right.buffer()).at(0).t();
    let starts = RowStarts::new(segments, 0);
    each_product(out, |i| {
        let end = |which| (ends.buffer()[starts.at(2 * i + which)] as usize).min(left.cols);
        let (from, to) = (end(0), end(1));
        let length = to.saturating_sub(from);
        let from = if length == 0 { 0 } else { from };
        (left.columns(from, length), right.columns(from, length).t())
    });
}

/// Makes the product of the operands of each batch.
fn each_product<'a, T: Factor>(
    out: &Out,
    operands: impl Fn(usize) -> (MatRef<'a, T>, MatRef<'a, T>) + Sync,
) {
    let [.., rows, columns] = out.shape[..] else { unreachable!("products have two axes") };
    let mut out = out.write::<T>();
    if out.is_empty() {
        return;
    }
    let factors = Factors { keep: 0.0, alpha: 1.0 };
    let (first, _) = operands(0);
    let work = out.len() * first.cols.max(1);
    let batches = out.len() / (rows * columns);
    let one = |i: usize, out: &mut [T], parallel: bool| {
        let (a, b) = operands(i);
        T::multiply(factors, a, b, out, parallel);
    };
    if work >= PARALLEL && batches >= rayon::current_num_threads() {
        let parts = out.par_chunks_mut(rows * columns).enumerate();
        parts.for_each(|(i, out)| one(i, out, false));
    } else {
        let parallel = work / batches >= PARALLEL;
        out.chunks_mut(rows * columns).enumerate().for_each(|(i, out)| one(i, out, parallel));
    }
}
