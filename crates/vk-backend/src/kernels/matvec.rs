//! Few rows times matrices that share them, with what comes before and after (`matvec/fused.comp`; matrices of
//! 4 bits `matvec/matrix.comp`).

use bytemuck::{Pod, Zeroable};
use mlx_core::{Dtype, Result, backend::Output};

use super::{Ctx, Kernel, Region};
use crate::{
    device::DeviceState,
    planners::{
        matrix,
        matvec::{self as planner, MatrixPlan, Product},
    },
    window::{
        Call,
        step::{Format, MatVec, Matrix, RmsNorm, Step},
    },
};

/// Push constants of both kernels.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Push {
    x: u64,
    weight: u64,
    matrices: [[u64; 4]; 3],
    ends: [u32; 3],
    one: u32,
}

/// What happens to the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// They are stored.
    Nothing,
    /// What stands at this address is added; the whole region is known.
    Residual(u64, Region),
    /// Two matrices: `silu(first) * second`, stored as the first one's result.
    Gate,
}

/// A product with what comes before and after.
#[derive(Debug, Clone)]
pub(crate) struct Fused {
    /// The rows; with a norm, its input.
    pub(crate) x: u64,
    pub(crate) rows: u32,
    pub(crate) inner: u32,
    pub(crate) format: Format,
    /// The first `count` are used.
    pub(crate) matrices: [Matrix; 3],
    count: usize,
    pub(crate) norm: Option<RmsNorm>,
    pub(crate) after: After,
}

impl Fused {
    /// A product alone.
    pub(crate) fn of(step: &MatVec) -> Self {
        let mut matrices = [Matrix::default(); 3];
        matrices[0] = step.matrix;
        let (norm, after) = (None, After::Nothing);
        let MatVec { x, rows, inner, format, .. } = *step;
        Fused { x, rows, inner, format, matrices, count: 1, norm, after }
    }

    /// Adds a matrix; whether there was room.
    pub(crate) fn push(&mut self, matrix: Matrix) -> bool {
        let Some(slot) = self.matrices.get_mut(self.count) else { return false };
        *slot = matrix;
        self.count += 1;
        true
    }

    fn product(&self) -> Product {
        let sets = if self.after == After::Gate { 2 } else { 1 };
        let outputs = self.matrices.map(|m| m.outputs);
        Product { rows: self.rows, outputs, sets }
    }

    /// For statistics.
    pub(crate) fn describe(&self) -> String {
        let after = match self.after {
            After::Nothing => "",
            After::Residual(..) => " + residual",
            After::Gate => " gated",
        };
        let norm = if self.norm.is_some() { "norm " } else { "" };
        let p = self.product();
        let (inner, bits) = (self.inner, self.format.bits);
        format!("{norm}{}x{inner}x{:?} b{bits}{after}", p.rows, &p.outputs[..self.count])
    }
}

/// Encodes a product on its own, so that it can be fused later.
///
/// # Errors
/// When the device fails.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    step: MatVec,
    reads: &[Region],
    result: Region,
    output: &Output,
) -> Result<()> {
    ctx.encode_later(Step::MatVec(step), reads, &[result], output)
}

/// The dispatch of a product.
///
/// # Errors
/// When the driver refuses the pipeline.
pub(crate) fn encode(device: &DeviceState, fused: &Fused) -> Result<Call> {
    match on_matrices(device, fused) {
        Some(plan) => encode_matrix(device, fused, &plan),
        None => encode_lanes(device, fused),
    }
}

/// The plan for cooperative matrices, where the product can go there.
fn on_matrices(device: &DeviceState, fused: &Fused) -> Option<MatrixPlan> {
    let Format { dtype, bits, group } = fused.format;
    let dtype = [Dtype::Float16, Dtype::Bfloat16].into_iter().find(|&d| d as u32 == dtype)?;
    let aligned = |m: &Matrix| (m.words | m.scales | m.biases).is_multiple_of(16);
    let possible = device.config.enable_coopmat_matvec && bits == planner::MATRIX_BITS;
    if !possible || !fused.matrices[..fused.count].iter().all(aligned) {
        return None;
    }
    let fragment = matrix::fragment(dtype, [0; 2], device.capabilities(), device.config)?;
    planner::plan_matrix(&fused.product(), fused.inner, group, fragment, device.capabilities())
}

fn encode_matrix(device: &DeviceState, fused: &Fused, plan: &MatrixPlan) -> Result<Call> {
    let (push, after) = push_of(fused, planner::MATRIX_BLOCK);
    let constants = [
        plan.workgroup,
        fused.format.group,
        fused.rows,
        plan.splits,
        u32::from(fused.norm.is_some()),
        after,
        fused.inner,
        fused.norm.map_or(0, |n| n.eps.to_bits()),
        plan.columns,
        plan.depth,
        u32::from(device.config.enable_known_fragments),
    ];
    let kernel = match fused.format.dtype == Dtype::Float16 as u32 {
        true => Kernel::matvec_matrix_float16,
        false => Kernel::matvec_matrix_bfloat16,
    };
    let pipeline = device.pipelines.get(kernel, &constants, planner::MATRIX_SUBGROUP)?;
    let groups = push.ends[2].div_ceil(plan.teams()).min(plan.most_groups);
    Ok(Call::new(pipeline, bytemuck::bytes_of(&push), [groups, 1, 1]))
}

/// The push constants for blocks of `block` results, and the number of what comes after.
fn push_of(fused: &Fused, block: u32) -> (Push, u32) {
    let mut ends = [0; 3];
    let mut blocks = 0;
    for (end, matrix) in ends.iter_mut().zip(&fused.matrices) {
        blocks += matrix.outputs / block;
        *end = blocks;
    }
    let mut matrices = fused.matrices.map(|m| [m.words, m.scales, m.biases, m.result]);
    let after = match fused.after {
        After::Nothing => 0,
        After::Residual(address, _) => {
            matrices[1][0] = address;
            1
        }
        After::Gate => {
            // A team makes results of both.
            ends = [ends[0]; 3];
            2
        }
    };
    let weight = fused.norm.map_or(0, |n| n.weight);
    (Push { x: fused.x, weight, matrices, ends, one: 1f32.to_bits() }, after)
}

fn encode_lanes(device: &DeviceState, fused: &Fused) -> Result<Call> {
    let caps = device.capabilities();
    let plan = planner::plan(&fused.product(), caps);
    let (push, after) = push_of(fused, plan.outputs);
    let Format { dtype, bits, group } = fused.format;
    let constants = [
        plan.workgroup,
        dtype,
        bits,
        group,
        plan.subgroup,
        fused.rows,
        plan.outputs,
        u32::from(fused.norm.is_some()),
        after,
        fused.inner,
        fused.norm.map_or(0, |n| n.eps.to_bits()),
    ];
    let pipeline = device.pipelines.get(Kernel::matvec_fused, &constants, plan.subgroup)?;
    let teams = u64::from(plan.workgroup / plan.subgroup);
    let groups = [caps.groups_1d(push.ends[2].into(), teams), 1, 1];
    Ok(Call::new(pipeline, bytemuck::bytes_of(&push), groups))
}
