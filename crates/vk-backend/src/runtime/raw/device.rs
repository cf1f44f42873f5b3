//! A logical device with every feature that kernels use, and its compute queues.

use std::sync::{Arc, OnceLock};

use mlx_vulkan_core::{Error, Result, memory};
use vulkano::{
    Version,
    device::{
        Device, DeviceCreateInfo, DeviceExtensions, DeviceFeatures, DeviceProperties, Queue,
        QueueCreateInfo, QueueFlags,
        physical::{DriverId, PhysicalDevice, ShaderFloatControlsIndependence, SubgroupFeatures},
    },
    memory::{MemoryHeapFlags, MemoryPropertyFlags},
};

use super::{error, faults::Faults, instance, matrices};
use crate::{
    runtime::tile_costs::TileCosts,
    runtime::{
        capabilities::{Capabilities, DeviceKind, Fragments, Quirks, SubgroupOps},
        config::Config,
    },
};

/// A device, its queues and what is known of it.
pub(crate) struct RawDevice {
    /// vulkano's device.
    pub(crate) device: Arc<Device>,
    /// Compute queues, all of one family; streams take them in turn.
    pub(crate) queues: Vec<Arc<Queue>>,
    /// Family of the queues.
    pub(crate) family: u32,
    /// What the device can do.
    pub(crate) capabilities: Capabilities,
    /// What fails without the driver's doing.
    pub(super) faults: Arc<Faults>,
    /// The first failure that no later work survives.
    lost: OnceLock<Error>,
}

/// Why a device cannot be used, if it cannot.
pub(crate) fn unusable(device: &PhysicalDevice) -> Option<&'static str> {
    let features = device.supported_features();
    let missing = |has: bool, what: &'static str| (!has).then_some(what);
    missing(device.api_version() >= Version::V1_2, "Vulkan 1.2")
        .or(missing(features.buffer_device_address, "buffer device addresses"))
        .or(missing(features.timeline_semaphore, "timeline semaphores"))
        .or(missing(features.shader_int64, "64-bit integers in shaders"))
        .or(missing(features.storage_buffer8_bit_access, "8-bit storage"))
        .or(missing(features.storage_buffer16_bit_access, "16-bit storage"))
        .or(missing(compute_family(device).is_some(), "a compute queue"))
}

/// The family that streams run on: the universal one, which every driver has tuned and which allows
/// every transfer, else the first with compute.
fn compute_family(device: &PhysicalDevice) -> Option<u32> {
    let families = device.queue_family_properties();
    let score = |flags: QueueFlags| match flags.contains(QueueFlags::COMPUTE) {
        false => 0,
        true if flags.contains(QueueFlags::GRAPHICS) => 2,
        true => 1,
    };
    let best = families
        .iter()
        .enumerate()
        .max_by_key(|(i, f)| (score(f.queue_flags), std::cmp::Reverse(*i)));
    best.filter(|(_, f)| score(f.queue_flags) > 0).map(|(i, _)| i as u32)
}

impl RawDevice {
    /// Creates the device.
    pub(crate) fn new(physical: &Arc<PhysicalDevice>, config: &Config) -> Result<Self> {
        let family = compute_family(physical)
            .ok_or_else(|| Error::device("vulkan", "the device has no compute queue"))?;
        let count = physical.queue_family_properties()[family as usize].queue_count.clamp(1, 8);
        let extensions = extensions(physical);
        let info = DeviceCreateInfo {
            queue_create_infos: vec![QueueCreateInfo {
                queue_family_index: family,
                queues: vec![0.5; count as usize],
                ..QueueCreateInfo::default()
            }],
            enabled_extensions: extensions,
            enabled_features: features(physical, &extensions),
            ..DeviceCreateInfo::default()
        };
        let bfloat16 = matrices::has_bfloat16(physical);
        let (device, queues) = match bfloat16 {
            true => matrices::create(physical, info)?,
            false => {
                let made = Device::new(physical.clone(), info);
                let (device, queues) = made.map_err(|e| error::validated_error("vulkan", &e))?;
                (device, queues.collect())
            }
        };
        let mut capabilities = capabilities(physical, family, count, config);
        if device.enabled_features().cooperative_matrix && capabilities.memory_model {
            capabilities.fragments = matrices::fragments(physical, bfloat16);
            capabilities.tiles = TileCosts::load(&device, config).unwrap_or_default();
        }
        let (faults, lost) = (Faults::new(config), OnceLock::new());
        Ok(RawDevice { device, queues, family, capabilities, faults, lost })
    }

