//! Products of up to eight rows with matrices of 4 bits whose subgroups keep slices of the rows
//! (`matvec/slices.comp`): whether, by which kernel, and with how many workgroups.

use super::{
    Format,
    planner::{MATRIX_BITS, MATRIX_BLOCK, MATRIX_SUBGROUP, MatvecSizes},
};
use crate::{kernels::fragment::NUMBERS, runtime::capabilities::Capabilities};

/// Rows up to which the kernel serves.
const MOST_ROWS: u32 = 8;
/// Elements of the inner axis that a subgroup keeps of eight rows, in 32 registers.
pub(crate) const SLICE: u32 = 256;
/// Subgroups of a workgroup that does so, of which a multiprocessor has one: with more a thread would have
/// fewer registers than the 128 that it takes.
pub(crate) const SUBGROUPS: u32 = 16;
/// Blocks of each team, in halves, from which a device that is full gains: rows are brought to registers
/// first. Measured on an H200, four rows, µs of `matvec/rows.comp` and of this kernel: 8B's output (1.9
/// blocks) 9.8 and 10.4, queries, keys and values (2.9) 13.5 and 12.4, gate with up (5.8) 29.1 and 25.8, head
/// (72) 174 and 134; 30B-A3B's queries, keys and values (1.2) 9.5 and 9.8.
const LEAST_HALF_BLOCKS: u32 = 5;
/// Floats of a column's sums in shared memory, as `slices.glsl` has them.
pub(crate) const PITCH: u32 = MATRIX_BLOCK + 4;

/// How `matvec/slices.comp` runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlicesPlan {
    /// Threads of a workgroup.
    pub workgroup: u32,
    /// Subgroups of a team: slices of a row.
    pub splits: u32,
    /// Blocks whose sums are kept.
    pub buffers: u32,
    /// Workgroups that the device is filled with.
    pub most_groups: u32,
}

impl SlicesPlan {
    /// Blocks that a workgroup works on at once.
    pub(crate) fn teams(&self) -> u32 {
        self.workgroup / MATRIX_SUBGROUP / self.splits
    }

    /// Bytes of shared memory of a workgroup: sums, scales and biases, and what finds out where elements lie.
    fn shared(&self, p: &MatvecSizes, group: u32) -> u32 {
        let subgroups = self.workgroup / MATRIX_SUBGROUP;
        let sums = self.buffers * subgroups * p.sets * p.rows * PITCH;
        let pairs = (self.splits | 1) * SLICE / group / 2;
        let scales = 2 * self.teams() * p.sets * 2 * MATRIX_BLOCK * pairs;
        4 * (sums + scales) + NUMBERS + 16
    }
}

/// Chooses how a product that fragments serve ([`super::rows`]) runs, if this kernel is ahead.
pub(crate) fn plan(
    p: &MatvecSizes,
    inner: u32,
    format: Format,
    caps: &Capabilities,
) -> Option<SlicesPlan> {
    let splits = inner / SLICE;
    let fits = (format.bits, format.floats) == (MATRIX_BITS, false)
        && matches!(format.group, 32 | 64 | 128)
        && p.rows <= MOST_ROWS
        && inner.is_multiple_of(SLICE)
        && (1..=SUBGROUPS).contains(&splits);
    if !fits {
        return None;
    }
    let workgroup = SUBGROUPS / splits * splits * MATRIX_SUBGROUP;
    let most_groups = caps.compute_units.max(1);
    let blocks = p.outputs.iter().sum::<u32>() / p.sets / MATRIX_BLOCK;
    let plans = [2, 1].map(|buffers| SlicesPlan { workgroup, splits, buffers, most_groups });
    plans.into_iter().find(|plan| {
        2 * blocks >= LEAST_HALF_BLOCKS * plan.teams() * most_groups
            && plan.workgroup <= caps.max_workgroup
            && plan.shared(p, format.group) <= caps.shared_memory
    })
}

#[cfg(test)]
mod tests {
    use mlx_vulkan_core::{
        Dtype,
        primitives::{Affine, FpMode},
    };

    use super::*;

    fn gpu() -> Capabilities {
        let known = Capabilities { shared_memory: 48 << 10, ..Capabilities::default() };
        Capabilities { max_workgroup: 1024, compute_units: 132, ..known }
    }

    fn of(rows: u32, sets: u32, inner: u32, format: Format) -> Option<SlicesPlan> {
        let outputs = [100_000 * sets, 0, 0];
        plan(&MatvecSizes { rows, outputs, sets }, inner, format, &gpu())
    }

    fn affine(group_size: usize, bits: usize) -> Format {
        Format::packed(Dtype::Bfloat16, Affine { group_size, bits }.into())
    }

    #[test]
    fn subgroups_keep_whole_slices_of_up_to_eight_rows() {
        let served = |rows, inner| of(rows, 1, inner, affine(64, 4)).is_some();
        assert_eq!([2, 8, 9].map(|rows| served(rows, 4096)), [true, true, false]);
        assert_eq!([4096, 4224, 4352].map(|inner| served(4, inner)), [true, false, false]);
        assert_eq!(of(4, 1, 4096, affine(64, 8)), None);
        assert_eq!(of(4, 1, 4096, Format::packed(Dtype::Bfloat16, FpMode::Mxfp4.into())), None);
    }

    #[test]
    fn rows_are_kept_for_many_blocks() {
        let served = |outputs, sets, inner| {
            plan(&MatvecSizes { rows: 4, outputs, sets }, inner, affine(64, 4), &gpu()).is_some()
        };
        assert!(!served([4096, 0, 0], 1, 4096));
        assert!(served([4096, 1024, 1024], 1, 4096));
        assert!(!served([4096, 512, 512], 1, 2048));
        assert!(!served([4096, 4096, 0], 2, 4096));
        assert!(served([12_288, 12_288, 0], 2, 4096));
    }

    #[test]
    fn sums_of_two_blocks_are_kept_where_they_fit() {
        let plan = |rows, sets, inner, group| {
            of(rows, sets, inner, affine(group, 4)).map(|p| (p.workgroup, p.teams(), p.buffers))
        };
        assert_eq!(plan(8, 1, 4096, 64), Some((512, 1, 2)));
        assert_eq!(plan(8, 2, 4096, 64), Some((512, 1, 1)));
        assert_eq!(plan(8, 2, 4096, 32), None);
        assert_eq!(plan(4, 1, 2560, 64), Some((320, 1, 2)));
    }
}
