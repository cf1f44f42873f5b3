//! Quantization along the last axis: `w = scale * q + bias` with one pair per group, or `scale * q`
//! with small floats `q`.
//!
//! Products with few rows run on the packed weights at memory speed (`few`); products with many
//! rows dequantize tiles of the weights and multiply matrices (`many`). Sums are float32.

mod few;
mod many;
mod pack;
mod weights;

use mlx_vulkan_core::{
    Array, Result,
    backend::Output,
    primitives::{Affine, Packing, QuantizedOp},
};
use rayon::prelude::*;

use crate::{
    encoder::{Encoder, In, Out, args},
    float::{Real, dispatch_real},
    indexing::{resolve, wrap},
    rows::{RowStarts, widen_row},
};
use weights::{Compute, Matrix, Weights};

/// Rows from which dequantizing tiles of the weights pays off.
const MANY: usize = 24;
/// Multiplications from which a product is worth splitting over cores.
const PARALLEL: usize = 1 << 16;
/// Elements that one core quantizes or dequantizes at a time.
const CHUNK: usize = 1 << 14;

/// Hands a primitive of this family to its function.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    op: QuantizedOp,
    inputs: &[Array],
    output: &mut Output,
    others: &mut [Output],
) -> Result<()> {
    match op {
        QuantizedOp::Quantize(affine) => {
            let ([w], [scales, biases]) = (args(inputs), others) else {
                unreachable!("quantization has three outputs")
            };
            quantize(enc, affine, w, [output, scales, biases])
        }
        QuantizedOp::Dequantize(affine) => dequantize(enc, affine.into(), inputs, output),
        QuantizedOp::DequantizeFloats { mode, .. } => dequantize(enc, mode.into(), inputs, output),
        QuantizedOp::QuantizedMatmul { packing, transpose } => {
            matmul(enc, packing, transpose, inputs, output)
        }
        QuantizedOp::GatherQmm { packing, transpose, .. } => {
            gather_matmul(enc, packing, transpose, inputs, output)
        }
    }
}

/// Encodes the quantization of `w` to packed words, scales and biases.
fn quantize(
    enc: &mut Encoder<'_>,
    affine: Affine,
    w: &Array,
    [words, scales, biases]: [&mut Output; 3],
) -> Result<()> {
    let w = In::from(w);
    let [words, scales, biases] =
        [enc.allocate(words)?, enc.allocate(scales)?, enc.allocate(biases)?];
    dispatch_real!(w.dtype, T => enc.push(move || {
        let (mut scales, mut biases) = (scales.write::<T>(), biases.write::<T>());
        pack::quantize(affine, &w, &mut words.write::<u32>(), &mut scales, &mut biases);
    }))
}

/// Encodes what words, scales and biases stand for, in the dtype of the output.
fn dequantize(
    enc: &mut Encoder<'_>,
    packing: Packing,
    parts: &[Array],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let parts: Vec<In> = parts.iter().map(In::from).collect();
    dispatch_real!(out.dtype, T => enc.push(move || dequantize_all::<T>(packing, &parts, &out)))
}

fn dequantize_all<T: Compute>(packing: Packing, parts: &[In], out: &Out) {
    let mut out = out.write::<T>();
    if out.is_empty() {
        return;
    }
    let weights = Weights::<T>::lock(packing, parts);
    let weights = weights.view();
    for (batch, out) in out.chunks_mut(weights.rows * weights.columns).enumerate() {
        let matrix = weights.at(batch);
        let rows = (CHUNK / matrix.columns).max(1);
        out.par_chunks_mut(rows * matrix.columns).enumerate().for_each(|(i, out)| {
            let tile = matrix.tile(i * rows, out.len() / matrix.columns, 0, matrix.columns);
            let mut wide = vec![T::Wide::default(); out.len()];
            T::dequantize(&tile, &mut wide);
            T::narrow_slice(&wide, out);
        });
    }
}

