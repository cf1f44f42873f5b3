//! Bisection of a sorted row.

use mlx_vulkan_core::{Array, Result, backend::Output};

use crate::kernels::{
    Ctx,
    layouts::sort_search::{Constants, Push, SORT_SEARCH_NARROW, SORT_SEARCH_WIDE},
    reduce::View,
    strided::Walk,
};

/// Encodes the indices in `sorted` before which the values belong, or behind equal elements if
/// `right`.
pub(super) fn search(
    ctx: &mut Ctx<'_>,
    right: bool,
    [sorted, values]: &[Array; 2],
    output: &mut Output,
) -> Result<()> {
    let to = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    let (row, values) = (View::of(ctx, sorted)?, View::of(ctx, values)?);
    let walk = Walk::new(&values.shape, [&values.strides]);
    let dense = walk.is_dense(0);
    let push = Push {
        sorted: row.at.address,
        values: values.at.address,
        destination: to.address,
        length: sorted.size() as u64,
        count: output.size() as u64,
        walk: if dense { 0 } else { ctx.args(&walk.pack())? },
        stride: row.strides[0] as i64,
        ndim: if dense { 0 } else { walk.ndim() },
    };
    let wide = row.dtype.size() == 8;
    let kernel = if wide { SORT_SEARCH_WIDE } else { SORT_SEARCH_NARROW };
    let group = ctx.capabilities().elementwise_workgroup();
    let (from, right) = (row.dtype as u32, u32::from(right));
    let pipeline = ctx.pipeline(kernel, &Constants { workgroup: group, from, right });
    let reads = [row.at.region, values.at.region];
    ctx.run(&pipeline, &push, push.count, u64::from(group), &reads, &[to.region])
}
