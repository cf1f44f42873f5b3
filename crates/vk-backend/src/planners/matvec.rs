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
}

/// Sizes of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// Rows of `x`.
    pub rows: u32,
    /// Results of every matrix.
    pub outputs: [u32; 3],
    /// Matrices that a team works on at once: 2 when one gates the other.
    pub sets: u32,
}

/// Bytes of shared memory that a workgroup may hold its rows in; more would leave no room for a second workgroup.
const SHARED: u64 = 32 << 10;

/// Whether the kernel serves such a product of elements of `size` bytes on this device.
pub fn serves(rows: usize, inner: usize, bits: usize, size: usize, caps: &Capabilities) -> bool {
    let chunk = if bits >= 16 { 8 } else { 32 };
    // The rows, and the sums of their chunks.
    let row = (inner * size + if bits >= 16 { 0 } else { inner / 32 * 8 }) as u64;
    Team::of(caps, true).subgroups
        && caps.subgroup_ops.shuffle
        && (1..=MOST_ROWS).contains(&rows)
        && inner >= chunk
        && inner.is_multiple_of(chunk)
        && row * rows as u64 <= SHARED.min(u64::from(caps.shared_memory) - 1024)
}

/// Chooses the variant.
pub fn plan(p: &Product, caps: &Capabilities) -> Plan {
    let team = Team::of(caps, true);
    let total: u32 = p.outputs.iter().sum::<u32>() / p.sets;
    let divides = |n: u32| p.outputs.iter().all(|o| o.is_multiple_of(n));
    let at_once = |n: u32| n * p.rows * p.sets;
    let most = if caps.is_software() {
        // Software devices reuse what they loaded of the rows.
        [8, 4, 2].into_iter().find(|&n| at_once(n) <= 8)
    } else {
        // Measured on an H200: four results a team read faster, as long as there are teams enough to
        // fill the device, and few results are best made one by one.
        let fills = |n: u32| total / n >= caps.compute_units * 8;
        [4, 2].into_iter().find(|&n| fills(n) && at_once(n) <= 16 && n * p.sets <= 4)
    };
    let most = most.unwrap_or(1);
    let outputs = [8, 4, 2].into_iter().find(|&n| n <= most && divides(n)).unwrap_or(1);
    Plan { subgroup: team.subgroup, workgroup: team.workgroup(caps, 256), outputs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::DeviceKind;

    fn gpu() -> Capabilities {
        Capabilities { compute_units: 132, subgroup_size: 32, ..Capabilities::default() }
    }

    fn product(outputs: [u32; 3], sets: u32) -> Product {
        Product { rows: 1, outputs, sets }
    }

    #[test]
    fn many_results_are_shared_by_a_team_and_few_fill_the_device() {
        let of = |outputs, sets| plan(&product(outputs, sets), &gpu()).outputs;
        assert_eq!(of([151_936, 0, 0], 1), 4);
        assert_eq!(of([2048, 1024, 1024], 1), 2);
        assert_eq!(of([3072, 3072, 0], 2), 2);
        assert_eq!(of([1024, 0, 0], 1), 1);
        assert_eq!(of([15_001, 0, 0], 1), 1, "a team's results are of one matrix");
    }

    #[test]
    fn software_devices_make_many_results_at_once() {
        let cpu = Capabilities { kind: DeviceKind::Software, subgroup_size: 8, ..gpu() };
        let p = product([1024, 0, 0], 1);
        assert_eq!(plan(&p, &cpu), Plan { subgroup: 8, workgroup: 8, outputs: 8 });
        assert_eq!(plan(&Product { rows: 8, ..p }, &cpu).outputs, 1);
    }

    #[test]
    fn long_rows_and_odd_sizes_are_left_to_others() {
        assert!(serves(1, 1024, 4, 2, &gpu()) && serves(8, 40, 16, 2, &gpu()));
        assert!(!serves(9, 1024, 4, 2, &gpu()) && !serves(1, 44, 16, 2, &gpu()));
        assert!(serves(1, 12288, 4, 2, &gpu()) && !serves(2, 12288, 4, 2, &gpu()));
        let mut caps = gpu();
        caps.subgroup_ops.arithmetic = false;
        assert!(!serves(1, 1024, 4, 2, &caps));
    }
}
