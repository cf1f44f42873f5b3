//! Products of several rows with matrices of 4 bits on cooperative matrices (`matvec/rows.comp`): whether, and
//! with how many workgroups.

use super::planner::{CHUNK, MATRIX_BLOCK, MATRIX_SUBGROUP, MatvecSizes};
use crate::runtime::capabilities::{Capabilities, Fragment};

/// Rows up to which the kernel serves; more are tiles of a dense product.
pub(crate) const MOST_ROWS: u32 = 64;
/// Rows up to which they come to shared memory: a thread holds its part of all of them.
const MOST_STAGED: u32 = 16;
/// Columns of a fragment, each a row of `x`.
const COLUMNS: u32 = 16;
/// Threads of a workgroup, of one fragment of columns and of several, whose sums take registers.
const WORKGROUP: [u32; 2] = [512, 256];

/// How `matvec/rows.comp` runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowsPlan {
    /// Threads of a workgroup.
    pub workgroup: u32,
    /// Subgroups that split the inner axis of a block.
    pub splits: u32,
    /// Chunks that a subgroup prefetches at a time.
    pub depth: u32,
    /// The rows come to shared memory first, where their norm can be taken.
    pub staged: bool,
    /// Fragments of one matrix that a subgroup has.
    pub tiles: u32,
    /// Workgroups that the device is filled with.
    pub most_groups: u32,
}

impl RowsPlan {
    /// Blocks that a workgroup works on at once.
    pub(crate) fn teams(&self) -> u32 {
        self.workgroup / MATRIX_SUBGROUP / self.splits
    }

    /// Results of a block.
    pub(crate) fn block(&self) -> u32 {
        MATRIX_BLOCK * self.tiles
    }
}

/// Bytes of shared memory of a workgroup; without `staged`, of its results and what finds out where elements
/// lie.
pub(crate) fn shared(
    p: &MatvecSizes,
    [inner, group]: [u32; 2],
    workgroup: u32,
    tiles: u32,
    staged: bool,
) -> u32 {
    let results = workgroup / MATRIX_SUBGROUP * p.sets * tiles * p.rows.min(COLUMNS) * 16 * 4;
    let rows = p.rows * ((inner / 8 + 1) * 16 + inner / group * 4);
    let squares = p.rows * workgroup / MATRIX_SUBGROUP * 4;
    results + squares + 128 * 16 + 64 + if staged { rows } else { 0 }
}

/// Chooses how a product with `group` elements to a scale runs, where it can.
pub(crate) fn plan(
    p: &MatvecSizes,
    [inner, group]: [u32; 2],
    fragment: Fragment,
    caps: &Capabilities,
) -> Option<RowsPlan> {
    let divides = |n: u32| p.outputs.iter().all(|o| o.is_multiple_of(n));
    let fits = caps.subgroup_size == MATRIX_SUBGROUP
        && (fragment.m, fragment.n, fragment.k) == (16, COLUMNS, 16)
        && matches!(group, 32 | 64 | 128)
        && (2..=MOST_ROWS).contains(&p.rows)
        && inner > 0
        && inner.is_multiple_of(CHUNK)
        && divides(MATRIX_BLOCK)
        && caps.max_workgroup >= WORKGROUP[1];
    if !fits {
        return None;
    }
    let workgroup = env("WG").unwrap_or(WORKGROUP[usize::from(p.rows > COLUMNS)]).min(caps.max_workgroup);
    if p.rows > env("MOST").unwrap_or(MOST_ROWS) {
        return None;
    }
    // Two fragments need the rows half as often, which counts where there are many.
    let tiles = if p.sets == 1 && p.rows > COLUMNS && divides(2 * MATRIX_BLOCK) { 2 } else { 1 };
    let bytes = |staged| shared(p, [inner, group], workgroup, tiles, staged);
    let staged = env("STAGED") != Some(0) && p.rows <= MOST_STAGED && bytes(true) <= caps.shared_memory;
    if bytes(staged) > caps.shared_memory {
        return None;
    }
    let resident = env("RESIDENT").unwrap_or(1);
    let subgroups = workgroup / MATRIX_SUBGROUP;
    let blocks = p.outputs.iter().sum::<u32>() / p.sets / MATRIX_BLOCK / tiles;
    let (chunks, places) = (inner / CHUNK, caps.compute_units * resident * subgroups);
    // Those with which the last subgroup is done first; the fewest of them, which are joined soonest.
    let rounds = |s: &u32| (blocks * s).div_ceil(places.max(1)) * (chunks / s);
    let possible = |s: &u32| *s <= subgroups && chunks.is_multiple_of(*s);
    let splits = [1, 2, 4, 8, 16].into_iter().filter(possible).min_by_key(rounds)?;
    let deep = env("DEPTH").unwrap_or(2);
    let depth = [deep, 2, 1].into_iter().find(|&d| (chunks / splits).is_multiple_of(d))?;
    let most_groups = caps.compute_units * resident;
    Some(RowsPlan { workgroup, splits, depth, staged, tiles, most_groups })
}

/// EXPERIMENT
fn env(name: &str) -> Option<u32> {
    std::env::var(format!("MLX_ROWS_{name}")).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQUARE: Fragment = Fragment { m: 16, n: 16, k: 16 };

    fn gpu() -> Capabilities {
        let known = Capabilities { shared_memory: 48 << 10, max_workgroup: 1024, ..Capabilities::default() };
        Capabilities { compute_units: 132, subgroup_size: 32, ..known }
    }

    fn of(rows: u32, outputs: [u32; 3], sets: u32, inner: u32) -> Option<RowsPlan> {
        plan(&MatvecSizes { rows, outputs, sets }, [inner, 64], SQUARE, &gpu())
    }

    #[test]
    fn few_short_rows_come_to_shared_memory() {
        let staged = |rows, inner| of(rows, [4096, 0, 0], 1, inner).map(|plan| plan.staged);
        assert_eq!([2, 4, 5, 16].map(|rows| staged(rows, 4096)), [true, true, false, false].map(Some));
        assert_eq!([2, 16, 17].map(|rows| staged(rows, 1024)), [true, true, false].map(Some));
        assert_eq!(staged(2, 12_288), Some(false));
        assert_eq!([1, 65].map(|rows| staged(rows, 1024)), [None; 2]);
    }

    #[test]
    fn subgroups_share_rows_so_that_all_have_work() {
        let splits = |rows, outputs, sets, inner| of(rows, outputs, sets, inner).unwrap().splits;
        assert_eq!(splits(4, [4096, 0, 0], 1, 4096), 8, "two rounds of half the length");
        assert_eq!(splits(4, [4096, 1024, 1024], 1, 4096), 8);
        assert_eq!(splits(4, [4096, 0, 0], 1, 12_288), 8);
        assert_eq!(of(4, [12_288, 12_288, 0], 2, 4096).map(|p| (p.tiles, p.depth)), Some((1, 2)));
        assert_eq!(of(32, [4096, 0, 0], 1, 4096).map(|p| (p.tiles, p.block())), Some((2, 32)));
    }

    #[test]
    fn sizes_that_are_no_whole_blocks_are_left_to_others() {
        assert_eq!(of(4, [4100, 0, 0], 1, 4096), None);
        assert_eq!(of(4, [4096, 0, 0], 1, 4128), None);
        let narrow = Fragment { n: 8, ..SQUARE };
        let p = MatvecSizes { rows: 4, outputs: [64, 0, 0], sets: 1 };
        assert_eq!(plan(&p, [128, 64], narrow, &gpu()), None);
        assert!(plan(&p, [128, 32], SQUARE, &gpu()).is_some());
    }
}
