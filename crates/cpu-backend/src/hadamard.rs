//! Hadamard transforms of rows: butterflies for the power of two, sums for the other factor.

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::Hadamard};

use crate::{
    elementwise::for_rows,
    encoder::{Encoder, In, Out},
    float::{Real, Wide, dispatch_real},
    rows::{RowStarts, widen_row},
};

/// Encodes the transform of the last axis.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    transform: Hadamard,
    [a]: &[Array; 1],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let a = In::from(a);
    dispatch_real!(out.dtype, T => enc.push(move || run::<T>(transform, &a, &out)))
}

fn run<T: Real>(transform: Hadamard, a: &In, out: &Out) {
    let n = transform.m * transform.power;
    let data = a.read::<T>();
    let starts = RowStarts::new(a, 1);
    let stride = a.layout.strides[a.shape.len() - 1];
    let mut out = out.write::<T>();
    let work = out.len();
    for_rows(&mut out, n, work, |i, out| {
        let mut row = vec![T::Wide::default(); n];
        widen_row(data.buffer(), starts.at(i), stride, &mut row);
        row.chunks_exact_mut(transform.power).for_each(butterflies);
        let mut row = combine(transform, row);
        let scale = T::Wide::from_f64(transform.scale.0.into());
        row.iter_mut().for_each(|x| *x = *x * scale);
        T::narrow_slice(&row, out);
    });
}

/// Sylvester's matrix: sums and differences at doubling distances.
fn butterflies<W: Wide>(x: &mut [W]) {
    let mut half = 1;
    while half < x.len() {
        for pair in x.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

/// The matrix of order `m` over the parts of a row.
fn combine<W: Wide>(transform: Hadamard, row: Vec<W>) -> Vec<W> {
    if transform.m == 1 {
        return row;
    }
    let mut out = vec![W::from_f64(0.0); row.len()];
    for (signs, out) in transform.signs().iter().zip(out.chunks_exact_mut(transform.power)) {
        for (i, part) in row.chunks_exact(transform.power).enumerate() {
            let sign = W::from_f64(if signs >> i & 1 == 1 { -1.0 } else { 1.0 });
            out.iter_mut().zip(part).for_each(|(out, &x)| *out = *out + sign * x);
        }
    }
    out
}
