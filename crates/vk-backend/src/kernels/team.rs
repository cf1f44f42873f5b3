//! How threads of a workgroup reduce together (`shaders/include/team.glsl`).

use crate::runtime::capabilities::Capabilities;

/// A device's way to reduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Team {
    /// With subgroup arithmetic; else through shared memory.
    pub subgroups: bool,
    /// Threads of a subgroup; 1 without subgroup arithmetic.
    pub subgroup: u32,
}

impl Team {
    /// The device's best way; `allowed` is a gate of subgroup arithmetic.
    pub(crate) fn of(caps: &Capabilities, allowed: bool) -> Team {
        let subgroups = allowed && caps.subgroup_ops.arithmetic && caps.subgroup_size > 1;
        Team { subgroups, subgroup: if subgroups { caps.subgroup_size } else { 1 } }
    }

    /// Threads of a workgroup near `wanted`: whole subgroups; one subgroup on software devices,
    /// whose barriers are slow.
    pub(crate) fn workgroup(&self, caps: &Capabilities, wanted: u32) -> u32 {
        let wanted = match (caps.is_software(), self.subgroups) {
            (true, true) => self.subgroup,
            (true, false) => 1,
            _ => wanted,
        };
        self.whole(caps, wanted)
    }

    /// Whole subgroups of `wanted` threads, or as many as a workgroup may have.
    pub(crate) fn whole(&self, caps: &Capabilities, wanted: u32) -> u32 {
        let most = caps.max_workgroup - caps.max_workgroup % self.subgroup;
        wanted.next_multiple_of(self.subgroup).min(most)
    }

    /// Teams of a workgroup that work on results of their own.
    pub(crate) fn teams(&self, workgroup: u32) -> u32 {
        if self.subgroups { workgroup / self.subgroup } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::capabilities::DeviceKind;

    #[test]
    fn workgroups_are_whole_subgroups() {
        let gpu = Capabilities { subgroup_size: 64, ..Capabilities::default() };
        let team = Team::of(&gpu, true);
        assert_eq!((team.workgroup(&gpu, 100), team.teams(128)), (128, 2));
        let gated = Team::of(&gpu, false);
        assert_eq!((gated.subgroup, gated.workgroup(&gpu, 100), gated.teams(100)), (1, 100, 1));
        let cpu = Capabilities { subgroup_size: 8, kind: DeviceKind::Software, ..gpu };
        assert_eq!(Team::of(&cpu, true).workgroup(&cpu, 256), 8);
        assert_eq!(Team::of(&cpu, false).workgroup(&cpu, 256), 1);
    }
}
