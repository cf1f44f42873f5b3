//! `x @ w` with quantized `w`: which kernel serves a product, and what encodes it.

mod fields;
mod grouped;
mod operands;
mod rows;
mod tiles;

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::Packing};

use crate::{
    kernels::{
        Ctx,
        matmul::{check_sizes, planner::listed},
        matvec,
        quantized::{
            gather_rows::{self, Sizes},
            planner::{self, QuantizedPlan},
        },
    },
    runtime::stats,
};
use grouped::Grouped;
use operands::Operands;

pub(in crate::kernels) use fields::{Fields, encode as encode_fields};
pub(in crate::kernels) use tiles::MATRIX;

/// Encodes the product.
///
/// # Errors
/// When memory or the device fails, or an axis is over 2^31.
pub(in crate::kernels) fn eval(
    ctx: &mut Ctx<'_>,
    packing: Packing,
    transpose: bool,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    let result = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    let o = Operands::new(ctx, packing, transpose, inputs, output, result)?;
    run(ctx, &o, output)
}

/// Encodes the products of matrices that indices pick; where those on the right are sorted, rows that pick
/// the same one are neighbours.
///
/// # Errors
/// As [`eval`].
pub(in crate::kernels) fn gather(
    ctx: &mut Ctx<'_>,
    packing: Packing,
    transpose: bool,
    sorted: bool,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    let result = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    let o = Operands::gathered(ctx, packing, transpose, inputs, output, result)?;
    if let Some((rows, plan)) = grouped::by_experts(ctx, &o) {
        stats::hit(ctx.config(), "qmm", || {
            let Sizes { picks, outputs, inner, .. } = rows.sizes;
            format!("picked {plan:?} {picks}x{outputs}x{inner}")
        });
        return gather_rows::encode(ctx, &rows, &plan);
    }
    match sorted.then(|| Grouped::plan(ctx, &o)).flatten() {
        Some(plan) => plan.encode(ctx, o),
        None => run(ctx, &o, output),
    }
}

fn run(ctx: &mut Ctx<'_>, o: &Operands, output: &Output) -> Result<()> {
    let (p, bits) = (o.product, o.packing.bits());
    check_sizes(ctx, &[p.rows, p.outputs, p.inner, p.batches], output)?;
    let plan = planner::plan(&p, ctx.capabilities(), ctx.config());
    let fused = rows::is_describable(o).then(|| rows::fused(o));
    let lanes = matches!(plan, QuantizedPlan::MatVec { team, .. } if team.subgroups)
        && rows::is_fusable(ctx, o);
    let way = fused.as_ref().and_then(|fused| match lanes {
        true => Some(matvec::way(ctx, fused)),
        false => matvec::on_rows(ctx, fused),
    });
    stats::hit(ctx.config(), "qmm", || {
        let plan = way.map_or_else(|| format!("{plan:?}"), |way| format!("{way:?}"));
        format!("{plan} {}x{}x{} b{bits} g{}", p.rows, p.outputs, p.inner, o.packing.group_size())
    });
    let closed = planner::closed(&p, ctx.capabilities(), ctx.config());
    let closed = closed.or_else(|| matvec::closed(ctx, fused.as_ref()?));
    if let Some(gate) = closed {
        let rows = stats::row_bucket(p.rows);
        stats::reject(ctx.config(), "qmm", || {
            format!("{gate} for rows {rows}, {}x{} b{bits}", p.outputs, p.inner)
        });
    }
    if let (Some(fused), Some(way)) = (fused, way) {
        return matvec::encode_as(ctx, &fused, way, &o.reads(), &[o.result.region]);
    }
    match plan {
        QuantizedPlan::MatVec { team, workgroup, rows, outputs } => {
            rows::mat_vec(ctx, o, team, workgroup, rows, outputs)
        }
        QuantizedPlan::VecMat { rows } if o.picks.is_none() => rows::vec_mat(ctx, o, rows),
        QuantizedPlan::VecMat { .. } => {
            tiles::packed(ctx, o, listed(p.rows, p.outputs, p.batches, false, ctx.capabilities()))
        }
        QuantizedPlan::Gemm(_) if o.picks.is_some() => {
            tiles::packed(ctx, o, listed(p.rows, p.outputs, p.batches, false, ctx.capabilities()))
        }
        QuantizedPlan::Gemm(gemm) => tiles::packed(ctx, o, gemm),
        QuantizedPlan::Dense(gemm) if o.x.is_aligned(16) => tiles::dequantized(ctx, o, gemm),
        QuantizedPlan::Dense(gemm) => tiles::packed(ctx, o, gemm),
    }
}
