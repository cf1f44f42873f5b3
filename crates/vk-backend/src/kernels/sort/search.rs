//! Bisection of a sorted row.

use bytemuck::{Pod, Zeroable};
use mlx_vulkan_core::{Array, Result, backend::Output};

use crate::kernels::{Ctx, Kernel, reduce::View, strided::Walk};

/// Push constants of `search.comp`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Push {
    sorted: u64,
    values: u64,
    destination: u64,
    length: u64,
    count: u64,
    walk: u64,
    stride: i64,
    ndim: u32,
    zero: u32,
}

/// Encodes the places in `sorted` before which the values belong, or behind equal elements if
/// `right`.
pub(in crate::kernels) fn search(
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
        zero: 0,
    };
    let wide = row.dtype.size() == 8;
    let kernel = if wide { Kernel::sort_search_wide } else { Kernel::sort_search_narrow };
    let group = ctx.capabilities().elementwise_workgroup();
    let pipeline = ctx.pipeline(kernel, &[group, row.dtype as u32, u32::from(right)])?;
    let reads = [row.at.region, values.at.region];
    let bytes = bytemuck::bytes_of(&push);
    ctx.run(&pipeline, bytes, push.count, u64::from(group), &reads, &[to.region])
}
