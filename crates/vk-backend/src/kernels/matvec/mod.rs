//! Few rows times matrices that share them, with what comes before and after (`matvec/fused.comp`; one
//! row with matrices of 4 bits `matvec/matrix.comp`, several `matvec/rows.comp`). Products of many rows
//! are described in the same way.
//!
//! # Biases
//!
//! Push constants have no room for three biases. Where there is one, the kernels find their addresses beside
//! those of the results in the argument ring, which they ask before the rows are there; what comes after a
//! product is a specialization constant, so kernels without biases are what they would be anyway. A sum is
//! rounded as that of an operation of its own, and the product before it, unless both are one operation
//! (`addmm`). What makes a row's sum with a residual lies there, too.
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
//!   become signed bytes by flipping a bit, for which 128 times the scale makes up. Fields of 2 and
//!   3 bits become bytes by slices (`matvec_lanes.glsl`), for which rows are staged in another order,
//!   those of 5 and 6 by moving them apart.
//! - The sum of a chunk's products is exact. Scale, unit, bias and the sums over chunks are
//!   float32.
//! - An element loses at most half a unit: as much as float16 loses of the chunk's largest element,
//!   and far less than bfloat16 does.
//! - Elements that are not finite give results that are not finite.
//! - Rows of float32 are multiplied in float32.
//!
//! The kernels are modules of their own (`matvec_fused_dots`, `interpreter_dots`), because devices
//! without the feature cannot load them.
//!
//! # Small floats
//!
//! They have modules of their own, too (`matvec_fused_floats`, `interpreter_floats`), so that affine kernels
//! have no code of theirs. There are no biases of groups, so no sums of rows; elements are unpacked once for
//! all rows, and a chunk of nvfp4 has two scales. Elements are read as halves, two of a word at a time: their
//! bits are the end of a half's exponent and the head of its mantissa. Cooperative matrices know mxfp4 alone,
//! in several rows of bfloat16.
//!
//! # Half rows
//!
//! Small floats are numbers of the unit 2^-14 or 2^-8 as halves, some of them subnormal. Runs multiply them
//! as such, two by one instruction, where the device promises to keep subnormal halves (`interpreter_halves`;
//! gate `MLX_VK_ENABLE_HALF_ROWS`).
//!
//! - The unit of a row's chunk of 32 elements is a power of two, of which the largest of them has some 2^11
//!   or 2^14. What is more than the 2^25th of that one has all bits of a half.
//! - A half adds up eight products, of mxfp4 and bfloat16 sixteen; the rest is float32. What is lost is about
//!   the 2^12th of such a sum.
//! - Elements that are not finite give results that are not finite.

pub(crate) mod fused;
pub(crate) mod planner;
pub(crate) mod rows;
pub(crate) mod slices;
pub(super) mod strided;

use mlx_vulkan_core::{Dtype, Result};

use super::{
    Ctx, Region,
    fragment::fragment,
    layouts::{
        matvec::{AFTER_BIASES, AFTER_GATE, AFTER_GELU, AFTER_RESIDUAL},
        matvec_fused::{self as lanes, Push, Target, Targets},
        matvec_matrix as matrices, matvec_rows as several, matvec_slices as sliced,
    },
};
use crate::{
    runtime::{
        capabilities::{Capabilities, Fragment},
        commit::Call,
        config::Config,
    },
    shaders::{KernelOf, SpecConstants},
};
pub(crate) use fused::{After, Bias, Format, Fused, Gate, MOST_MATRICES, Norm, RowSum, Weights};
use planner::{MatrixPlan, MatvecPlan, MatvecSizes};
use rows::RowsPlan;
use slices::SlicesPlan;

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
    let way = way(ctx, fused);
    encode_as(ctx, fused, way, reads, writes)
}

/// The same for a product of which is known how it runs.
///
/// # Errors
/// As [`encode`].
pub(crate) fn encode_as(
    ctx: &mut Ctx<'_>,
    fused: &Fused,
    way: Way,
    reads: &[Region],
    writes: &[Region],
) -> Result<()> {
    let call = match way {
        Way::Step => return ctx.put_off(fused.clone(), reads, writes),
        Way::Slices(plan) => encode_slices(ctx, fused, &plan)?,
        Way::Rows(plan) => encode_rows(ctx, fused, &plan)?,
        Way::Matrix(plan) => encode_matrix(ctx, fused, &plan)?,
        Way::Lanes(plan) => encode_lanes(ctx, fused, &plan)?,
    };
    ctx.encode(call, reads, writes)
}

/// How a product runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// A step of a run.
    Step,
    /// `matvec/slices.comp`.
    Slices(SlicesPlan),
    /// `matvec/rows.comp`.
    Rows(RowsPlan),
    /// `matvec/matrix.comp`.
    Matrix(MatrixPlan),
    /// `matvec/fused.comp`.
    Lanes(MatvecPlan),
}

