//! Quantization: quantize, dequantize, and products with quantized matrices, affine or of small floats.

pub(crate) mod gather_rows;
pub(crate) mod planner;
mod product;

use mlx_vulkan_core::{
    Array, Dtype, Result,
    backend::Output,
    primitives::{Affine, FpMode, Packing, QuantizedOp},
};

use super::{
    Ctx, Operand, Region, copy,
    layouts::{packed, quantized_dequantize as reads, quantized_quantize as writes},
};

pub(super) use product::{Fields, MATRIX, encode_fields};

/// Encodes the primitives of this family.
///
/// # Errors
/// When the backend refuses it, or memory or the device fails.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    op: QuantizedOp,
    inputs: &[Array],
    output: &mut Output,
    others: &mut [Output],
) -> Result<()> {
    match op {
        QuantizedOp::Quantize(affine) => quantize(ctx, affine, &inputs[0], output, others),
        QuantizedOp::Dequantize(affine) => dequantize(ctx, affine.into(), inputs, output),
        QuantizedOp::DequantizeFloats { mode, .. } => dequantize(ctx, mode.into(), inputs, output),
        QuantizedOp::QuantizedMatmul { packing, transpose } => {
            product::eval(ctx, packing, transpose, inputs, output)
        }
        QuantizedOp::GatherQmm { packing, transpose, right_sorted, .. } => {
            product::gather(ctx, packing, transpose, right_sorted, inputs, output)
        }
    }
}

/// The number of a format in shaders.
pub(super) fn format_of(packing: Packing) -> u32 {
    match packing {
        Packing::Affine(_) => packed::AFFINE,
        Packing::Floats(FpMode::Mxfp4) => packed::MXFP4,
        Packing::Floats(FpMode::Nvfp4) => packed::NVFP4,
        Packing::Floats(FpMode::Mxfp8) => packed::MXFP8,
    }
}

/// Words, scales and biases as operands; small floats have no biases, and nothing stands for them.
fn operands(
    parts: &[Array],
    mut operand: impl FnMut(&Array) -> Result<Operand>,
) -> Result<[Operand; 3]> {
    let mut all = [Operand::default(); 3];
    for (at, part) in all.iter_mut().zip(parts) {
        *at = operand(part)?;
    }
    Ok(all)
}

/// Encodes `quantize`: words, scales and biases of every group.
///
/// # Errors
/// When memory or the device fails.
fn quantize(
    ctx: &mut Ctx<'_>,
    affine: Affine,
    w: &Array,
    words: &mut Output,
    others: &mut [Output],
) -> Result<()> {
    let from = copy::dense(ctx, w)?;
    let [scales, biases] = others else { unreachable!("quantization has three outputs") };
    let words = ctx.output(words)?;
    let scales = ctx.output(scales)?;
    let biases = ctx.output(biases)?;
    let count = (w.size() / affine.group_size) as u64;
    let push = writes::Push {
        w: from.address,
        words: words.address,
        scales: scales.address,
        biases: biases.address,
        count,
    };
    let group = ctx.capabilities().elementwise_workgroup().min(64);
    let constants = writes::Constants {
        workgroup: group,
        dtype: w.dtype() as u32,
        bits: affine.bits as u32,
        group: affine.group_size as u32,
    };
    let pipeline = ctx.pipeline(writes::QUANTIZE, &constants);
    let writes = [words.region, scales.region, biases.region];
    ctx.run(&pipeline, &push, count, u64::from(group), &[from.region], &writes)
}

/// Encodes `dequantize`.
///
/// # Errors
/// When memory or the device fails.
fn dequantize(
    ctx: &mut Ctx<'_>,
    packing: Packing,
    parts: &[Array],
    output: &mut Output,
) -> Result<()> {
    let at = operands(parts, |part| copy::dense(ctx, part))?;
    let result = ctx.output(output)?;
    let count = output.size() as u64;
    dequantize_into(ctx, packing, output.dtype, at, count, result.region)
}

/// Dequantizes `count` elements to `dtype` from dense words, scales and biases.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn dequantize_into(
    ctx: &mut Ctx<'_>,
    packing: Packing,
    dtype: Dtype,
    at: [Operand; 3],
    count: u64,
    result: Region,
) -> Result<()> {
    let count = count / 8;
    let [words, scales, biases] = at.map(|a| a.address);
    let push = reads::Push { words, scales, biases, result: result.address, count };
    let group = ctx.capabilities().elementwise_workgroup();
    let pipeline = ctx.pipeline(reads::DEQUANTIZE, &constants(group, dtype, packing));
    let reads = at.map(|a| a.region);
    ctx.run(&pipeline, &push, count, u64::from(group), &reads, &[result])
}

/// A quantized matrix of dense rows.
pub(crate) struct QuantizedMatrix {
    /// Words, scales and biases.
    pub(crate) at: [Operand; 3],
    /// Of scales and biases.
    pub(crate) dtype: Dtype,
    pub(crate) affine: Affine,
    /// Rows, and elements of one.
    pub(crate) shape: [usize; 2],
}

/// Dequantizes the rows at `count` dense indices; as in `take`, negative ones count from the end.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn dequantize_rows(
    ctx: &mut Ctx<'_>,
    matrix: &QuantizedMatrix,
    (indices, index, count): (Operand, Dtype, usize),
    result: Region,
) -> Result<()> {
    let [rows, columns] = matrix.shape;
    let row = columns / 8;
    let [words, scales, biases] = matrix.at.map(|a| a.address);
    let push = reads::GatherPush {
        words,
        scales,
        biases,
        result: result.address,
        count: (count * row) as u64,
        indices: indices.address,
        size: rows as i64,
        row: row as u32,
    };
    let group = ctx.capabilities().elementwise_workgroup();
    let constants = constants(group, matrix.dtype, matrix.affine.into());
    let constants = reads::Constants { index: index as u32, ..constants };
    let pipeline = ctx.pipeline(reads::DEQUANTIZE_GATHER, &constants);
    let [words, scales, biases] = matrix.at.map(|a| a.region);
    let reads = [words, scales, biases, indices.region];
    ctx.run(&pipeline, &push, push.count, u64::from(group), &reads, &[result])
}

/// Constants of a dense dequantization.
fn constants(workgroup: u32, dtype: Dtype, packing: Packing) -> reads::Constants {
    let (bits, group) = (packing.bits() as u32, packing.group_size() as u32);
    let (dtype, format) = (dtype as u32, format_of(packing));
    reads::Constants { workgroup, dtype, bits, group, index: 0, format }
}
