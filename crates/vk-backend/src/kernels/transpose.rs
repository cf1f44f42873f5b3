//! Copies between arrays of which different axes are dense.

use mlx_vulkan_core::{Result, Shape, Strides};

use super::{
    Capabilities, Ctx, Operand,
    layouts::copy_transpose::{Constants, Push, TRANSPOSE_BYTES},
    reduce::planner as plan,
    strided::Walk,
};

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

/// Both sides are read and written 16 bytes at a time.
const VECTORS: u32 = 3;

/// Threads of a workgroup, and the sides of its rectangles along source and destination, the
/// latter in words of shared memory.
///
/// Small ones keep more workgroups of them at work: 64 x 16 takes 530 to 570 µs for a GiB of float32 on an
/// H200, where a copy takes 525, 64 x 64 takes 615; of elements of eight bytes 32 x 32 takes 537.
fn rectangle(caps: &Capabilities, bytes: u32, vectors: u32) -> [u32; 3] {
    let group = plan::group(caps);
    match (bytes, vectors) {
        // As many elements a thread as steps in the code.
        _ if caps.quirks.few_workgroups => [group, 16, 16],
        (8, _) => [group.min(128), 32, 32],
        (_, VECTORS) => [group.min(128), 64, 16],
        _ if 64 * 65 * 4 <= caps.shared_memory => [group, 64, 64],
        _ => [group, 64, 32],
    }
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
        source_stride: walk.strides[0][axes.destination] as i64,
        destination_stride: walk.strides[1][axes.source] as i64,
        a,
        b,
        ndim: rest.ndim(),
    };
    // Runs of 16 bytes are aligned, and whole.
    let whole = |at: Operand, k: usize, stride: i64, size: u64| {
        let each = i64::from(16 / bytes);
        let strides = rest.strides[k].iter().map(|&s| s as i64).chain([stride, size as i64]);
        at.is_aligned(16) && { strides }.all(|s| s % each == 0)
    };
    let vectors = u32::from(whole(from, 0, push.source_stride, a))
        | (u32::from(whole(to, 1, push.destination_stride, b)) << 1);
    let [group, wide, high] = rectangle(ctx.capabilities(), bytes, vectors);
    let share = if vectors == VECTORS { (4 / bytes).max(1) } else { 1 };
    let constants = Constants { workgroup: group, bytes, wide, high, vectors };
    let pipeline = ctx.pipeline(TRANSPOSE_BYTES, &constants);
    let along_b = b.div_ceil(u64::from(high * share));
    let squares = rest.count() * a.div_ceil(u64::from(wide)) * along_b;
    ctx.run(&pipeline, &push, squares, 1, &[from.region], &[to.region])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rectangles_lie_in_two_dense_axes() {
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
    fn rectangles_fit_into_shared_memory() {
        let gpu = Capabilities::default();
        let of = |bytes, vectors| rectangle(&gpu, bytes, vectors);
        assert_eq!([of(1, 3), of(4, 3)], [[128, 64, 16]; 2]);
        assert_eq!([of(2, 1), of(4, 0), of(8, 3)], [[256, 64, 64], [256, 64, 64], [128, 32, 32]]);
        let small = Capabilities { shared_memory: 16 << 10, ..gpu };
        assert_eq!(rectangle(&small, 4, 0), [256, 64, 32]);
    }
}
