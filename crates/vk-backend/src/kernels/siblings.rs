//! Many rows times matrices that share them, with what comes after, on cooperative matrices: one dispatch of
//! the kernel that serves a single product, with a list of matrices.

use mlx_vulkan_core::{Dtype, Result, primitives::Affine};
use smallvec::SmallVec;

use crate::{
    kernels::{
        Ctx, Dispatch, Operand, Region,
        layouts::{
            matmul_matrix::{self, Sibling},
            packed, quantized_qmm_matrix,
        },
        matmul::{
            gemm::{
                A_ALONG_K, A_VECTOR, ADD, B_ALONG_K, B_VECTOR, C_VECTOR, GATED, GELU, MATRIX, Push,
                SIBLINGS, matrix_constants, matrix_grid, matrix_pipeline, sum_parts_and,
            },
            matrix::{self, MatrixTile, Right},
        },
        matvec::{After, Format, Fused, Gate, Weights},
        quantized::{self, Fields},
    },
    runtime::capabilities::{Capabilities, Fragment},
};

/// How such products are done.
#[derive(Debug, Clone)]
pub(crate) struct SiblingsPlan {
    tile: MatrixTile,
    /// Parts of k: of fields, or of a single matrix with a residual.
    splits: u32,
    /// Of the matrices in the kernel's list.
    order: SmallVec<[usize; 3]>,
}

/// The plan of such products, where one dispatch is enough for the device or its parts are added up anyway.
pub(crate) fn plan(ctx: &Ctx<'_>, fused: &Fused, fragment: Fragment) -> Option<SiblingsPlan> {
    let outputs = fused.matrices().iter().map(|m| m.outputs as usize).sum();
    let (rows, inner) = (fused.rows as usize, fused.inner as usize);
    let caps = ctx.capabilities();
    let right = right_of(fused, [rows, outputs, inner], fragment, caps);
    let (tile, splits) = matrix::plan(rows, outputs, inner, 1, fragment, right, caps)?;
    let splits = match fused.after {
        After::Residual(_) => splits,
        _ if tile.fields => splits,
        _ if splits > matrix::MOST_UNSPLIT => return None,
        _ => 1,
    };
    Some(SiblingsPlan { tile, splits, order: order(fused, tile)? })
}

/// Encodes the products.
///
/// # Errors
/// When memory is out, the driver refuses the pipeline, or the device fails.
pub(crate) fn encode(
    ctx: &mut Ctx<'_>,
    fused: &Fused,
    SiblingsPlan { tile, splits, order }: SiblingsPlan,
    dtype: Dtype,
    reads: &[Region],
    writes: &[Region],
) -> Result<()> {
    let mut reads: SmallVec<[Region; 12]> = reads.into();
    let count = u64::from(fused.rows) * u64::from(fused.matrices()[0].outputs);
    let parts = match splits {
        1 => None,
        // Their kernel adds the parts up.
        _ if tile.fields => None,
        splits => Some(ctx.scratch(count * u64::from(splits) * 4)?),
    };
    let mut matrices: SmallVec<[Weights; 3]> = fused.matrices().into();
    let mut packed = (fused.format.group > 1).then(|| affine(fused.format));
    if let Some(affine) = packed.filter(|_| dequantizes(fused)) {
        for matrix in &mut matrices {
            let dense = dequantized(ctx, matrix, fused.inner, affine, dtype)?;
            matrix.words = dense.address;
            reads.push(dense);
        }
        packed = None;
    }
    let mut n = 0;
    let list: SmallVec<[Sibling; 3]> = order
        .iter()
        .map(|&i| {
            let Weights { words, scales, biases, result, outputs, .. } = matrices[i];
            let result = parts.map_or(result, |parts| parts.address);
            n += outputs;
            Sibling { b: words, scales, biases, result, n: outputs, end: n }
        })
        .collect();
    let mut push = Push {
        a: fused.x,
        extra: ctx.args(bytemuck::cast_slice(&list))?,
        lda: fused.inner.into(),
        ldb: fused.inner.into(),
        m: fused.rows,
        n,
        k: fused.inner,
        batches: 1,
        alpha: 1.0,
        beta: 1.0,
        splits,
        ..Push::default()
    };
    let mut flags = flags(fused, &matrices, packed.is_some());
    if let (After::Residual(address), None) = (fused.after, parts) {
        let outputs = matrices[0].outputs;
        flags |= if outputs.is_multiple_of(4) { ADD | C_VECTOR } else { ADD };
        (push.c, push.c_row, push.c_column) = (address, outputs.into(), 1);
    }
    let caps = ctx.capabilities();
    if let Some(affine) = packed.filter(|_| tile.fields) {
        let is_aligned = matrices.iter().all(|m| (m.scales | m.biases).is_multiple_of(16));
        let packing = affine.into();
        let fields = Fields { tile, dtype, flags, packing, is_aligned, row_groups: 0 };
        return quantized::encode_fields(ctx, fields, &push, &reads, writes);
    }
    let out = if parts.is_some() { Dtype::Float32 } else { dtype };
    let pipeline = match packed {
        Some(Affine { bits, group_size }) => {
            let constants = matrix_constants!(
                quantized_qmm_matrix, tile, dtype, out, flags,
                bits: bits as u32, group: group_size as u32, format: packed::AFFINE
            );
            matrix_pipeline(ctx, quantized::MATRIX, dtype, &constants)
        }
        None => {
            let constants = matrix_constants!(matmul_matrix, tile, dtype, out, flags);
            matrix_pipeline(ctx, MATRIX, dtype, &constants)
        }
    };
    let (pipeline, push, groups) = (&pipeline, &push, matrix_grid(&tile, &push, 0, caps));
    let here = parts.as_ref().map_or(writes, std::slice::from_ref);
    ctx.dispatch(&Dispatch { pipeline, push, groups, reads: &reads, writes: here })?;
    let (Some(parts), After::Residual(address)) = (parts, fused.after) else { return Ok(()) };
    let bytes = count * dtype.size() as u64;
    let dense = |address| Operand { address, region: Region { address, bytes } };
    let (addend, result) = (dense(address), dense(fused.matrices()[0].result));
    sum_parts_and(ctx, parts, splits, addend, count, dtype, result)
}