/// How a product runs: as a step where the stream makes runs of such.
pub(crate) fn way(ctx: &mut Ctx<'_>, fused: &Fused) -> Way {
    let is_step = ctx.runs().is_some_and(|runs| runs.serves_product(fused));
    if is_step { Way::Step } else { kernel(ctx, fused) }
}

/// How a product runs as a dispatch.
fn kernel(ctx: &Ctx<'_>, fused: &Fused) -> Way {
    if let Some(several) = on_rows(ctx, fused) {
        return several;
    }
    on_matrices(ctx, fused).map_or_else(|| Way::Lanes(lanes_of(ctx, fused)), Way::Matrix)
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
    let way = kernel(ctx, fused);
    encode_as(ctx, fused, way, reads, writes)
}

/// What cooperative matrices multiply of a dtype, where they may.
fn fragment_of(dtype: u32, caps: &Capabilities, config: &Config) -> Option<Fragment> {
    let mut halves = [Dtype::Float16, Dtype::Bfloat16].into_iter();
    let dtype = halves.find(|&d| d as u32 == dtype)?;
    config.enable_coopmat_matvec.then(|| fragment(dtype, [0; 2], caps, config))?
}

fn is_aligned(fused: &Fused) -> bool {
    let aligned = |m: &Weights| (m.words | m.scales | m.biases).is_multiple_of(16);
    fused.x.is_multiple_of(16) && fused.matrices().iter().all(aligned)
}

/// Rows, and elements of one of quantized matrices, up to which mat-vecs that keep them in shared memory, and
/// take their norm there, are faster. Measured on an H200, tokens/s with two, three and four sequences by
/// those and by fragments: 0.6B (rows of 1,024) 2,068, 2,698, 3,144 and 1,811, 2,739, 3,641; 30B-A3B (2,048)
/// two 601 and 592, four 814 and 921; 4B (2,560) 710, 938, 1,034 and 751, 1,129, 1,492, not quantized two 518
/// and 475.
const FEW: u32 = 2;
const SHORT: u32 = 2048;

/// How several rows run on cooperative matrices, for operands that are aligned, where no gate is closed.
pub(crate) fn plan_rows(
    p: &MatvecSizes,
    inner: u32,
    format: Format,
    caps: &Capabilities,
    config: &Config,
) -> Option<Way> {
    let open = gate_of(p, format, config).is_none();
    open.then(|| several(p, inner, format, caps, config)).flatten()
}

/// The gate that keeps several rows from their kernels, if one does.
fn gate_of(p: &MatvecSizes, format: Format, config: &Config) -> Option<&'static str> {
    (format.bits < 16).then(|| planner::closed(p.rows as usize, config)).flatten()
}

/// How several rows run on cooperative matrices, if no gate is asked.
fn several(
    p: &MatvecSizes,
    inner: u32,
    format: Format,
    caps: &Capabilities,
    config: &Config,
) -> Option<Way> {
    let fragment = fragment_of(format.dtype, caps, config)?;
    let [rows, length, bits] = [p.rows, inner, format.bits].map(|n| n as usize);
    let short = p.rows <= FEW && (inner <= SHORT || format.bits >= 16);
    let kept = short && planner::serves(rows, length, bits, 2, caps, config);
    if kept || !rows::serves(p, inner, format, fragment, caps) {
        return None;
    }
    let slices = slices::plan(p, inner, format, caps).map(Way::Slices);
    slices.or_else(|| rows::plan(p, inner, format, caps).map(Way::Rows))
}

/// How several rows run on cooperative matrices, where the product can go there.
pub(crate) fn on_rows(ctx: &Ctx<'_>, fused: &Fused) -> Option<Way> {
    if !fits_rows(fused) {
        return None;
    }
    let (p, caps) = (fused.product(), ctx.capabilities());
    plan_rows(&p, fused.inner, fused.format, caps, ctx.config())
}