/// Encodes `x @ w`, or `x @ wᵀ` if `transpose`, with quantized `w`: the inputs behind the first.
fn matmul(
    enc: &mut Encoder<'_>,
    packing: Packing,
    transpose: bool,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let task = QuantizedTask::new(packing, transpose, inputs, None, out);
    dispatch_real!(output.dtype, T => enc.push(move || task.run::<T>()))
}

/// Encodes the products of matrices that indices, the last two inputs, pick from `x` and `w`.
fn gather_matmul(
    enc: &mut Encoder<'_>,
    packing: Packing,
    transpose: bool,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let (operands, picks) = inputs.split_at(1 + packing.parts());
    let picks = args::<2>(picks).each_ref().map(In::from);
    let task = QuantizedTask::new(packing, transpose, operands, Some(picks), out);
    dispatch_real!(output.dtype, T => enc.push(move || task.run::<T>()))
}

struct QuantizedTask {
    packing: Packing,
    transpose: bool,
    x: In,
    /// The parts of the matrices.
    w: Vec<In>,
    /// Indices of the matrices of `x` and `w`; without them each is taken in turn.
    picks: Option<[In; 2]>,
    out: Out,
}

impl QuantizedTask {
    fn new(
        packing: Packing,
        transpose: bool,
        operands: &[Array],
        picks: Option<[In; 2]>,
        out: Out,
    ) -> Self {
        let (x, w) = (In::from(&operands[0]), operands[1..].iter().map(In::from).collect());
        QuantizedTask { packing, transpose, x, w, picks, out }
    }

    fn run<T: Compute>(&self) {
        let mut out = self.out.write::<T>();
        let inner = self.x.shape[self.x.shape.len() - 1];
        if out.is_empty() {
            return;
        }
        if inner == 0 {
            return out.fill(T::default());
        }
        let weights = Weights::<T>::lock(self.packing, &self.w);
        let weights = weights.view();
        let x = self.widened::<T>();
        let Some([lhs, rhs]) = &self.picks else {
            let (batches, rows) = (weights.batches(), x.len() / inner / weights.batches());
            let each = out.len() / batches;
            for (batch, out) in out.chunks_mut(each).enumerate() {
                let x = &x[batch * rows * inner..(batch + 1) * rows * inner];
                self.product(x, &weights.at(batch), out);
            }
            return;
        };
        let rows = self.x.shape[self.x.shape.len() - 2];
        let count = x.len() / inner / rows;
        let lhs = resolve(lhs, |i| wrap(i, count));
        let rhs = resolve(rhs, |i| wrap(i, weights.batches()));
        let each = out.len() / lhs.len();
        for ((out, from), matrix) in out.chunks_mut(each).zip(lhs).zip(rhs) {
            let x = &x[from * rows * inner..(from + 1) * rows * inner];
            self.product(x, &weights.at(matrix), out);
        }
    }

    /// The product of some rows with one matrix.
    fn product<T: Compute>(&self, x: &[T::Wide], matrix: &Matrix<'_, T>, out: &mut [T]) {
        let rows = x.len() / self.x.shape[self.x.shape.len() - 1];
        if !self.transpose {
            many::plain::<T>(x, rows, matrix, out);
        } else if rows >= MANY || !T::few(x, matrix, out) {
            many::transposed::<T>(x, rows, matrix, out);
        }
    }

    /// All of `x`, row-major.
    fn widened<T: Real>(&self) -> Vec<T::Wide> {
        let mut out = vec![T::Wide::default(); self.x.size()];
        let data = self.x.read::<T>();
        let starts = RowStarts::new(&self.x, 1);
        let (axes, shape) = (self.x.shape.len(), &self.x.shape);
        let stride = self.x.layout.strides[axes - 1];
        for (i, row) in out.chunks_exact_mut(shape[axes - 1]).enumerate() {
            widen_row(data.buffer(), starts.at(i), stride, row);
        }
        out
    }
}
