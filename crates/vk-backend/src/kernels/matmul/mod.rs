//! Matrix products: `a @ b` and `alpha * (a @ b) + beta * c`, of any batch and any strides.
//!
//! Transposed operands are read in place. Copied are operands with no axis of stride 1, and those that a list
//! picks from if their batches do not lie as one axis.

mod complex;
pub(super) mod gemm;
pub(super) mod groups;
pub(crate) mod lines;
pub(crate) mod matrix;
pub(crate) mod planner;

use mlx_vulkan_core::{Array, Dtype, Result, backend::Output, primitives::MatmulOp};

use super::{
    Ctx, Operand, args, copy,
    fragment::fragment,
    matvec::{self, strided},
    operands::{Addend, Lists, Operands, Picks},
    scaled,
};
use crate::runtime::capabilities::Fragment;
pub(super) use gemm::{
    A_ALONG_K, A_VECTOR, B_ALONG_K, B_VECTOR, GROUPED, SCALED, lanes_constants, lanes_grid,
    matrix_constants, matrix_grid, matrix_pipeline, sum_parts, tile_constants, tile_grid,
};
pub(crate) use gemm::{Push as GemmPush, dense_matrix};
pub(super) use planner::Tile;

use planner::{MatmulPlan, MatmulSizes};

/// Encodes the primitives of this family.
///
/// # Errors
/// When the backend refuses it, or memory or the device fails.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    op: MatmulOp,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    match op {
        MatmulOp::Matmul => multiply(ctx, &inputs[0], &inputs[1], None, output),
        MatmulOp::AddMm { alpha, beta } => {
            let addend = Addend { c: &inputs[2], alpha: alpha.0, beta: beta.0 };
            multiply(ctx, &inputs[0], &inputs[1], Some(addend), output)
        }
        MatmulOp::GatherMm { right_sorted, .. } => gather(ctx, right_sorted, args(inputs), output),
        MatmulOp::SegmentedMm => segmented(ctx, args(inputs), output),
    }
}

/// Encodes a product, with `addend` if it is an `addmm`.
///
/// # Errors
/// When memory or the device fails, or there are 2^31 rows, columns or products, or more.
fn multiply(
    ctx: &mut Ctx<'_>,
    a: &Array,
    b: &Array,
    addend: Option<Addend<'_>>,
    output: &mut Output,
) -> Result<()> {
    let result = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    if output.dtype == Dtype::Complex64 {
        check_sizes(ctx, &[a.dim(-1)], output)?;
        return complex::eval(ctx, a, b, addend, result);
    }
    let operands = Operands::new(ctx, a, b, addend)?;
    check_sizes(ctx, &operands.sizes(), output)?;
    run(ctx, &operands, output, result)
}

/// Encodes `a[lhs[i]] @ b[rhs[i]]`; where `rhs` is sorted, rows that pick the same matrix are neighbours.
///
/// # Errors
/// As [`eval`].
fn gather(
    ctx: &mut Ctx<'_>,
    sorted: bool,
    [a, b, lhs, rhs]: &[Array; 4],
    output: &mut Output,
) -> Result<()> {
    let picks = Lists::Picks(Picks::new(ctx, [lhs, rhs], [a, b])?);
    listed(ctx, [a, b], picks, sorted, output)
}

/// Encodes `a[:, start..end] @ b[start..end, :]` for pairs of `segments`.
///
/// # Errors
/// As [`eval`].
fn segmented(ctx: &mut Ctx<'_>, [a, b, segments]: &[Array; 3], output: &mut Output) -> Result<()> {
    let ends = copy::dense(ctx, segments)?;
    listed(ctx, [a, b], Lists::Segments { ends, batches: segments.size() / 2 }, false, output)
}

/// Refuses what kernels of products do not count in 32 bits.
///
/// # Errors
/// When a size is 2^31 or more.
pub(super) fn check_sizes(ctx: &Ctx<'_>, sizes: &[usize], output: &Output) -> Result<()> {
    match sizes.iter().any(|&size| size >= 1 << 31) {
        true => Err(ctx.unsupported_output(output, "2^31 rows, columns or products, or more")),
        false => Ok(()),
    }
}

fn listed(
    ctx: &mut Ctx<'_>,
    [a, b]: [&Array; 2],
    lists: Lists,
    sorted: bool,
    output: &mut Output,
) -> Result<()> {
    let result = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    let o = Operands::listed(ctx, a, b, lists)?;
    check_sizes(ctx, &o.sizes(), output)?;
    if sorted && let Some(plan) = groups::plan(ctx, &o, output.dtype) {
        let o = groups::operands(ctx, o, plan)?;
        return gemm::eval(ctx, &o, plan, output.dtype.into(), result);
    }
    let caps = ctx.capabilities();
    let segments = matches!(o.lists, Some(Lists::Segments { .. }));
    match planner::plan(&product(&o, None), caps) {
        MatmulPlan::MatVec(side) if !segments => {
            strided::mat_vec(ctx, &o, side, output.dtype, result)
        }
        _ => {
            let plan = planner::listed(o.m, o.n, o.batches(), segments, caps);
            gemm::eval(ctx, &o, plan, output.dtype.into(), result)
        }
    }
}

fn product(o: &Operands, fragment: Option<Fragment>) -> MatmulSizes {
    MatmulSizes {
        m: o.m,
        n: o.n,
        k: o.k,
        batches: o.batches(),
        a_along_k: o.a.along_k,
        a_along_m: o.a.across,
        b_along_k: o.b.along_k,
        b_along_n: o.b.across,
        fragment,
    }
}

/// Runs the kernel that the planner chooses; a sum over nothing is zero in all of them.
fn run(ctx: &mut Ctx<'_>, o: &Operands, output: &Output, result: Operand) -> Result<()> {
    let dtype = output.dtype;
    let leading = [o.a.leading(), o.b.leading()];
    let product = product(o, fragment(dtype, leading, ctx.capabilities(), ctx.config()));
    if product.b_along_k
        && let Some(fused) = strided::fused(ctx, o, dtype, result, planner::is_few(o.m, o.n))
    {
        return matvec::encode(ctx, &fused, &[o.a.at.region, o.b.at.region], &[result.region]);
    }
    match planner::plan(&product, ctx.capabilities()) {
        MatmulPlan::MatVec(side) => strided::mat_vec(ctx, o, side, dtype, result),
        MatmulPlan::VecMat(side) => strided::vec_mat(ctx, o, side, dtype, result),
        MatmulPlan::Gemm(plan) => match lines::plan(ctx, o, dtype) {
            Some(plan) => {
                let o = lines::operands(ctx, o)?;
                gemm::eval(ctx, &o, plan, scaled::DTYPES, result)
            }
            None => gemm::eval(ctx, o, plan, dtype.into(), result),
        },
    }
}
