//! Derivatives of attention: rows that a workgroup keeps and walks, and features that it sums.

use crate::{kernels::layouts::attention_vjp::STEP, runtime::capabilities::Capabilities};

/// How a device differentiates attention (`shaders/attention/vjp.comp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Rows that a workgroup keeps, and rows that it walks at a time.
    pub(crate) block: u32,
}

/// Chooses for a device. Small blocks run on any.
pub(crate) fn plan(caps: &Capabilities) -> Plan {
    let large = Plan { block: 64 };
    let fits = large.threads() <= caps.max_workgroup && large.shared() <= caps.shared_memory;
    if fits && !caps.is_software() { large } else { Plan { block: 32 } }
}

impl Plan {
    /// Threads along each side of a block: each has four rows.
    const fn lanes(self) -> u32 {
        self.block / 4
    }

    /// Threads of a workgroup.
    pub(crate) const fn threads(self) -> u32 {
        self.lanes() * self.lanes()
    }

    /// Bytes of shared memory: `slices` and `weights` of the shader.
    pub(crate) const fn shared(self) -> u32 {
        16 * (2 * STEP * self.lanes() + self.block * (self.lanes() + 1))
    }

    /// Quads of features that a thread sums of each row, where there are so many: a power of two, and no more
    /// than registers hold, so that a workgroup has 128 features at most.
    pub(crate) fn columns(self, width: usize) -> u32 {
        let quads = width.div_ceil(4).clamp(1, 32) as u32;
        quads.div_ceil(self.lanes()).next_power_of_two()
    }

    /// Workgroups that share the features of a block.
    pub(crate) fn shares(self, width: usize) -> usize {
        width.div_ceil(4 * (self.columns(width) * self.lanes()) as usize).max(1)
    }

    /// Blocks of that many rows.
    pub(crate) const fn blocks(self, rows: usize) -> usize {
        rows.div_ceil(self.block as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::capabilities::DeviceKind;

    #[test]
    fn blocks_are_small_where_the_device_is() {
        let gpu = Capabilities::default();
        assert_eq!(plan(&gpu).block, 64);
        assert_eq!(plan(&Capabilities { shared_memory: 16 << 10, ..gpu.clone() }).block, 32);
        assert_eq!(plan(&Capabilities { max_workgroup: 128, ..gpu.clone() }).block, 32);
        assert_eq!(plan(&Capabilities { kind: DeviceKind::Software, ..gpu }).block, 32);
    }

    #[test]
    fn wide_heads_are_shared() {
        let plan = Plan { block: 64 };
        let found =
            [1, 64, 80, 128, 129, 256].map(|width| (plan.columns(width), plan.shares(width)));
        assert_eq!(found, [(1, 1), (1, 1), (2, 1), (2, 1), (2, 2), (2, 2)]);
        assert_eq!((Plan { block: 32 }.columns(128), Plan { block: 32 }.shares(256)), (4, 2));
    }
}
