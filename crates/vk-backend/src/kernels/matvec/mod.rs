//! Few rows times matrices that share them, with what comes before and after (`matvec/fused.comp`;
//! matrices of 4 bits `matvec/matrix.comp`). Products of many rows are described in the same way.
//!
//! # Int8 rows
//!
//! A product of few rows with a quantized matrix is bound by instructions before it is bound by
//! memory: unpacking a field and adding its product in float32 takes two and a half. Where a device
//! multiplies four bytes at once (`OpSDot`; gate `MLX_VK_ENABLE_INTEGER_DOTS`), rows of 16-bit
//! floats come to shared memory as integers of 16 bits, each split into two signed bytes.
//!
//! - The unit is 1/32256 of the largest element of a chunk: 32 or 64 elements, never more than
//!   share a scale.
//! - Fields of 4 bits become bytes by one shift and two masks for eight of them. Fields of 8 bits
//!   become signed bytes by flipping a bit, for which 128 times the scale makes up.
//! - The sum of a chunk's products is exact. Scale, unit, bias and the sums over chunks are
//!   float32.
//! - An element loses at most half a unit: as much as float16 loses of the chunk's largest element,
//!   and far less than bfloat16 does.
//! - Elements that are not finite give results that are not finite.
//! - Rows of float32, and fields of other widths, are multiplied in float32.
//!
//! The kernels are modules of their own (`matvec_fused_dots`, `interpreter_dots`), because devices
//! without the feature cannot load them.

pub(crate) mod planner;

use mlx_vulkan_core::{Dtype, Result};

use super::{
    Ctx, Region,
    layouts::{
        matvec_fused::{self as lanes, Push},
        matvec_matrix as matrices,
    },
    matmul::matrix,
    steps::Kind,
};
use crate::runtime::commit::Call;
use planner::{MatrixPlan, Product};

/// A dense matrix (outputs, inner).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Matrix {
    /// Packed words, or the elements of a matrix that is not quantized.
    pub(crate) words: u64,
    pub(crate) scales: u64,
    pub(crate) biases: u64,
    /// (rows, outputs).
    pub(crate) result: u64,
    pub(crate) outputs: u32,
}

/// How the elements of a matrix are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Format {
    /// Of `x`, of the result, and of the matrix or its scales.
    pub(crate) dtype: u32,
    /// Bits per element; 16 or 32 when not quantized.
    pub(crate) bits: u32,
    /// Elements that share a scale; 1 when not quantized.
    pub(crate) group: u32,
}

/// RMS norm of the rows, with a weight per column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Norm {
    pub(crate) weight: u64,
    pub(crate) eps: f32,
}

/// What happens to the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// They are stored.
    Nothing,
    /// What stands at this address is added.
    Residual(u64),
    /// Two matrices: `silu(first) * second`, stored as the first one's result.
    Gate,
}

/// Most matrices of a dispatch.
pub(crate) const MOST_MATRICES: usize = 3;

/// `x @ matrixᵀ` of rows and up to [`MOST_MATRICES`] matrices, with what comes before and after.
#[derive(Debug, Clone)]
pub(crate) struct Fused {
    /// The rows; with a norm, its input.
    pub(crate) x: u64,
    pub(crate) rows: u32,
    pub(crate) inner: u32,
    pub(crate) format: Format,
    /// The first `count` are used.
    pub(crate) matrices: [Matrix; MOST_MATRICES],
    count: usize,
    pub(crate) norm: Option<Norm>,
    pub(crate) after: After,
}

impl Fused {
    /// A product without matrices yet.
    pub(crate) fn new(x: u64, rows: u32, inner: u32, format: Format) -> Self {
        let (norm, after) = (None, After::Nothing);
        let matrices = [Matrix::default(); MOST_MATRICES];
        Fused { x, rows, inner, format, matrices, count: 0, norm, after }
    }

    /// A product with one matrix.
    pub(crate) fn of(x: u64, rows: usize, inner: usize, format: Format, matrix: Matrix) -> Self {
        let mut fused = Self::new(x, rows as u32, inner as u32, format);
        fused.push(matrix);
        fused
    }

    /// Adds a matrix.
    ///
    /// # Panics
    /// When there are [`MOST_MATRICES`].
    pub(crate) fn push(&mut self, matrix: Matrix) {
        self.matrices[self.count] = matrix;
        self.count += 1;
    }

    /// Those that there are.
    pub(crate) fn matrices(&self) -> &[Matrix] {
        &self.matrices[..self.count]
    }

    /// Says where the `i`-th result goes.
    pub(crate) fn stored_at(&mut self, i: usize, result: u64) {
        self.matrices[i].result = result;
    }

    /// Its sizes, for planners.
    pub(crate) fn product(&self) -> Product {
        let sets = if self.after == After::Gate { 2 } else { 1 };
        let outputs = self.matrices.map(|m| m.outputs);
        Product { rows: self.rows, outputs, sets }
    }
}

