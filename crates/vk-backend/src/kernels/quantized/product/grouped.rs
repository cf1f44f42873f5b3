//! Products of single rows that pick a matrix each: rows that pick the same one are multiplied together.

use mlx_vulkan_core::Result;

use super::{
    operands::{Operands, fragment_of},
    tiles,
};
use crate::{
    kernels::{
        Ctx,
        layouts::quantized_gather_rows::ROUNDED,
        matmul::{
            groups,
            matrix::{self, Right},
            planner::{self, Gemm},
        },
        operands::Picks,
        quantized::gather_rows::{self, GatherPlan, OfX, Rows, Sizes},
    },
    runtime::stats,
};

/// How rows that pick a matrix each are multiplied by groups.
pub(super) struct Grouped {
    gemm: Gemm,
    /// How tiles see the matrices.
    right: Right,
}

impl Grouped {
    /// How rows that pick a matrix each are multiplied by groups, if that serves them.
    pub(super) fn plan(ctx: &Ctx<'_>, o: &Operands) -> Option<Self> {
        let (p, picks) = (&o.product, o.picks.as_ref()?);
        if p.rows != 1 || [p.outputs, p.inner].iter().any(|&s| s >= 1 << 31) {
            return None;
        }
        let fragment = fragment_of(ctx, o.packing, o.dtype, p)
            .filter(|_| groups::is_near(picks, p.inner * o.dtype.size()));
        let plan = |right| planner::grouped(picks, p.outputs, fragment, right, ctx.capabilities());
        let pays = matrix::groups_take_fields(picks.batches, picks.counts[1]);
        let right = o.right(ctx, fragment, pays);
        let dequantizes = right == Right::Packed && dequantizes_stack(ctx, o, picks);
        let dense = dequantizes.then(|| plan(Right::Dense)).flatten();
        let dense = dense.filter(|dense| matches!(dense, Gemm::Matrix(..)));
        let right = if dense.is_some() { Right::Dense } else { right };
        let gemm = dense.or_else(|| plan(right))?;
        stats::hit(ctx.config(), "qmm", || {
            format!("grouped {right:?} {gemm:?} {}x{}x{}", picks.batches, p.outputs, p.inner)
        });
        Some(Grouped { gemm, right })
    }

    /// Encodes the product of rows that pick a matrix each by tiles of rows that pick the same one.
    ///
    /// # Errors
    /// As of [`tiles`].
    pub(super) fn encode(self, ctx: &mut Ctx<'_>, mut o: Operands) -> Result<()> {
        let Grouped { gemm, right } = self;
        let Some(picks) = &mut o.picks else { unreachable!("groups are made of picks") };
        picks.tiles = Some(groups::tiles(ctx, picks, gemm)?);
        (o.product.rows, o.product.batches) = (picks.batches, 1);
        match right {
            Right::Dense => tiles::dequantized(ctx, &o, gemm),
            Right::Packed | Right::Fields(_) => tiles::packed(ctx, &o, gemm),
        }
    }
}

/// Rows of a matrix on average from which a stack of small floats is dequantized into memory before its
/// product, and the share of the device's memory that this may take.
const STACK_ROWS: usize = 32;
const STACK_SHARE: u64 = 32;

/// Whether all matrices are dequantized once instead of by every tile of rows.
fn dequantizes_stack(ctx: &Ctx<'_>, o: &Operands, picks: &Picks) -> bool {
    let (p, matrices) = (&o.product, picks.counts[1]);
    let bytes = [matrices, p.outputs, p.inner, o.dtype.size()]
        .iter()
        .fold(1u64, |bytes, &size| bytes.saturating_mul(size as u64));
    o.packing.affine().is_none()
        && p.transpose
        && p.inner.is_multiple_of(8)
        && o.x.is_aligned(16)
        && picks.batches >= STACK_ROWS * matrices
        && bytes <= ctx.capabilities().device_memory / STACK_SHARE
}

/// The product of single rows by a kernel that reads each matrix once for all rows that pick it, in whatever
/// order these are, if it serves.
pub(super) fn by_experts(ctx: &Ctx<'_>, o: &Operands) -> Option<(Rows, GatherPlan)> {
    let (p, picks) = (&o.product, o.picks.as_ref()?);
    if p.rows != 1 || !p.transpose {
        return None;
    }
    let sizes = Sizes {
        dtype: o.dtype,
        packing: o.packing,
        picks: picks.batches,
        experts: picks.counts[1],
        outputs: p.outputs,
        inner: p.inner,
        paired: false,
    };
    let plan = gather_rows::plan(&sizes, ctx.capabilities(), ctx.config())?;
    let [of_x, list] = picks.lists;
    let (of_x, matrices) = (OfX::Listed(of_x, picks.counts[0]), [o.parts(); 2]);
    let (biases, result, second) = ([None; 2], o.result, None);
    let x = o.x;
    let rows =
        Rows { sizes, x, of_x, picks: list, matrices, biases, result, second, after: ROUNDED };
    rows.is_aligned().then_some((rows, plan))
}
