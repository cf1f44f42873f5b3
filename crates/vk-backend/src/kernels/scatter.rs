//! Writing elements at indices: replaced word by word, joined by atomics.

use mlx_vulkan_core::{
    Array, Dtype, Result, backend::Output, locations::Locations, primitives::ScatterOp, shape,
};

use super::{
    Ctx, Operand, copy,
    layouts::{scatter_assign as assign, scatter_fold as fold},
    locations::{self, LocationDispatch, indices, strides, widest},
    reduce::View,
};
use crate::shaders::KernelOf;
use fold::Push;

/// Encodes a copy of the first input, in place where it can be donated, with the last one's slices
/// joined to it at the indices between them.
pub(super) fn scatter(
    ctx: &mut Ctx<'_>,
    op: ScatterOp,
    axes: &[usize],
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    let [a, arrays @ .., updates] = inputs else { unreachable!("an array and its updates") };
    let to = target(ctx, a, output)?;
    if updates.size() == 0 || a.size() == 0 {
        return Ok(());
    }
    let (views, updates) = (indices(ctx, arrays)?, View::of(ctx, updates)?);
    let index_shape = views.first().map_or(&[][..], |v| &v.shape);
    let sizes = &updates.shape[index_shape.len()..];
    let dense = shape::row_major_strides(a.shape());
    let array = (a.shape(), &dense[..]);
    let others = [&updates.strides[..]];
    let locations =
        Locations::of_slices(array, index_shape, &strides(&views), axes, sizes, &others);
    launch(ctx, op, locations, &views, (updates.at, to), a)
}

/// Encodes a copy of the first input, in place where it can be donated, with the third one's
/// elements joined to it at the second one's indices along `axis`.
pub(super) fn scatter_axis(
    ctx: &mut Ctx<'_>,
    op: ScatterOp,
    axis: usize,
    [a, picks, updates]: &[Array; 3],
    output: &mut Output,
) -> Result<()> {
    let to = target(ctx, a, output)?;
    if updates.size() == 0 || a.size() == 0 {
        return Ok(());
    }
    let (picks, updates) = (View::of(ctx, picks)?, View::of(ctx, updates)?);
    let dense = shape::row_major_strides(a.shape());
    let index = (&picks.shape[..], &picks.strides[..]);
    let locations = Locations::along_axis((a.shape(), &dense), index, axis, &[&updates.strides]);
    launch(ctx, op, locations, &[picks], (updates.at, to), a)
}

/// The output with the elements of `a` in it.
fn target(ctx: &mut Ctx<'_>, a: &Array, output: &mut Output) -> Result<Operand> {
    if let Some(to) = ctx.donate(a, output)? {
        return Ok(to);
    }
    copy::copy_to_output(ctx, a, output)?;
    copy::written(ctx, output)
}

fn launch(
    ctx: &mut Ctx<'_>,
    op: ScatterOp,
    locations: Locations,
    indices: &[View],
    (source, destination): (Operand, Operand),
    a: &Array,
) -> Result<()> {
    let dtype = a.dtype();
    let workgroup = ctx.capabilities().elementwise_workgroup();
    let (index, count) = (locations::index(indices), indices.len() as u32);
    if op == ScatterOp::Assign {
        let (locations, bytes) = widest(locations, dtype.size() as u64, [source, destination]);
        let constants = assign::Constants { workgroup, bytes: bytes as u32, index, count };
        let (kernel, locations) = (assign::SCATTER_ASSIGN, &locations);
        let dispatch = LocationDispatch {
            kernel,
            constants,
            locations,
            indices,
            source,
            destination,
            keeps: true,
        };
        return dispatch.run(ctx);
    }
    let op = logical(op, dtype);
    let kernel = kernel(op, dtype, ctx.capabilities().float_atomics);
    if kernel == fold::SCATTER_FOLD_WIDE && !ctx.capabilities().int64_atomics {
        return Err(ctx.unsupported(a, "the device has no 64-bit atomics"));
    }
    let (dtype, op) = (dtype as u32, op as u32);
    let constants = fold::Constants { workgroup, dtype, index, count, op };
    let locations = &locations;
    LocationDispatch { kernel, constants, locations, indices, source, destination, keeps: true }
        .run(ctx)
}

/// Sums and products of bools are their extremes.
fn logical(op: ScatterOp, dtype: Dtype) -> ScatterOp {
    match (op, dtype) {
        (ScatterOp::Sum, Dtype::Bool) => ScatterOp::Max,
        (ScatterOp::Prod, Dtype::Bool) => ScatterOp::Min,
        _ => op,
    }
}

fn kernel(op: ScatterOp, dtype: Dtype, float_atomics: bool) -> KernelOf<fold::Constants, Push> {
    let sum = op == ScatterOp::Sum;
    match dtype {
        Dtype::Float32 | Dtype::Complex64 if sum && float_atomics => fold::SCATTER_FOLD_FLOATS,
        _ if dtype.size() == 8 && !sum => fold::SCATTER_FOLD_WIDE,
        _ => fold::SCATTER_FOLD,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_64_bit_atomics_asks_for_them() {
        for dtype in [Dtype::Int64, Dtype::Uint64, Dtype::Complex64] {
            assert_eq!(kernel(ScatterOp::Sum, dtype, false), fold::SCATTER_FOLD);
            assert_eq!(kernel(ScatterOp::Max, dtype, true), fold::SCATTER_FOLD_WIDE);
        }
        assert_eq!(kernel(ScatterOp::Sum, Dtype::Float32, true), fold::SCATTER_FOLD_FLOATS);
        assert_eq!(kernel(ScatterOp::Sum, Dtype::Float32, false), fold::SCATTER_FOLD);
        assert_eq!(kernel(ScatterOp::Prod, Dtype::Float32, true), fold::SCATTER_FOLD);
        assert_eq!(logical(ScatterOp::Sum, Dtype::Bool), ScatterOp::Max);
    }
}