    /// The failure that ended this device, if one did.
    pub(crate) fn check(&self) -> Result<()> {
        self.lost.get().map_or(Ok(()), |e| Err(e.clone()))
    }

    /// The driver's refusal of a kernel, if that is asked for.
    ///
    /// # Errors
    /// What the driver would say.
    pub(crate) fn refusal(&self, kernel: &str) -> Result<()> {
        let refused = self.faults.pipeline(kernel);
        refused.map_or(Ok(()), |e| Err(Error::device("pipeline", format!("kernel {kernel}: {e}"))))
    }

    /// A stream's next command buffer cannot be begun.
    pub(crate) fn refuse_command_buffer(&self, stream: u16) {
        self.faults.refuse_command_buffer(stream);
    }

    /// The failure of a stream's next command buffer, if one is asked for.
    pub(crate) fn command_buffer_fault(&self, stream: u16) -> Option<vulkano::VulkanError> {
        self.faults.command_buffer(stream)
    }

    /// Ends the device: work that others count on was not handed over.
    pub(crate) fn lose(&self, op: &'static str, error: &vulkano::VulkanError) -> Error {
        let core = error::device_error(op, error);
        let _ = self.lost.set(core.clone());
        core
    }

    /// Core's error where `bytes` of memory could not be had, which says what to do if they are lacking.
    pub(crate) fn no_memory(&self, bytes: u64, error: &vulkano::VulkanError) -> Error {
        if !error::is_lack(error) {
            return self.fail("malloc", error);
        }
        Error::OutOfMemory {
            requested: bytes as usize,
            device: self.capabilities.name.clone(),
            hint: format!(
                "{} bytes are in use; free arrays, use a smaller batch, context or model, or lower other \
                 programs' use",
                memory::active_memory()
            ),
        }
    }

    /// Core's error of a failed step; a lost device stays lost.
    pub(crate) fn fail(&self, op: &'static str, error: &vulkano::VulkanError) -> Error {
        let core = error::device_error(op, error);
        if *error == vulkano::VulkanError::DeviceLost {
            let _ = self.lost.set(core.clone());
        }
        core
    }
}

/// Extensions that are used where they exist.
fn extensions(device: &PhysicalDevice) -> DeviceExtensions {
    let wanted = DeviceExtensions {
        khr_cooperative_matrix: true,
        ext_calibrated_timestamps: true,
        ext_memory_budget: true,
        ext_shader_atomic_float: true,
        khr_portability_subset: true,
        khr_shader_integer_dot_product: true,
        ext_subgroup_size_control: true,
        ..DeviceExtensions::empty()
    };
    wanted.intersection(device.supported_extensions())
}

/// Features that kernels use, as far as the device has them.
fn features(device: &PhysicalDevice, extensions: &DeviceExtensions) -> DeviceFeatures {
    let wanted = DeviceFeatures {
        buffer_device_address: true,
        timeline_semaphore: true,
        shader_float16: true,
        shader_int8: true,
        shader_int16: true,
        shader_int64: true,
        storage_buffer8_bit_access: true,
        storage_buffer16_bit_access: true,
        uniform_and_storage_buffer8_bit_access: true,
        uniform_and_storage_buffer16_bit_access: true,
        shader_buffer_int64_atomics: true,
        shader_subgroup_extended_types: true,
        scalar_block_layout: true,
        host_query_reset: true,
        vulkan_memory_model: true,
        vulkan_memory_model_device_scope: true,
        subgroup_size_control: true,
        compute_full_subgroups: true,
        shader_integer_dot_product: true,
        cooperative_matrix: extensions.khr_cooperative_matrix,
        shader_buffer_float32_atomic_add: extensions.ext_shader_atomic_float,
        ..DeviceFeatures::empty()
    };
    wanted.intersection(device.supported_features())
}

/// Multiprocessors of an NVIDIA GPU or compute units of an AMD one, where the driver tells their number.
fn compute_units(p: &DeviceProperties) -> Option<u32> {
    let of_arrays = || {
        let arrays = p.shader_engine_count? * p.shader_arrays_per_engine_count?;
        Some(arrays * p.compute_units_per_shader_array?)
    };
    let found = p.shader_sm_count.or(p.active_compute_unit_count).or_else(of_arrays);
    found.filter(|&units| units > 0)
}

