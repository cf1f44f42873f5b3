//! Experts of many tokens by a kernel that reads a matrix once for all rows that pick it
//! (`quantized/gather_rows.comp`), and the weighted sum of what they say (`mixture/sum.comp`).

use mlx_vulkan_core::{Dtype, Result};

use super::{After, Experts, scratch};
use crate::kernels::{
    Ctx, Operand,
    layouts::{
        mixture_sum,
        quantized_gather_rows::{GATE, STORE, SUMMED},
    },
    quantized::gather_rows::{self, OfX, Rows, Sizes},
};

/// Encodes experts by rows, if the kernel serves them; whether it does.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn experts(ctx: &mut Ctx<'_>, e: &Experts) -> Result<bool> {
    let (after, per_row, second) = match e.after {
        After::Gate => (GATE, e.per_token, None),
        After::Store { second } => (STORE, e.per_token, Some(second)),
        After::Sum { .. } => (SUMMED, 1, None),
    };
    let picks = e.tokens * e.per_token;
    let Experts { dtype, packing, experts, outputs, inner, .. } = *e;
    let sizes = Sizes { dtype, packing, picks, experts, outputs, inner, paired: after != SUMMED };
    let plan = gather_rows::plan(&sizes, ctx.capabilities(), ctx.config());
    // Operands of groups are aligned.
    let Some(plan) = plan else { return Ok(false) };
    let Experts { x, picks: list, matrices, biases, mut result, .. } = *e;
    if after == SUMMED {
        result = scratch(ctx, picks * outputs * 4)?;
    }
    let of_x = OfX::Each(per_row);
    let rows = Rows { sizes, x, of_x, picks: list, matrices, biases, result, second, after };
    gather_rows::encode(ctx, &rows, &plan)?;
    if let After::Sum { shares, dtype, addend } = e.after {
        sum(ctx, e, result, (shares, dtype), addend)?;
    }
    Ok(true)
}

/// Encodes the sum of what experts said of each token, weighed by their shares.
fn sum(
    ctx: &mut Ctx<'_>,
    e: &Experts,
    said: Operand,
    (shares, share_dtype): (Operand, Dtype),
    addend: Option<Operand>,
) -> Result<()> {
    let constants = mixture_sum::Constants { workgroup: 256, dtype: e.dtype as u32 };
    let push = mixture_sum::Push {
        said: said.address,
        result: e.result.address,
        shares: shares.address,
        other: addend.map_or(0, |at| at.address),
        tokens: e.tokens as u32,
        per_token: e.per_token as u32,
        outputs: e.outputs as u32,
        share_dtype: share_dtype as u32,
    };
    let pipeline = ctx.pipeline(mixture_sum::MIXTURE_SUM, &constants);
    let quads = (e.tokens * e.outputs / 4) as u64;
    let other = addend.map_or(shares.region, |at| at.region);
    let reads = [said.region, shares.region, other];
    ctx.run(&pipeline, &push, quads, 256, &reads, &[e.result.region])
}
