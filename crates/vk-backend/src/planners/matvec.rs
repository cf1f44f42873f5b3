//! Products of few rows with matrices that share them: how many results a team makes.

use super::team::Team;
use crate::capabilities::Capabilities;

/// Rows up to which `matvec/fused.comp` serves.
pub const MOST_ROWS: usize = 8;

/// How `matvec/fused.comp` runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Threads of a subgroup, which is a team.
    pub subgroup: u32,
    /// Threads of a workgroup.
    pub workgroup: u32,
    /// Results of a team, of each matrix that it works on.
    pub outputs: u32,
    /// Chunks of a lane, unrolled; 0 for a loop.
    pub chunks: u32,
}

/// Sizes of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// Rows of `x`.
    pub rows: u32,
    /// Inner size.
    pub inner: u32,
    /// Bits of a matrix element; 16 or 32 when it is not quantized.
    pub bits: u32,
    /// Results of every matrix.
    pub outputs: [u32; 3],
    /// Matrices that a team works on at once: 2 when one gates the other.
    pub sets: u32,
}

impl Product {
    /// Elements of the inner axis that a lane takes at a time.
    pub fn chunk(&self) -> u32 {
        if self.bits >= 16 { 8 } else { 32 }
    }
}

/// Whether the kernel serves such a product on this device.
pub fn serves(rows: usize, inner: usize, bits: usize, caps: &Capabilities) -> bool {
    let chunk = if bits >= 16 { 8 } else { 32 };
    Team::of(caps, true).subgroups
        && (1..=MOST_ROWS).contains(&rows)
        && inner.is_multiple_of(chunk)
        && inner < 1 << 28
}

/// Chooses the variant.
pub fn plan(p: &Product, caps: &Capabilities) -> Plan {
    let team = Team::of(caps, true);
    let total: u32 = p.outputs.iter().sum::<u32>() / p.sets;
    let divides = |n: u32| p.outputs.iter().all(|o| o.is_multiple_of(n));
    let wanted = if caps.is_software() {
        // Software devices reuse what they loaded of `x`.
        [8, 4, 2, 1].into_iter().find(|n| n * p.rows * p.sets <= 8)
    } else {
        // Enough teams to fill the device; more results a team where there are plenty.
        let fills = |n: u32| total / n >= caps.compute_units * 6;
        [8, 4, 2].into_iter().find(|&n| fills(n) && n * p.rows * p.sets <= 16 && n * p.sets <= 8)
    };
    let most = wanted.unwrap_or(1);
    let outputs = [most, 4, 2, 1].into_iter().find(|&n| n <= most && divides(n)).unwrap_or(1);
    let lanes = p.inner.div_ceil(p.chunk() * team.subgroup);
    let workgroup = team.workgroup(caps, 128);
    let chunks = if lanes <= 4 && !caps.is_software() { lanes } else { 0 };
    Plan { subgroup: team.subgroup, workgroup, outputs, chunks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::DeviceKind;

    fn gpu() -> Capabilities {
        Capabilities { compute_units: 132, subgroup_size: 32, ..Capabilities::default() }
    }

    fn product(outputs: [u32; 3], sets: u32) -> Product {
        Product { rows: 1, inner: 1024, bits: 4, outputs, sets }
    }

    #[test]
    fn many_results_are_shared_by_a_team_and_few_fill_the_device() {
        let of = |outputs, sets| plan(&product(outputs, sets), &gpu()).outputs;
        assert_eq!(of([151_936, 0, 0], 1), 8);
        assert_eq!(of([2048, 1024, 1024], 1), 4);
        assert_eq!(of([3072, 3072, 0], 2), 2);
        assert_eq!(of([1024, 0, 0], 1), 1);
        assert_eq!(of([15_001, 0, 0], 1), 1, "a team's results are of one matrix");
    }

    #[test]
    fn few_chunks_are_unrolled_on_gpus() {
        let mut p = product([1024, 0, 0], 1);
        assert_eq!(plan(&p, &gpu()).chunks, 1);
        p.inner = 3072;
        assert_eq!(plan(&p, &gpu()).chunks, 3);
        p.inner = 12288;
        assert_eq!(plan(&p, &gpu()).chunks, 0);
        let cpu = Capabilities { kind: DeviceKind::Software, subgroup_size: 8, ..gpu() };
        assert_eq!((plan(&p, &cpu).chunks, plan(&p, &cpu).workgroup), (0, 8));
    }

    #[test]
    fn long_rows_and_odd_sizes_are_left_to_others() {
        assert!(serves(1, 1024, 4, &gpu()) && serves(8, 40, 16, &gpu()));
        assert!(!serves(9, 1024, 4, &gpu()) && !serves(1, 44, 16, &gpu()));
        let mut caps = gpu();
        caps.subgroup_ops.arithmetic = false;
        assert!(!serves(1, 1024, 4, &caps));
    }
}
