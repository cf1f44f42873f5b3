//! Reading elements at indices.

use mlx_vulkan_core::{
    Array, Result, Strides, backend::Output, locations::Locations, primitives::IndexingOp,
};

use super::{
    Ctx, Operand, args,
    layouts::{indexing_along as along, indexing_gather as gathers, indexing_take as takes},
    locations::{self, LocationDispatch, indices, strides, widest},
    reduce::View,
    scatter,
    strided::Walk,
};

/// The walks of a take, counted in words of `bytes`.
#[derive(Debug, PartialEq, Eq)]
struct Words {
    bytes: u64,
    outer: Walk<1>,
    slice: Walk<1>,
    stride: i64,
}

/// Slices that are runs of neighbours are copied in words of up to 16 bytes, if everything is a
/// multiple of them.
fn words(source: &View, axis: usize, to: Operand) -> Words {
    let size = source.dtype.size() as u64;
    let (shape, strides) = (&source.shape, &source.strides);
    let mut outer = Walk::new(&shape[..axis], [&strides[..axis]]);
    let mut slice = Walk::new(&shape[axis + 1..], [&strides[axis + 1..]]);
    // With one element along the axis only index 0 is left.
    let mut stride = if shape[axis] > 1 { strides[axis] as i64 } else { 0 };
    if !slice.is_dense(0) || slice.count() == 1 {
        return Words { bytes: size, outer, slice, stride };
    }
    let fits = |bytes: u64| {
        let whole = |elements: i64| (elements * size as i64) % bytes as i64 == 0;
        bytes > size
            && source.at.is_aligned(bytes)
            && to.is_aligned(bytes)
            && whole(slice.count() as i64)
            && whole(stride)
            && outer.strides[0].iter().all(|&s| whole(s as i64))
    };
    let bytes = [16, 8, 4].into_iter().find(|&bytes| fits(bytes)).unwrap_or(size);
    let ratio = (bytes / size) as usize;
    slice.shape[0] /= ratio;
    stride /= ratio as i64;
    outer.strides[0].iter_mut().for_each(|s| *s /= ratio as isize);
    Words { bytes, outer, slice, stride }
}

/// The bytes of a walk as an argument; nothing for a walk over one element.
fn pack(ctx: &mut Ctx<'_>, walk: &Walk<1>) -> Result<(u64, u32)> {
    match walk.count() {
        1 => Ok((0, 0)),
        _ => Ok((ctx.args(&walk.pack())?, walk.ndim())),
    }
}

/// Encodes the primitives of this family.
///
/// # Errors
/// When the backend refuses it, or memory or the device fails.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    op: &IndexingOp,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    match op {
        IndexingOp::Take { axis } => take(ctx, *axis, args(inputs), output),
        IndexingOp::TakeAlongAxis { axis } => take_along_axis(ctx, *axis, args(inputs), output),
        IndexingOp::Gather { axes, slice_sizes } => gather(ctx, axes, slice_sizes, inputs, output),
        IndexingOp::Scatter { op, axes } => scatter::scatter(ctx, *op, axes, inputs, output),
        IndexingOp::ScatterAxis { op, axis } => {
            scatter::scatter_axis(ctx, *op, *axis, args(inputs), output)
        }
    }
}

/// Encodes the slices of `a` along `axis` at the indices.
fn take(
    ctx: &mut Ctx<'_>,
    axis: usize,
    [a, indices]: &[Array; 2],
    output: &mut Output,
) -> Result<()> {
    let to = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    let (source, picks) = (View::of(ctx, a)?, View::of(ctx, indices)?);
    let words = words(&source, axis, to);
    let pick_walk = Walk::new(&picks.shape, [&picks.strides]);
    let (outer, outer_ndim) = pack(ctx, &words.outer)?;
    let (pick, pick_ndim) = pack(ctx, &pick_walk)?;
    let (slice, slice_ndim) = pack(ctx, &words.slice)?;
    let count = output.nbytes() as u64 / words.bytes;
    let push = takes::Push {
        source: source.at.address,
        destination: to.address,
        indices: picks.at.address,
        words: count,
        picks: pick_walk.count(),
        slice: words.slice.count(),
        outer_walk: outer,
        pick_walk: pick,
        slice_walk: slice,
        size: source.shape[axis] as i64,
        stride: words.stride,
        outer_ndim,
        pick_ndim,
        slice_ndim,
    };
    let group = ctx.capabilities().elementwise_workgroup();
    let (bytes, index) = (words.bytes as u32, indices.dtype() as u32);
    let constants = takes::Constants { workgroup: group, bytes, index };
    let pipeline = ctx.pipeline(takes::TAKE, &constants);
    let reads = [source.at.region, picks.at.region];
    ctx.run(&pipeline, &push, count, u64::from(group), &reads, &[to.region])
}

