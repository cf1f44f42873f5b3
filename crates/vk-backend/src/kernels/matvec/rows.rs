//! Products of several rows with matrices of 4 bits on cooperative matrices (`matvec/rows.comp`): whether,
//! and with how many workgroups.

use super::planner::{CHUNK, MATRIX_BLOCK, MATRIX_SUBGROUP, MatvecSizes};
use crate::{
    kernels::fragment::NUMBERS,
    runtime::capabilities::{Capabilities, Fragment},
};

/// Rows up to which the kernel serves: columns of a fragment. More are tiles.
pub(crate) const MOST_ROWS: u32 = 16;
/// Threads of a workgroup, and workgroups of a multiprocessor. Measured on an H100 before the kernel asked
/// for the next chunk first, 8B of 4 bits, µs a product of 4 and of 16 rows on average: 22.6 and 26.3; twice
/// as many results a subgroup 29.0 and 38.1, two chunks prefetched instead of one 23.9 and 33.9, four 32.3
/// and 42.8, one workgroup of 512 23.4 and 36.5 (the latter three with two chunks): registers are short.
const WORKGROUP: u32 = 256;
const RESIDENT: u32 = 2;

/// How `matvec/rows.comp` runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowsPlan {
    /// Threads of a workgroup.
    pub workgroup: u32,
    /// Subgroups that split the inner axis of a block.
    pub splits: u32,
    /// Workgroups that the device is filled with.
    pub most_groups: u32,
}

impl RowsPlan {
    /// Blocks that a workgroup works on at once.
    pub(crate) fn teams(&self) -> u32 {
        self.workgroup / MATRIX_SUBGROUP / self.splits
    }

    /// Bytes of shared memory of a workgroup: sums of every subgroup, and what finds out where elements lie.
    pub(crate) fn shared(&self, p: &MatvecSizes) -> u32 {
        self.workgroup / MATRIX_SUBGROUP * p.sets * p.rows * MATRIX_BLOCK * 4 + NUMBERS
    }
}

/// Chooses how a product with `group` elements to a scale runs, where it can.
pub(crate) fn plan(
    p: &MatvecSizes,
    [inner, group]: [u32; 2],
    fragment: Fragment,
    caps: &Capabilities,
) -> Option<RowsPlan> {
    let fits = caps.subgroup_size == MATRIX_SUBGROUP
        && (fragment.m, fragment.n, fragment.k) == (16, MOST_ROWS, 16)
        && matches!(group, 32 | 64 | 128)
        && (2..=MOST_ROWS).contains(&p.rows)
        && inner > 0
        && inner.is_multiple_of(group)
        // The kernel counts bytes of its rows with 32 bits.
        && inner < 1 << 24
        && p.outputs.iter().all(|o| o.is_multiple_of(MATRIX_BLOCK))
        && caps.max_workgroup >= WORKGROUP;
    if !fits {
        return None;
    }
    let (subgroups, most_groups) = (WORKGROUP / MATRIX_SUBGROUP, caps.compute_units * RESIDENT);
    let blocks = p.outputs.iter().sum::<u32>() / p.sets / MATRIX_BLOCK;
    let (chunks, places) = (inner.div_ceil(CHUNK), most_groups * subgroups);
    // Those with which the last subgroup is done first; the fewest of them, which are joined soonest.
    let rounds = |s: &u32| (blocks * s).div_ceil(places.max(1)) * chunks.div_ceil(*s);
    let possible = |s: &u32| *s <= subgroups.min(chunks);
    let splits = [1, 2, 4, 8].into_iter().filter(possible).min_by_key(rounds)?;
    let plan = RowsPlan { workgroup: WORKGROUP, splits, most_groups };
    (plan.shared(p) <= caps.shared_memory).then_some(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQUARE: Fragment = Fragment { m: 16, n: 16, k: 16 };

    fn gpu() -> Capabilities {
        let shared_memory = 48 << 10;
        let known = Capabilities { shared_memory, max_workgroup: 1024, ..Capabilities::default() };
        Capabilities { compute_units: 132, subgroup_size: 32, ..known }
    }

    fn of(rows: u32, outputs: [u32; 3], sets: u32, inner: u32) -> Option<RowsPlan> {
        plan(&MatvecSizes { rows, outputs, sets }, [inner, 64], SQUARE, &gpu())
    }

    #[test]
    fn columns_of_a_fragment_are_served() {
        let served = |rows| of(rows, [4096, 0, 0], 1, 4096).is_some();
        assert_eq!([1, 2, 16, 17].map(served), [false, true, true, false]);
    }

    #[test]
    fn subgroups_share_rows_so_that_all_have_work() {
        let splits = |outputs, sets, inner| of(4, outputs, sets, inner).unwrap().splits;
        assert_eq!(splits([4096, 0, 0], 1, 4096), 8);
        assert_eq!(splits([4096, 1024, 1024], 1, 4096), 4);
        assert_eq!(splits([12_288, 12_288, 0], 2, 4096), 8, "three rounds of an eighth");
        assert_eq!(splits([151_936, 0, 0], 1, 4096), 2);
        assert_eq!(splits([4096, 0, 0], 1, 128), 1, "no more than there are chunks");
        assert_eq!(
            of(4, [4096, 0, 0], 1, 4096).map(|p| (p.teams(), p.most_groups)),
            Some((1, 264))
        );
    }

    #[test]
    fn sizes_that_are_no_whole_blocks_are_left_to_others() {
        assert_eq!(of(4, [4100, 0, 0], 1, 4096), None);
        assert_eq!(of(4, [4096, 0, 0], 1, 4128), None);
        assert!(of(4, [4096, 0, 0], 1, 4160).is_some(), "whole groups");
        let narrow = Fragment { n: 8, ..SQUARE };
        let p = MatvecSizes { rows: 4, outputs: [64, 0, 0], sets: 1 };
        assert_eq!(plan(&p, [128, 64], narrow, &gpu()), None);
        assert!(plan(&p, [128, 32], SQUARE, &gpu()).is_some());
    }
}