/// The gate that keeps a product from there, if one does.
pub(crate) fn closed(ctx: &Ctx<'_>, fused: &Fused) -> Option<&'static str> {
    let (p, caps, config) = (fused.product(), ctx.capabilities(), ctx.config());
    let gate = gate_of(&p, fused.format, config).filter(|_| fits_rows(fused))?;
    several(&p, fused.inner, fused.format, caps, config).map(|_| gate)
}

/// Whether the kernels for several rows can read a product's operands, and do all that it asks for.
fn fits_rows(fused: &Fused) -> bool {
    is_aligned(fused) && fused.norm.is_none() && fused.sum.is_none()
}

/// The plan of one row on cooperative matrices, where the product can go there.
fn on_matrices(ctx: &Ctx<'_>, fused: &Fused) -> Option<MatrixPlan> {
    let (p, Format { dtype, bits, group, floats }) = (fused.product(), fused.format);
    let fragment = fragment_of(dtype, ctx.capabilities(), ctx.config())
        .filter(|_| bits == planner::MATRIX_BITS && !floats && fused.sum.is_none())?;
    let plan = planner::plan_matrix(&p, fused.inner, group, fragment, ctx.capabilities())?;
    is_aligned(fused).then_some(plan)
}

fn encode_rows(ctx: &mut Ctx<'_>, fused: &Fused, plan: &RowsPlan) -> Result<Call> {
    let (push, after) = push_of(ctx, fused, planner::MATRIX_BLOCK)?;
    let constants = several::Constants {
        workgroup: plan.workgroup,
        group: rows::group(fused.format),
        rows: fused.rows,
        splits: plan.splits,
        after,
        inner: fused.inner,
        fragments: u32::from(ctx.config().enable_known_fragments),
    };
    let groups = push.ends[2].div_ceil(plan.teams()).min(plan.most_groups);
    Ok(on_halves(ctx, fused, rows::kernels(fused.format), &constants, &push, groups))
}

fn encode_slices(ctx: &mut Ctx<'_>, fused: &Fused, plan: &SlicesPlan) -> Result<Call> {
    let (push, after) = push_of(ctx, fused, planner::MATRIX_BLOCK)?;
    let constants = sliced::Constants {
        workgroup: plan.workgroup,
        group: fused.format.group,
        rows: fused.rows,
        splits: plan.splits,
        after,
        inner: fused.inner,
        fragments: u32::from(ctx.config().enable_known_fragments),
        buffers: plan.buffers,
    };
    let kernels = [sliced::MATVEC_SLICES_FLOAT16, sliced::MATVEC_SLICES_BFLOAT16];
    let groups = push.ends[2].div_ceil(plan.teams()).min(plan.most_groups);
    Ok(on_halves(ctx, fused, kernels, &constants, &push, groups))
}

fn encode_matrix(ctx: &mut Ctx<'_>, fused: &Fused, plan: &MatrixPlan) -> Result<Call> {
    let (push, after) = push_of(ctx, fused, planner::MATRIX_BLOCK)?;
    let constants = matrices::Constants {
        workgroup: plan.workgroup,
        group: fused.format.group,
        rows: fused.rows,
        splits: plan.splits,
        norm: fused.norm.is_some(),
        after,
        inner: fused.inner,
        eps: fused.norm.map_or(0, |n| n.eps.to_bits()),
        fn_: plan.columns,
        depth: plan.depth,
        fragments: u32::from(ctx.config().enable_known_fragments),
    };
    let kernels = [matrices::MATVEC_MATRIX_FLOAT16, matrices::MATVEC_MATRIX_BFLOAT16];
    let groups = push.ends[2].div_ceil(plan.teams()).min(plan.most_groups);
    Ok(on_halves(ctx, fused, kernels, &constants, &push, groups))
}

/// The call of the kernel for float16, or of the one for bfloat16, on cooperative matrices.
fn on_halves<C: SpecConstants>(
    ctx: &Ctx<'_>,
    fused: &Fused,
    [float16, bfloat16]: [KernelOf<C, Push>; 2],
    constants: &C,
    push: &Push,
    groups: u32,
) -> Call {
    let kernel = if fused.format.dtype == Dtype::Float16 as u32 { float16 } else { bfloat16 };
    let pipeline = ctx.pipeline_with_subgroup(kernel, constants, planner::MATRIX_SUBGROUP);
    Call::new(pipeline, push, [groups, 1, 1])
}

/// The push constants for blocks of `block` results, and the bits of what comes after.
///
/// # Errors
/// When memory is out.
fn push_of(ctx: &mut Ctx<'_>, fused: &Fused, block: u32) -> Result<(Push, u32)> {
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
    let mut after = match fused.after {
        After::Nothing => 0,
        After::Residual(address) => {
            matrices[1].words = address;
            AFTER_RESIDUAL
        }
        After::Gate(gate) => {
            // A team makes results of both.
            ends = [ends[0]; MOST_MATRICES];
            match gate {
                Gate::Silu => AFTER_GATE,
                Gate::Gelu => AFTER_GATE | AFTER_GELU,
            }
        }
    };
    if fused.is_biased() || fused.sum.is_some() {
        let targets = Targets { all: fused.matrices.map(target), sum: row_sum(fused) };
        matrices[0].result = ctx.args(bytemuck::bytes_of(&targets))?;
        after |= AFTER_BIASES;
    }
    let weight = fused.norm.map_or(0, |n| n.weight);
    Ok((Push { x: fused.x, weight, matrices, ends, one: 1f32.to_bits() }, after))
}

/// Where a matrix's results go, and what is added to them.
fn target(Weights { result, bias, .. }: Weights) -> Target {
    Target {
        result,
        bias: bias.map_or(0, |bias| bias.at),
        at_once: bias.is_some_and(|bias| bias.at_once).into(),
        unused: 0,
    }
}

/// What is done with the rows first.
fn row_sum(fused: &Fused) -> lanes::RowSum {
    fused.sum.map_or(lanes::RowSum::default(), |sum| lanes::RowSum {
        weight: sum.norm.weight,
        residual: sum.residual,
        result: sum.result,
        eps: sum.norm.eps,
        unused: 0,
    })
}

fn lanes_of(ctx: &Ctx<'_>, fused: &Fused) -> MatvecPlan {
    let asked = ctx.config().matvec_split_k;
    planner::plan(&fused.product(), fused.inner, fused.format.bits, asked, ctx.capabilities())
}

fn encode_lanes(ctx: &mut Ctx<'_>, fused: &Fused, plan: &MatvecPlan) -> Result<Call> {
    let caps = ctx.capabilities();
    let Format { dtype, bits, group, floats } = fused.format;
    let int8_rows = planner::takes_int8_rows(fused.format, caps, ctx.config());
    let (push, after) = push_of(ctx, fused, plan.outputs)?;
    let constants = lanes::Constants {
        workgroup: plan.workgroup,
        dtype,
        bits,
        group,
        subgroup: plan.subgroup,
        rows: fused.rows,
        outputs: plan.outputs,
        norm: fused.norm.is_some(),
        after,
        inner: fused.inner,
        eps: fused.norm.map_or(0, |n| n.eps.to_bits()),
        splits: plan.splits,
        summed: fused.sum.is_some(),
    };
    let kernel = match (floats, int8_rows) {
        (true, _) => lanes::MATVEC_FUSED_FLOATS,
        (false, true) => lanes::MATVEC_FUSED_DOTS,
        (false, false) => lanes::MATVEC_FUSED,
    };
    let pipeline = ctx.pipeline_with_subgroup(kernel, &constants, plan.subgroup);
    let groups = [caps.groups_1d(push.ends[2].into(), plan.teams().into()), 1, 1];
    Ok(Call::new(pipeline, &push, groups))
}

#[cfg(test)]
mod tests {
    use mlx_vulkan_core::primitives::Affine;

    use super::*;
    use crate::runtime::capabilities::Fragments;

    const SQUARE: Option<Fragment> = Some(Fragment { m: 16, n: 16, k: 16 });
    const FRAGMENTS: Fragments = Fragments { float16: SQUARE, bfloat16: SQUARE };

    #[test]
    fn gates_keep_quantized_rows_from_cooperative_matrices() {
        let caps = Capabilities {
            fragments: FRAGMENTS,
            subgroup_size: 32,
            compute_units: 132,
            max_workgroup: 1024,
            shared_memory: 48 << 10,
            ..Capabilities::default()
        };
        let way = |rows, outputs, format, config: &Config| {
            let p = MatvecSizes { rows, outputs: [outputs, 0, 0], sets: 1 };
            plan_rows(&p, 4096, format, &caps, config)
        };
        let four = Format::packed(Dtype::Bfloat16, Affine { group_size: 64, bits: 4 }.into());
        let dense = Format::dense(Dtype::Bfloat16);
        let open = Config::default();
        assert!(matches!(way(4, 100_000, four, &open), Some(Way::Slices(_))));
        assert!(matches!(way(4, 4096, four, &open), Some(Way::Rows(_))));
        let m4 = Config { enable_qmm_native_m4: false, ..Config::default() };
        assert_eq!([4096, 100_000].map(|outputs| way(4, outputs, four, &m4)), [None; 2]);
        assert!(way(5, 4096, four, &m4).is_some() && way(4, 4096, dense, &m4).is_some());
        let m16 = Config { enable_qmm_native_m16: false, ..Config::default() };
        assert!(way(16, 4096, four, &m16).is_none() && way(8, 4096, four, &m16).is_some());
        let all = Config { enable_qmm_native: false, ..Config::default() };
        assert_eq!(way(8, 4096, four, &all), None);
    }

    #[test]
    fn cooperative_matrices_multiply_halves() {
        let (square, fragments) = (SQUARE, FRAGMENTS);
        let (config, caps) =
            (Config::default(), Capabilities { fragments, ..Capabilities::default() });
        let of = |dtype: Dtype| fragment_of(dtype as u32, &caps, &config);
        assert_eq!(
            [Dtype::Float16, Dtype::Bfloat16, Dtype::Float32].map(of),
            [square, square, None]
        );
        let closed = Config { enable_coopmat_matvec: false, ..config };
        assert_eq!(fragment_of(Dtype::Float16 as u32, &caps, &closed), None);
    }
}