/// The order of the matrices in which a tile has columns of two at most, and quads of columns of one.
fn order(fused: &Fused, tile: MatrixTile) -> Option<SmallVec<[usize; 3]>> {
    let outputs = |i: usize| fused.matrices()[i].outputs;
    let mut order: SmallVec<[usize; 3]> = (0..fused.matrices().len()).collect();
    if fused.after.is_gate() {
        return Some(order);
    }
    if let [_, _, _] = order[..] {
        // Only the middle one can lie within a tile that has columns of the others, too.
        order.sort_by_key(|&i| outputs(i));
        order.swap(1, 2);
        (outputs(order[1]) >= tile.bn).then_some(())?;
    }
    let quads = |i: &usize| outputs(*i).is_multiple_of(4);
    if !quads(&order[0]) {
        order.reverse();
    }
    order[..order.len() - 1].iter().all(quads).then_some(order)
}

fn affine(format: Format) -> Affine {
    Affine { group_size: format.group as usize, bits: format.bits as usize }
}

/// How tiles see the matrices of a product of [rows, outputs, inner].
fn right_of(fused: &Fused, sizes: [usize; 3], fragment: Fragment, caps: &Capabilities) -> Right {
    if fused.format.group <= 1 || dequantizes(fused) {
        return Right::Dense;
    }
    let vectors = A_VECTOR | B_VECTOR;
    let aligned = flags(fused, fused.matrices(), true) & vectors == vectors;
    quantized::planner::right_of(affine(fused.format).into(), true, sizes[2], Some(fragment), caps)
        .fields_if(matrix::takes_fields(sizes) && aligned)
}

/// Whether the matrices are dequantized into memory once instead of by every tile of rows.
fn dequantizes(fused: &Fused) -> bool {
    let (rows, inner) = (fused.rows as usize, fused.inner as usize);
    fused.matrices().iter().all(|m| matrix::dequantizes(rows, m.outputs as usize, inner))
}

/// A matrix dequantized into scratch memory.
fn dequantized(
    ctx: &mut Ctx<'_>,
    matrix: &Weights,
    inner: u32,
    affine: Affine,
    dtype: Dtype,
) -> Result<Region> {
    let count = u64::from(matrix.outputs) * u64::from(inner);
    let bits = [affine.bits as u64, 16, 16];
    let each = [1, affine.group_size as u64, affine.group_size as u64];
    let addresses = [matrix.words, matrix.scales, matrix.biases];
    let parts = [0, 1, 2].map(|i| {
        let (address, bytes) = (addresses[i], count / each[i] * bits[i] / 8);
        Operand { address, region: Region { address, bytes } }
    });
    let dense = ctx.scratch(count * dtype.size() as u64)?;
    quantized::dequantize_into(ctx, affine.into(), dtype, parts, count, dense)?;
    Ok(dense)
}

/// How the operands lie; cooperative matrices take no part of a vector of eight, so rows must have whole
/// ones.
fn flags(fused: &Fused, matrices: &[Weights], packed: bool) -> u32 {
    let vectors = |address: u64| address.is_multiple_of(16) && fused.inner.is_multiple_of(8);
    let words = matrices.iter().all(|m| m.words.is_multiple_of(16));
    let b_vector = words && (packed || fused.inner.is_multiple_of(8));
    let bit = |on: bool, flag: u32| if on { flag } else { 0 };
    A_ALONG_K
        | B_ALONG_K
        | SIBLINGS
        | bit(vectors(fused.x), A_VECTOR)
        | bit(b_vector, B_VECTOR)
        | bit(fused.after.is_gate(), GATED)
        | bit(fused.after == After::Gate(Gate::Gelu), GELU)
}