/// Whether a driver's packHalf2x16 rounds to nearest even and keeps denormals, which Vulkan leaves open: of
/// these tests have seen it.
fn packs_nearest(driver: Option<DriverId>) -> bool {
    matches!(driver, Some(DriverId::NvidiaProprietary | DriverId::MesaLLVMpipe))
}

/// Whether arrays can live in memory that host and device share without loss: the largest
/// device-local heap is host-visible and the device is not a discrete GPU (whose mapped memory
/// the host reads at 0.03 GB/s).
fn is_unified(device: &PhysicalDevice) -> bool {
    let wanted = MemoryPropertyFlags::DEVICE_LOCAL
        | MemoryPropertyFlags::HOST_VISIBLE
        | MemoryPropertyFlags::HOST_COHERENT;
    let types = &device.memory_properties().memory_types;
    instance::kind(device) != DeviceKind::Discrete
        && types.iter().any(|t| t.property_flags.contains(wanted))
}

fn capabilities(
    device: &PhysicalDevice,
    family: u32,
    queues: u32,
    config: &Config,
) -> Capabilities {
    let (p, f) = (device.properties(), device.supported_features());
    let kind = instance::kind(device);
    let ops = p.subgroup_supported_operations.unwrap_or_default();
    let local = device.memory_properties().memory_heaps.iter();
    let local =
        local.filter(|h| h.flags.intersects(MemoryHeapFlags::DEVICE_LOCAL)).map(|h| h.size).max();
    let timestamps =
        device.queue_family_properties()[family as usize].timestamp_valid_bits.is_some();
    let software = kind == DeviceKind::Software;
    let subgroup_size = p.subgroup_size.unwrap_or(1).max(1);
    let asked_for = f.subgroup_size_control.then_some((p.min_subgroup_size, p.max_subgroup_size));
    let subgroup_sizes = match asked_for {
        Some((Some(least), Some(most))) => [least, most],
        _ => [subgroup_size; 2],
    };
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let units = compute_units(p);
    Capabilities {
        name: p.device_name.clone(),
        vendor_id: p.vendor_id,
        device_id: p.device_id,
        driver: format!(
            "{} {}",
            p.driver_name.as_deref().unwrap_or("unknown driver"),
            p.driver_info.as_deref().unwrap_or_default()
        ),
        api_version: device.api_version().to_string(),
        kind,
        subgroup_size,
        subgroup_sizes,
        subgroup_ops: SubgroupOps {
            arithmetic: ops.intersects(SubgroupFeatures::ARITHMETIC),
            ballot: ops.intersects(SubgroupFeatures::BALLOT),
            shuffle: ops.intersects(SubgroupFeatures::SHUFFLE),
        },
        float16: f.shader_float16,
        float16_denormals: f.shader_float16
            && p.shader_denorm_preserve_float16 == Some(true)
            && p.denorm_behavior_independence == Some(ShaderFloatControlsIndependence::All),
        packs_nearest: packs_nearest(p.driver_id),
        int64_atomics: f.shader_buffer_int64_atomics,
        float_atomics: f.shader_buffer_float32_atomic_add,
        memory_model: f.vulkan_memory_model,
        integer_dot_product: f.shader_integer_dot_product,
        integer_dot_product_accelerated: p
            .integer_dot_product4x8_bit_packed_signed_accelerated
            .unwrap_or(false),
        fragments: Fragments::default(),
        tiles: TileCosts::default(),
        shared_memory: p.max_compute_shared_memory_size,
        max_workgroup: p.max_compute_work_group_invocations.min(p.max_compute_work_group_size[0]),
        max_workgroup_size: p.max_compute_work_group_size,
        max_groups: p.max_compute_work_group_count,
        device_memory: local.unwrap_or_default(),
        max_buffer: p.max_buffer_size.unwrap_or(u64::from(p.max_storage_buffer_range)),
        unified: is_unified(device) && !config.force_discrete,
        timestamp_period: if timestamps { p.timestamp_period } else { 0.0 },
        compute_units_known: units.is_some(),
        compute_units: units.unwrap_or(if software { cores } else { 32 }),
        queues,
        quirks: Quirks { few_workgroups: software },
    }
}
