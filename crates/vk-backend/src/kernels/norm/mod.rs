//! RMS norm and layer norm over the last axis: a workgroup per row; and their derivatives.

pub(crate) mod group;
pub(crate) mod planner;
mod vjp;

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::NormOp};

use super::{
    Ctx, Dispatch, Operand, args, copy,
    layouts::norm::{self, Constants, Push},
};
use crate::kernels::team::Team;
use crate::runtime::capabilities::Capabilities;
use crate::shaders::KernelOf;

/// Encodes the primitives of this family.
///
/// # Errors
/// When the backend refuses it, or memory or the device fails.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    op: NormOp,
    inputs: &[Array],
    output: &mut Output,
    others: &mut [Output],
) -> Result<()> {
    match op {
        NormOp::RmsNorm { eps } => rms_norm(ctx, eps.0, args(inputs), output),
        NormOp::LayerNorm { eps } => layer_norm(ctx, eps.0, args(inputs), output),
        NormOp::RmsNormVjp { eps, .. } => {
            let [x, weight, cotangent] = args(inputs);
            let norm = vjp::Norm { eps: eps.0, centred: false, x, weight, cotangent };
            vjp::differentiate(ctx, &norm, output, others)
        }
        NormOp::LayerNormVjp { eps, .. } => {
            let [x, weight, _, cotangent] = args(inputs);
            let norm = vjp::Norm { eps: eps.0, centred: true, x, weight, cotangent };
            vjp::differentiate(ctx, &norm, output, others)
        }
    }
}

/// Encodes `x / sqrt(mean(x²) + eps) * weight`.
///
/// # Errors
/// When memory or the device fails.
fn rms_norm(ctx: &mut Ctx<'_>, eps: f32, inputs: &[Array; 2], output: &mut Output) -> Result<()> {
    let kernels = [norm::RMS_NORM_SHARED, norm::RMS_NORM_SUBGROUP];
    normalize(ctx, kernels, eps, &inputs[0], &inputs[1], None, output)
}

/// Encodes `(x - mean) / sqrt(var + eps) * weight + bias`.
///
/// # Errors
/// When memory or the device fails.
fn layer_norm(ctx: &mut Ctx<'_>, eps: f32, inputs: &[Array; 3], output: &mut Output) -> Result<()> {
    let kernels = [norm::LAYER_NORM_SHARED, norm::LAYER_NORM_SUBGROUP];
    normalize(ctx, kernels, eps, &inputs[0], &inputs[1], Some(&inputs[2]), output)
}

fn normalize(
    ctx: &mut Ctx<'_>,
    kernels: [KernelOf<Constants, Push>; 2],
    eps: f32,
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    output: &mut Output,
) -> Result<()> {
    let width = row_width(ctx, x)?;
    let from = copy::dense(ctx, x)?;
    let at_weight = copy::dense(ctx, weight)?;
    let at_bias = bias.map(|b| copy::dense(ctx, b)).transpose()?;
    // A thread writes only elements that it alone reads after the sums: in place is safe.
    let result = ctx.output_or_donate(&[x], output)?;
    if output.size() == 0 {
        return Ok(());
    }
    let (scalar_weight, scalar_bias) = (is_scalar(weight), bias.is_some_and(is_scalar));
    let push = Push {
        x: from.address,
        weight: at_weight.address,
        bias: at_bias.map_or(0, |b| b.address),
        result: result.address,
        rows: output.size() as u64 / u64::from(width),
        width,
        eps,
    };
    let quad = 4 * output.dtype.size() as u64;
    let aligned = |at: &Operand, scalar: bool| scalar || at.is_aligned(quad);
    let vector = width.is_multiple_of(4)
        && from.is_aligned(quad)
        && result.is_aligned(quad)
        && aligned(&at_weight, scalar_weight)
        && at_bias.is_none_or(|b| aligned(&b, scalar_bias));
    let caps = ctx.capabilities();
    let team = team(ctx, bias.is_some());
    let workgroup =
        team.workgroup(caps, width.div_ceil(4).clamp(32, most_threads(push.rows, caps)));
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    let flags = flag(vector, norm::VECTOR_FLAG)
        | flag(scalar_weight, norm::SCALAR_WEIGHT_FLAG)
        | flag(scalar_bias, norm::SCALAR_BIAS_FLAG);
    let (dtype, subgroup) = (output.dtype as u32, team.subgroup);
    let constants = Constants { workgroup, dtype, flags, subgroup };
    let pipeline = ctx.team_pipeline(kernels[usize::from(team.subgroups)], &constants, team);
    let groups = [caps.groups_1d(push.rows, 1), 1, 1];
    let bias_region = at_bias.map_or(at_weight.region, |b| b.region);
    let reads = [from.region, at_weight.region, bias_region];
    let writes = &[result.region];
    ctx.dispatch(&Dispatch { pipeline: &pipeline, push: &push, groups, reads: &reads, writes })
}

/// Threads of a row at most: of rows that are too few to fill the device, a quad each.
fn most_threads(rows: u64, caps: &Capabilities) -> u32 {
    if rows < u64::from(caps.compute_units) { 1024 } else { 256 }
}

/// How threads sum along rows.
fn team(ctx: &Ctx<'_>, centred: bool) -> Team {
    Team::of(ctx.capabilities(), centred || ctx.config().enable_rmsnorm_native)
}

/// Elements of a row, which kernels count with 32 bits.
///
/// # Errors
/// When there are too many.
fn row_width(ctx: &Ctx<'_>, x: &Array) -> Result<u32> {
    let width = u32::try_from(x.dim(-1)).ok().filter(|&width| width < 1 << 31);
    width.ok_or_else(|| ctx.unsupported(x, "a row has 2^31 elements or more"))
}

/// Whether all elements of a row have the same parameter.
fn is_scalar(parameter: &Array) -> bool {
    parameter.ndim() == 0
}
