//! How rows are shared out among threads where norms are differentiated.

use crate::kernels::{Capabilities, reduce::planner::wanted_groups, team::Team};

/// Quads of a row that a lane keeps in registers at most, with as many of the cotangent, of the weight and of
/// each sum.
const MOST_KEPT: u32 = 8;
/// The same where a row is a subgroup's: many such rows are to be under way at a time.
const MOST_KEPT_NARROW: u32 = 6;

/// How a device differentiates rows (`shaders/norm/vjp.comp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Threads of a workgroup.
    pub(crate) workgroup: u32,
    /// Quads of a row that a lane keeps; 1 where rows are long.
    pub(crate) kept: u32,
    /// A row is a subgroup's; else the workgroup's.
    pub(crate) narrow: bool,
    /// Rows are read again for each pass, and sums over them are in memory.
    pub(crate) long: bool,
    /// Workgroups.
    pub(crate) groups: u32,
}

/// Chooses for rows of `width` elements, and for sums over them if `parameters` have derivatives.
pub(crate) fn plan(
    rows: u64,
    width: u32,
    parameters: bool,
    team: Team,
    caps: &Capabilities,
) -> Plan {
    let quads = width.div_ceil(4);
    let narrow = team.subgroups && quads <= MOST_KEPT_NARROW * team.subgroup;
    // Barriers are slow on software devices, but with one subgroup what several share would be untried.
    let wanted = match (caps.is_software(), narrow) {
        (true, _) => 2 * team.subgroup,
        (false, true) => 256,
        (false, false) => quads.div_ceil(2).clamp(32, 256),
    };
    let workgroup = team.whole(caps, wanted);
    let lanes = if narrow { team.subgroup } else { workgroup };
    let kept = quads.div_ceil(lanes).max(1);
    let long = kept > MOST_KEPT;
    let at_once = u64::from(if narrow { workgroup / lanes } else { 1 });
    let groups = match parameters {
        // A workgroup's sums cost as much as a row or more, so it has several rows.
        true => {
            let most = wanted_groups(caps).min(rows.max(1)) as u32;
            caps.groups_1d(rows, (4 * at_once).max(8)).min(most)
        }
        false => caps.groups_1d(rows, at_once),
    };
    Plan { workgroup, kept: if long { 1 } else { kept }, narrow, long, groups }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::capabilities::DeviceKind;

    #[test]
    fn rows_are_kept_where_they_fit() {
        let gpu = Capabilities { compute_units: 132, subgroup_size: 32, ..Capabilities::default() };
        let plan =
            |rows, width, parameters| plan(rows, width, parameters, Team::of(&gpu, true), &gpu);
        let small = plan(8192, 576, true);
        assert_eq!((small.narrow, small.workgroup, small.kept, small.groups), (true, 256, 5, 256));
        let frozen = plan(8192, 576, false);
        assert_eq!((frozen.kept, frozen.groups), (5, 1024));
        let wide = plan(2048, 4096, true);
        assert_eq!((wide.narrow, wide.workgroup, wide.kept, wide.groups), (false, 256, 4, 256));
        let long = plan(3, 131_072, true);
        assert_eq!((long.long, long.workgroup, long.kept, long.groups), (true, 256, 1, 1));
        let many = plan(1 << 24, 128, true);
        assert_eq!((many.kept, many.groups), (1, 1056));
    }

    #[test]
    fn software_has_two_teams() {
        let mut cpu = Capabilities {
            compute_units: 2,
            subgroup_size: 8,
            kind: DeviceKind::Software,
            ..Capabilities::default()
        };
        cpu.quirks.few_workgroups = true;
        let of = |width, allowed| {
            let plan = plan(1000, width, true, Team::of(&cpu, allowed), &cpu);
            (plan.narrow, plan.long, plan.workgroup, plan.kept, plan.groups)
        };
        assert_eq!(of(7, true), (true, false, 16, 1, 4));
        assert_eq!(of(400, true), (false, false, 16, 7, 4));
        assert_eq!(of(576, true), (false, true, 16, 1, 4));
        assert_eq!(of(7, false), (false, false, 2, 1, 4));
    }
}