/// Encodes the elements of `a` at the indices along `axis`; the other axes agree.
fn take_along_axis(
    ctx: &mut Ctx<'_>,
    axis: usize,
    [a, indices]: &[Array; 2],
    output: &mut Output,
) -> Result<()> {
    let to = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    if a.size() == 0 {
        return Err(ctx.unsupported(a, "there is nothing to take from"));
    }
    let (source, picks) = (View::of(ctx, a)?, View::of(ctx, indices)?);
    // The walk over the output stays at index 0 of the axis.
    let mut strides: Strides = source.strides.clone();
    strides[axis] = 0;
    let walk = Walk::new(&output.shape, [&strides, &picks.strides]);
    let push = along::Push {
        source: source.at.address,
        destination: to.address,
        indices: picks.at.address,
        count: output.size() as u64,
        walk: ctx.args(&walk.pack())?,
        size: source.shape[axis] as i64,
        stride: source.strides[axis] as i64,
        ndim: walk.ndim(),
    };
    let group = ctx.capabilities().elementwise_workgroup();
    let (bytes, index) = (a.dtype().size() as u32, indices.dtype() as u32);
    let constants = along::Constants { workgroup: group, bytes, index };
    let pipeline = ctx.pipeline(along::TAKE_ALONG, &constants);
    let reads = [source.at.region, picks.at.region];
    ctx.run(&pipeline, &push, push.count, u64::from(group), &reads, &[to.region])
}

/// Encodes slices of `slice_sizes` of the first input at the others' indices into `axes`.
fn gather(
    ctx: &mut Ctx<'_>,
    axes: &[usize],
    slice_sizes: &[usize],
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    let destination = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    let (from, views) = (View::of(ctx, &inputs[0])?, indices(ctx, &inputs[1..])?);
    let index_shape = views.first().map_or(&[][..], |v| &v.shape);
    let array = (&from.shape[..], &from.strides[..]);
    let index_strides = strides(&views);
    let locations =
        Locations::of_slices(array, index_shape, &index_strides, axes, slice_sizes, &[]);
    let (locations, bytes) = widest(locations, from.dtype.size() as u64, [from.at, destination]);
    let constants = gathers::Constants {
        workgroup: ctx.capabilities().elementwise_workgroup(),
        bytes: bytes as u32,
        index: locations::index(&views),
        count: views.len() as u32,
    };
    let dispatch = LocationDispatch {
        kernel: gathers::GATHER,
        constants,
        locations: &locations,
        indices: &views,
        source: from.at,
        destination,
        keeps: false,
    };
    dispatch.run(ctx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Region;
    use mlx_vulkan_core::{Dtype, shape};

    fn view(shape: &[usize], dtype: Dtype) -> View {
        let at = Operand { address: 256, region: Region::default() };
        View { at, dtype, shape: shape.into(), strides: shape::row_major_strides(shape) }
    }

    #[test]
    fn dense_slices_move_in_wide_words() {
        let to = Operand { address: 512, region: Region::default() };
        let wide = words(&view(&[100, 64], Dtype::Float16), 0, to);
        assert_eq!((wide.bytes, wide.slice.count(), wide.stride), (16, 8, 8));
        let odd = words(&view(&[100, 6], Dtype::Float16), 0, to);
        assert_eq!((odd.bytes, odd.slice.count(), odd.stride), (4, 3, 3));
        let last = words(&view(&[4, 100], Dtype::Float32), 1, to);
        assert_eq!((last.bytes, last.slice.count(), last.stride), (4, 1, 1));
    }
}