/// Encodes a product, as a step where the stream makes runs of such.
///
/// # Errors
/// When the driver refuses the pipeline, or the device fails.
pub(crate) fn encode(
    ctx: &mut Ctx<'_>,
    fused: &Fused,
    reads: &[Region],
    writes: &[Region],
) -> Result<()> {
    if ctx.runs().is_some_and(|runs| runs.serves_product(fused)) {
        return ctx.put_off(Kind::Product(fused.clone()), reads, writes);
    }
    dispatch(ctx, fused, reads, writes)
}

/// Encodes a product as a dispatch.
///
/// # Errors
/// When the driver refuses the pipeline, or the device fails.
pub(crate) fn dispatch(
    ctx: &mut Ctx<'_>,
    fused: &Fused,
    reads: &[Region],
    writes: &[Region],
) -> Result<()> {
    let call = match on_matrices(ctx, fused) {
        Some(plan) => encode_matrix(ctx, fused, &plan),
        None => encode_lanes(ctx, fused),
    }?;
    ctx.encode(call, reads, writes)
}

/// The plan for cooperative matrices, where the product can go there.
fn on_matrices(ctx: &Ctx<'_>, fused: &Fused) -> Option<MatrixPlan> {
    let Format { dtype, bits, group } = fused.format;
    let dtype = [Dtype::Float16, Dtype::Bfloat16].into_iter().find(|&d| d as u32 == dtype)?;
    let aligned = |m: &Matrix| (m.words | m.scales | m.biases).is_multiple_of(16);
    let possible = ctx.config().enable_coopmat_matvec && bits == planner::MATRIX_BITS;
    if !possible || !fused.matrices().iter().all(aligned) {
        return None;
    }
    let fragment = matrix::fragment(dtype, [0; 2], ctx.capabilities(), ctx.config())?;
    planner::plan_matrix(&fused.product(), fused.inner, group, fragment, ctx.capabilities())
}

fn encode_matrix(ctx: &Ctx<'_>, fused: &Fused, plan: &MatrixPlan) -> Result<Call> {
    let (push, after) = push_of(fused, planner::MATRIX_BLOCK);
    let constants = matrices::Constants {
        workgroup: plan.workgroup,
        group: fused.format.group,
        rows: fused.rows,
        splits: plan.splits,
        before: u32::from(fused.norm.is_some()),
        after,
        inner: fused.inner,
        eps: fused.norm.map_or(0, |n| n.eps.to_bits()),
        fn_: plan.columns,
        depth: plan.depth,
        fragments: u32::from(ctx.config().enable_known_fragments),
    };
    let kernel = match fused.format.dtype == Dtype::Float16 as u32 {
        true => matrices::MATVEC_MATRIX_FLOAT16,
        false => matrices::MATVEC_MATRIX_BFLOAT16,
    };
    let pipeline = ctx.pipeline_with_subgroup(kernel, &constants, planner::MATRIX_SUBGROUP)?;
    let groups = push.ends[2].div_ceil(plan.teams()).min(plan.most_groups);
    Ok(Call::new(pipeline, &push, [groups, 1, 1]))
}

/// The push constants for blocks of `block` results, and the number of what comes after.
fn push_of(fused: &Fused, block: u32) -> (Push, u32) {
    let mut ends = [0; MOST_MATRICES];
    let mut blocks = 0;
    for (end, matrix) in ends.iter_mut().zip(&fused.matrices) {
        blocks += matrix.outputs / block;
        *end = blocks;
    }
    let mut matrices = fused.matrices.map(|m| lanes::Matrix {
        words: m.words,
        scales: m.scales,
        biases: m.biases,
        result: m.result,
    });
    let after = match fused.after {
        After::Nothing => 0,
        After::Residual(address) => {
            matrices[1].words = address;
            1
        }
        After::Gate => {
            // A team makes results of both.
            ends = [ends[0]; MOST_MATRICES];
            2
        }
    };
    let weight = fused.norm.map_or(0, |n| n.weight);
    (Push { x: fused.x, weight, matrices, ends, one: 1f32.to_bits() }, after)
}

fn encode_lanes(ctx: &Ctx<'_>, fused: &Fused) -> Result<Call> {
    let caps = ctx.capabilities();
    let asked = ctx.config().matvec_split_k;
    let Format { dtype, bits, group } = fused.format;
    let digits = planner::in_digits(bits, dtype, caps, ctx.config());
    let plan = planner::plan(&fused.product(), fused.inner, bits, asked, caps);
    let (push, after) = push_of(fused, plan.outputs);
    let constants = lanes::Constants {
        workgroup: plan.workgroup,
        dtype,
        bits,
        group,
        subgroup: plan.subgroup,
        rows: fused.rows,
        outputs: plan.outputs,
        before: u32::from(fused.norm.is_some()),
        after,
        inner: fused.inner,
        eps: fused.norm.map_or(0, |n| n.eps.to_bits()),
        splits: plan.splits,
    };
    let kernel = if digits { lanes::MATVEC_FUSED_DOTS } else { lanes::MATVEC_FUSED };
    let pipeline = ctx.pipeline_with_subgroup(kernel, &constants, plan.subgroup)?;
    let groups = [caps.groups_1d(push.ends[2].into(), plan.teams().into()), 1, 1];
    Ok(Call::new(pipeline, &push, groups))
}
