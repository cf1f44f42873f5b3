//! Copies between arrays of which different axes are dense.

use bytemuck::{Pod, Zeroable};
use mlx_core::{Result, Shape, Strides};

use super::{Capabilities, Ctx, Kernel, Operand, reduce::plan, strided::Walk};

/// Push constants of `transpose.comp`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Push {
    source: u64,
    destination: u64,
    walk: u64,
    count: u64,
    source_step: i64,
    destination_step: i64,
    a: u64,
    b: u64,
    ndim: u32,
    zero: u32,
}

/// The axes along which source and destination are dense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axes {
    source: usize,
    destination: usize,
}

/// Shorter axes leave most of a square empty.
const SHORTEST: usize = 8;

impl Axes {
    /// The axes of a walk over source and destination, where squares of them are worth it.
    pub(super) fn of(walk: &Walk<2>) -> Option<Axes> {
        let dense = |k: usize| walk.strides[k].iter().position(|&stride| stride == 1);
        let (source, destination) = (dense(0)?, dense(1)?);
        let long = walk.shape[source] >= SHORTEST && walk.shape[destination] >= SHORTEST;
        (source != destination && long).then_some(Axes { source, destination })
    }
}

/// Threads of a workgroup, and the side of its squares.
fn square(caps: &Capabilities, bytes: u32) -> (u32, u32) {
    let group = plan::group(caps);
    let wanted = match (caps.quirks.few_workgroups, bytes) {
        (true, _) => 16, // as many elements a thread as steps in the code
        (_, 8) => 32,
        _ => 64,
    };
    let fits = |side: u32| side * (side + 1) * bytes.max(4) <= caps.shared_memory;
    let side = if fits(wanted) { wanted } else { wanted / 2 };
    (group, side.min(group))
}

/// Encodes a copy of elements of `bytes` bytes.
pub(super) fn transpose(
    ctx: &mut Ctx<'_>,
    walk: &Walk<2>,
    axes: Axes,
    bytes: u32,
    [from, to]: [Operand; 2],
) -> Result<()> {
    let other = |axis: &usize| *axis != axes.source && *axis != axes.destination;
    let others: Vec<usize> = (0..walk.shape.len()).filter(other).collect();
    let shape: Shape = others.iter().map(|&x| walk.shape[x]).collect();
    let pick = |k: usize| -> Strides { others.iter().map(|&x| walk.strides[k][x]).collect() };
    let rest = Walk::new(&shape, [&pick(0), &pick(1)]);
    let (a, b) = (walk.shape[axes.source] as u64, walk.shape[axes.destination] as u64);
    let push = Push {
        source: from.address,
        destination: to.address,
        walk: ctx.args(&rest.pack())?,
        count: rest.count(),
        source_step: walk.strides[0][axes.destination] as i64,
        destination_step: walk.strides[1][axes.source] as i64,
        a,
        b,
        ndim: rest.ndim(),
        zero: 0,
    };
    let (group, side) = square(ctx.capabilities(), bytes);
    let whole = |at: Operand, k: usize, step: i64, size: u64| {
        let each = (16 / bytes).min(side);
        let steps = rest.strides[k].iter().map(|&s| s as i64).chain([step, size as i64]);
        at.is_aligned(16) && each * bytes == 16 && { steps }.all(|s| s % i64::from(each) == 0)
    };
    let vectors = u32::from(whole(from, 0, push.source_step, a))
        | (u32::from(whole(to, 1, push.destination_step, b)) << 1);
    let pipeline = ctx.pipeline(Kernel::transpose_bytes, &[group, bytes, side, vectors])?;
    let squares = rest.count() * a.div_ceil(u64::from(side)) * b.div_ceil(u64::from(side));
    let push = bytemuck::bytes_of(&push);
    ctx.run(&pipeline, push, squares, 1, &[from.region], &[to.region])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_lie_in_two_dense_axes() {
        let of = |shape: &[usize], from: &[isize], to: &[isize]| {
            Axes::of(&Walk::new(shape, [from, to])).map(|x| (x.source, x.destination))
        };
        assert_eq!(of(&[8, 9], &[1, 8], &[9, 1]), Some((0, 1)));
        assert_eq!(of(&[2, 8, 9], &[72, 1, 8], &[72, 9, 1]), Some((1, 2)));
        assert_eq!(of(&[9, 2, 8], &[1, 9, 18], &[16, 8, 1]), Some((0, 2)));
        assert_eq!(of(&[8, 4], &[1, 8], &[4, 1]), None, "short");
        assert_eq!(of(&[8, 9], &[2, 16], &[9, 1]), None, "nowhere dense");
        assert_eq!(of(&[8, 9], &[10, 1], &[9, 1]), None, "one axis");
    }

    #[test]
    fn squares_fit_into_shared_memory() {
        let gpu = Capabilities::default();
        assert_eq!([1, 4, 8].map(|bytes| square(&gpu, bytes)), [(256, 64), (256, 64), (256, 32)]);
        let small = Capabilities { shared_memory: 16 << 10, ..gpu };
        assert_eq!(square(&small, 4), (256, 32));
    }
}
