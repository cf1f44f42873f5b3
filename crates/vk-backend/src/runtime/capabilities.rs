//! What a device can do, as plain data: planners take it and are tested without a GPU.

use crate::runtime::tile_costs::TileCosts;

/// PCI ids of vendors whose devices are treated apart.
pub(crate) mod vendor {
    pub(crate) const INTEL: u32 = 0x8086;
    pub(crate) const NVIDIA: u32 = 0x10de;
}

/// Kind of a device, from Vulkan's device type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the host's memory.
    Integrated,
    /// A virtual GPU.
    Virtual,
    /// A driver that computes on the CPU (lavapipe, SwiftShader).
    Software,
    /// Anything else.
    Other,
}

/// Defects of drivers that kernels and planners have to step around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quirks {
    /// Many small workgroups cost far more than few that loop (software drivers).
    pub few_workgroups: bool,
}

/// Subgroup operations beyond `basic`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubgroupOps {
    /// `subgroupAdd` and its kin.
    pub arithmetic: bool,
    /// `subgroupBallot` and its kin.
    pub ballot: bool,
    /// `subgroupShuffle`.
    pub shuffle: bool,
}

/// Sizes of a cooperative matrix product: (m, k) times (k, n).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Rows of the result.
    pub m: u32,
    /// Columns of the result.
    pub n: u32,
    /// Inner size.
    pub k: u32,
}

/// Fragments that a subgroup multiplies, with float32 sums; none where the device cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fragments {
    /// Of float16 operands.
    pub float16: Option<Fragment>,
    /// Of bfloat16 operands.
    pub bfloat16: Option<Fragment>,
}

/// Capabilities of one device. Filled once; [`Capabilities::default`] is a modest GPU for tests.
#[derive(Debug, Clone, PartialEq)]
pub struct Capabilities {
    /// Name that the driver gives the device.
    pub name: String,
    /// PCI vendor id.
    pub vendor_id: u32,
    /// PCI device id.
    pub device_id: u32,
    /// Name and version of the driver.
    pub driver: String,
    /// Vulkan version, such as `1.3.250`.
    pub api_version: String,
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Threads of a subgroup.
    pub subgroup_size: u32,
    /// The smallest and the largest that a kernel may ask for.
    pub subgroup_sizes: [u32; 2],
    /// Subgroup operations in compute shaders.
    pub subgroup_ops: SubgroupOps,
    /// Arithmetic on 16-bit floats.
    pub float16: bool,
    /// It can keep subnormal ones, whatever is chosen for other floats.
    pub float16_denormals: bool,
    /// Its instruction that packs halves rounds to nearest even and keeps subnormal ones.
    pub packs_nearest: bool,
    /// 64-bit atomics in buffers.
    pub int64_atomics: bool,
    /// Atomic additions of float32 in buffers.
    pub float_atomics: bool,
    /// The Vulkan memory model.
    pub memory_model: bool,
    /// Integer dot products of four signed bytes.
    pub integer_dot_product: bool,
    /// They are faster than what they are made of.
    pub integer_dot_product_accelerated: bool,
    /// What of it kernels use.
    pub fragments: Fragments,
    /// What tiles of products on cooperative matrices take, from a table or measured (`tuning`).
    pub tiles: TileCosts,
    /// Bytes of shared memory per workgroup.
    pub shared_memory: u32,
    /// Threads per workgroup.
    pub max_workgroup: u32,
    /// Threads of a workgroup along each axis.
    pub max_workgroup_size: [u32; 3],
    /// Workgroups along each axis of the grid.
    pub max_groups: [u32; 3],
    /// Bytes of device-local memory.
    pub device_memory: u64,
    /// Largest buffer.
    pub max_buffer: u64,
    /// Arrays live in memory that host and device share.
    pub unified: bool,
    /// Nanoseconds per timestamp tick; 0 when there are no timestamps.
    pub timestamp_period: f32,
    /// Compute units, or what the driver says of them; an estimate where it does not.
    pub compute_units: u32,
    /// Whether the driver says how many there are; otherwise the number is a guess.
    pub compute_units_known: bool,
    /// Queues that streams are spread over.
    pub queues: u32,
    /// Known defects.
    pub quirks: Quirks,
}

impl Default for Capabilities {
    fn default() -> Self {
        Capabilities {
            name: "test device".into(),
            vendor_id: 0,
            device_id: 0,
            driver: "none".into(),
            api_version: "1.2.0".into(),
            kind: DeviceKind::Discrete,
            subgroup_size: 32,
            subgroup_sizes: [32, 32],
            subgroup_ops: SubgroupOps { arithmetic: true, ballot: true, shuffle: true },
            float16: true,
            float16_denormals: false,
            packs_nearest: false,
            int64_atomics: false,
            float_atomics: false,
            memory_model: true,
            integer_dot_product: false,
            integer_dot_product_accelerated: false,
            fragments: Fragments::default(),
            tiles: TileCosts::default(),
            shared_memory: 32 << 10,
            max_workgroup: 1024,
            max_workgroup_size: [1024, 1024, 64],
            max_groups: [65_535; 3],
            device_memory: 8 << 30,
            max_buffer: 4 << 30,
            unified: false,
            timestamp_period: 1.0,
            compute_units: 32,
            compute_units_known: false,
            queues: 1,
            quirks: Quirks::default(),
        }
    }
}

impl Capabilities {
    /// Whether the device computes on the CPU.
    pub fn is_software(&self) -> bool {
        self.kind == DeviceKind::Software
    }

    /// Workgroups of a 1-D kernel over `items` of which a workgroup handles `per_group` at a time.
    ///
    /// Kernels loop over the rest (`GRID_LOOP`), so the number never has to cover everything: GPUs
    /// get enough to fill every compute unit several times over, software devices about two per core.
    pub fn groups_1d(&self, items: u64, per_group: u64) -> u32 {
        let needed = items.div_ceil(per_group.max(1)).max(1);
        let most = if self.quirks.few_workgroups {
            u64::from(self.compute_units) * 2
        } else {
            u64::from(self.max_groups[0]).min(1 << 22)
        };
        needed.min(most) as u32
    }

    /// Threads per workgroup for elementwise kernels: a power of two that the device allows.
    pub fn elementwise_workgroup(&self) -> u32 {
        let wanted = if self.quirks.few_workgroups { 64 } else { 256 };
        wanted.min(self.max_workgroup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_cover_or_loop_but_never_exceed_the_device() {
        let gpu = Capabilities::default();
        assert_eq!(gpu.groups_1d(0, 256), 1);
        assert_eq!(gpu.groups_1d(257, 256), 2);
        assert_eq!(gpu.groups_1d(u64::MAX, 256), 65_535);
        let mut cpu = Capabilities { kind: DeviceKind::Software, compute_units: 2, ..gpu };
        cpu.quirks.few_workgroups = true;
        assert_eq!(cpu.groups_1d(1 << 30, 256), 4);
        assert_eq!(cpu.groups_1d(10, 256), 1);
    }
}
