//! Derivatives of norms: one kernel for rows and sums over a workgroup's rows, and sums of those.

use mlx_vulkan_core::{Array, Dtype, Result, backend::Output, primitives::ReduceOp};

use super::{
    is_scalar,
    planner::{self, Plan},
    row_width, team,
};
use crate::kernels::{
    Ctx, Dispatch, Operand, Region, copy,
    layouts::norm_vjp::{self as shader, Constants, Push},
    reduce::{Fold, View, fold},
};

/// A norm that is differentiated along a cotangent.
pub(super) struct Norm<'a> {
    /// Added to the mean square or the variance.
    pub(super) eps: f32,
    /// Whether the mean is taken off.
    pub(super) centred: bool,
    pub(super) x: &'a Array,
    /// A vector or a scalar.
    pub(super) weight: &'a Array,
    pub(super) cotangent: &'a Array,
}

/// Encodes the derivatives by `x` and, if there are outputs for them, by weight and bias.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn differentiate(
    ctx: &mut Ctx<'_>,
    norm: &Norm<'_>,
    output: &mut Output,
    others: &mut [Output],
) -> Result<()> {
    let width = row_width(ctx, norm.x)?;
    let parts = rows(ctx, norm, width, output, others.len())?;
    for (which, other) in others.iter_mut().enumerate() {
        let to = ctx.output(other)?;
        if other.size() > 0 {
            // A scalar parameter has met all elements of all rows.
            let axes: &[usize] = if other.shape.is_empty() { &[0, 1] } else { &[0] };
            let sum = Fold::Op(ReduceOp::Sum);
            fold(ctx, sum, &parts.of(which), axes, to, other.dtype)?;
        }
    }
    Ok(())
}

/// Sums of workgroups for each parameter: rows of float32.
struct Parts {
    at: Region,
    groups: usize,
    width: usize,
}

impl Parts {
    /// Of memory for one parameter.
    fn bytes(&self) -> u64 {
        self.groups as u64 * self.width as u64 * 4
    }

    /// Those for a parameter.
    fn of(&self, which: usize) -> View {
        let bytes = self.bytes();
        let address = self.at.address + which as u64 * bytes;
        View {
            at: Operand { address, region: Region { address, bytes } },
            dtype: Dtype::Float32,
            shape: [self.groups, self.width].as_slice().into(),
            strides: [self.width as isize, 1].as_slice().into(),
        }
    }
}

/// Encodes the derivatives by all rows, and the sums over them for `parameters`.
fn rows(
    ctx: &mut Ctx<'_>,
    norm: &Norm<'_>,
    width: u32,
    output: &mut Output,
    parameters: usize,
) -> Result<Parts> {
    let x = copy::dense(ctx, norm.x)?;
    let weight = copy::dense(ctx, norm.weight)?;
    let cotangent = copy::dense(ctx, norm.cotangent)?;
    // A thread writes only elements that it alone reads after the sums: in place is safe.
    let result = ctx.output_or_donate(&[norm.cotangent, norm.x], output)?;
    if output.size() == 0 {
        return Ok(Parts { at: Region::default(), groups: 0, width: width as usize });
    }
    let count = output.size() as u64 / u64::from(width);
    let team = team(ctx, norm.centred);
    let plan = planner::plan(count, width, parameters > 0, team, ctx.capabilities());
    let mut parts =
        Parts { at: Region::default(), groups: plan.groups as usize, width: width as usize };
    if parameters > 0 {
        parts.at = ctx.scratch(parameters as u64 * parts.bytes())?;
    }
    let push = Push {
        x: x.address,
        weight: weight.address,
        cotangent: cotangent.address,
        result: result.address,
        sums: parts.at.address,
        rows: count,
        width,
        eps: norm.eps,
    };
    let quad = 4 * output.dtype.size() as u64;
    let vector = width.is_multiple_of(4)
        && [x, cotangent, result].iter().all(|at| at.is_aligned(quad))
        && (is_scalar(norm.weight) || weight.is_aligned(quad));
    let constants = Constants {
        workgroup: plan.workgroup,
        dtype: output.dtype as u32,
        flags: flags(&plan, vector, norm, parameters > 0),
        kept: plan.kept,
        subgroup: team.subgroup,
    };
    let kernels = [shader::NORM_VJP_SHARED, shader::NORM_VJP_SUBGROUP];
    let pipeline = ctx.team_pipeline(kernels[usize::from(team.subgroups)], &constants, team);
    let reads = &[x.region, weight.region, cotangent.region];
    let (groups, writes) = ([plan.groups, 1, 1], &[result.region, parts.at]);
    ctx.dispatch(&Dispatch { pipeline: &pipeline, push: &push, groups, reads, writes })?;
    Ok(parts)
}

/// The `FLAGS` constant.
fn flags(plan: &Plan, vector: bool, norm: &Norm<'_>, parameters: bool) -> u32 {
    let flags = [
        (vector, shader::VECTOR_FLAG),
        (norm.centred, shader::CENTRED_FLAG),
        (parameters, shader::PARAMETERS_FLAG),
        (plan.narrow, shader::NARROW_FLAG),
        (plan.long, shader::LONG_FLAG),
        (is_scalar(norm.weight), shader::SCALAR_WEIGHT_FLAG),
    ];
    flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum()
}
