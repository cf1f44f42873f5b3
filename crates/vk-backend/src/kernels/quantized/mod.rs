//! Affine quantization: quantize, dequantize, and products with quantized matrices.

pub mod planner;
mod product;

use bytemuck::{Pod, Zeroable};
use mlx_vulkan_core::{Array, Dtype, Result, backend::Output, primitives::Affine};

use super::{Ctx, Kernel, Operand, Region, copy};

pub(super) use product::{MATRIX, eval as matmul, gather};

/// Push constants of `quantize.comp` and `dequantize.comp`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Push {
    first: u64,
    second: u64,
    third: u64,
    fourth: u64,
    count: u64,
}

impl Push {
    /// Of `count` eights of words, scales and biases to dequantize.
    fn dequantizing([words, scales, biases]: [Operand; 3], result: Region, count: u64) -> Self {
        Push {
            first: words.address,
            second: scales.address,
            third: biases.address,
            fourth: result.address,
            count,
        }
    }
}

/// Encodes `quantize`: words, scales and biases of every group.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn quantize(
    ctx: &mut Ctx<'_>,
    affine: Affine,
    w: &Array,
    outputs: &mut [Output],
) -> Result<()> {
    let from = copy::dense(ctx, w)?;
    let [words, scales, biases] = outputs else {
        return Err(ctx.unsupported(w, "quantize has three outputs"));
    };
    let words = ctx.output(words)?;
    let scales = ctx.output(scales)?;
    let biases = ctx.output(biases)?;
    let count = (w.size() / affine.group_size) as u64;
    let push = Push {
        first: from.address,
        second: words.address,
        third: scales.address,
        fourth: biases.address,
        count,
    };
    let group = ctx.capabilities().elementwise_workgroup().min(64);
    let pipeline = ctx.pipeline(Kernel::quantize, &constants(group, w.dtype(), affine))?;
    let writes = [words.region, scales.region, biases.region];
    ctx.run(&pipeline, bytemuck::bytes_of(&push), count, u64::from(group), &[from.region], &writes)
}

/// Encodes `dequantize`.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn dequantize(
    ctx: &mut Ctx<'_>,
    affine: Affine,
    inputs: &[Array; 3],
    output: &mut Output,
) -> Result<()> {
    let [words, scales, biases] = inputs;
    let at = [copy::dense(ctx, words)?, copy::dense(ctx, scales)?, copy::dense(ctx, biases)?];
    let result = ctx.output(output)?;
    dequantize_into(ctx, affine, scales.dtype(), at, output.size() as u64, result.region)
}

/// Dequantizes `count` elements from dense words, scales and biases.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn dequantize_into(
    ctx: &mut Ctx<'_>,
    affine: Affine,
    dtype: Dtype,
    at: [Operand; 3],
    count: u64,
    result: Region,
) -> Result<()> {
    let count = count / 8;
    let push = Push::dequantizing(at, result, count);
    let group = ctx.capabilities().elementwise_workgroup();
    let pipeline = ctx.pipeline(Kernel::dequantize, &constants(group, dtype, affine))?;
    let reads = at.map(|a| a.region);
    ctx.run(&pipeline, bytemuck::bytes_of(&push), count, u64::from(group), &reads, &[result])
}

/// Push constants of `dequantize.comp` for rows at indices.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct GatherPush {
    matrix: Push,
    indices: u64,
    size: i64,
    row: u32,
    unused: u32,
}

/// A quantized matrix of dense rows.
pub(crate) struct Matrix {
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
    matrix: &Matrix,
    (indices, index, count): (Operand, Dtype, usize),
    result: Region,
) -> Result<()> {
    let [rows, columns] = matrix.shape;
    let row = columns / 8;
    let push = GatherPush {
        matrix: Push::dequantizing(matrix.at, result, (count * row) as u64),
        indices: indices.address,
        size: rows as i64,
        row: row as u32,
        unused: 0,
    };
    let group = ctx.capabilities().elementwise_workgroup();
    let [group, dtype, bits, size] = constants(group, matrix.dtype, matrix.affine);
    let constants = [group, dtype, bits, size, index as u32];
    let pipeline = ctx.pipeline(Kernel::dequantize_gather, &constants)?;
    let [words, scales, biases] = matrix.at.map(|a| a.region);
    let reads = [words, scales, biases, indices.region];
    let bytes = bytemuck::bytes_of(&push);
    ctx.run(&pipeline, bytes, push.matrix.count, u64::from(group), &reads, &[result])
}

fn constants(group: u32, dtype: Dtype, affine: Affine) -> [u32; 4] {
    [group, dtype as u32, affine.bits as u32, affine.group_size as u32]
}
