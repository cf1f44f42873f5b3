//! Cooperative matrices: what vulkano 0.35 cannot ask for or turn on.
//!
//! It knows neither `VK_KHR_shader_bfloat16` nor the query of matrix sizes. Where a device has that
//! extension, the device is created here with the features that vulkano would have turned on, and
//! the new one beside them.

use std::{
    ffi::{CStr, CString, c_void},
    sync::Arc,
};

use ash::vk;
use mlx_vulkan_core::{Error, Result};
use vulkano::{
    Version, VulkanError, VulkanObject,
    device::{Device, DeviceCreateInfo, DeviceFeatures, Queue, physical::PhysicalDevice},
};

use super::error;
use crate::runtime::capabilities::{Fragment, Fragments};

const BFLOAT16_NAME: &CStr = c"VK_KHR_shader_bfloat16";
const BFLOAT16_FEATURES: i32 = 1_000_141_000;
/// `VK_COMPONENT_TYPE_BFLOAT16_KHR`.
const BFLOAT16_COMPONENT: i32 = 1_000_141_000;

/// `VkPhysicalDeviceShaderBfloat16FeaturesKHR`, which is newer than ash 0.38.
#[repr(C)]
struct Bfloat16Features {
    s_type: vk::StructureType,
    next: *mut c_void,
    scalars: vk::Bool32,
    dot_product: vk::Bool32,
    matrices: vk::Bool32,
}

impl Bfloat16Features {
    fn new() -> Self {
        Bfloat16Features {
            s_type: vk::StructureType::from_raw(BFLOAT16_FEATURES),
            next: std::ptr::null_mut(),
            scalars: vk::FALSE,
            dot_product: vk::FALSE,
            matrices: vk::FALSE,
        }
    }
}

/// Whether the device has matrices of bfloat16 (and so is new enough to have Vulkan 1.3).
pub(crate) fn has_bfloat16(device: &PhysicalDevice) -> bool {
    let matrices = device.supported_extensions().khr_cooperative_matrix;
    if !matrices || device.api_version() < Version::V1_3 || !names_extension(device) {
        return false;
    }
    let mut found = Bfloat16Features::new();
    let mut features = vk::PhysicalDeviceFeatures2 {
        p_next: (&raw mut found).cast(),
        ..vk::PhysicalDeviceFeatures2::default()
    };
    // SAFETY: the chain is one structure that the device knows, because it has its extension, and
    // both live until the call returns.
    unsafe {
        (device.instance().fns().v1_1.get_physical_device_features2)(
            device.handle(),
            &raw mut features,
        );
    }
    found.matrices == vk::TRUE && found.scalars == vk::TRUE
}

fn names_extension(device: &PhysicalDevice) -> bool {
    let list = device.instance().fns().v1_0.enumerate_device_extension_properties;
    let mut count = 0;
    // SAFETY: a null pointer asks for the number.
    let counted =
        unsafe { list(device.handle(), std::ptr::null(), &raw mut count, std::ptr::null_mut()) };
    let mut found = vec![vk::ExtensionProperties::default(); count as usize];
    // SAFETY: the vector has room for as many as `count` says.
    let listed =
        unsafe { list(device.handle(), std::ptr::null(), &raw mut count, found.as_mut_ptr()) };
    found.truncate(count as usize);
    counted == vk::Result::SUCCESS
        && listed == vk::Result::SUCCESS
        && found.iter().any(|e| e.extension_name_as_c_str() == Ok(BFLOAT16_NAME))
}

/// The fragments of the device's cooperative matrices that kernels use.
pub(crate) fn fragments(device: &PhysicalDevice, bfloat16: bool) -> Fragments {
    let ask = device
        .instance()
        .fns()
        .khr_cooperative_matrix
        .get_physical_device_cooperative_matrix_properties_khr;
    let mut count = 0;
    // SAFETY: the device has the extension, and a null pointer asks for the number.
    let counted = unsafe { ask(device.handle(), &raw mut count, std::ptr::null_mut()) };
    let mut found = vec![vk::CooperativeMatrixPropertiesKHR::default(); count as usize];
    // SAFETY: the vector has room for as many as `count` says.
    let listed = unsafe { ask(device.handle(), &raw mut count, found.as_mut_ptr()) };
    if counted != vk::Result::SUCCESS || listed != vk::Result::SUCCESS {
        return Fragments::default();
    }
    found.truncate(count as usize);
    let of = |component: vk::ComponentTypeKHR| {
        let fits = |p: &&vk::CooperativeMatrixPropertiesKHR<'_>| {
            let sums = [p.c_type, p.result_type];
            [p.a_type, p.b_type] == [component; 2]
                && sums == [vk::ComponentTypeKHR::FLOAT32; 2]
                && p.scope == vk::ScopeKHR::SUBGROUP
                // Kernels move eight halves or four floats at a time.
                && [p.m_size, p.n_size, p.k_size].iter().all(|s| matches!(s, 8 | 16))
        };
        let best = found.iter().filter(fits).max_by_key(|p| p.m_size * p.n_size * p.k_size);
        best.map(|p| Fragment { m: p.m_size, n: p.n_size, k: p.k_size })
    };
    Fragments {
        float16: of(vk::ComponentTypeKHR::FLOAT16),
        bfloat16: bfloat16
            .then(|| of(vk::ComponentTypeKHR::from_raw(BFLOAT16_COMPONENT)))
            .flatten(),
    }
}

/// Creates the device as vulkano would, with bfloat16 turned on.
pub(crate) fn create(
    physical: &Arc<PhysicalDevice>,
    info: DeviceCreateInfo,
) -> Result<(Arc<Device>, Vec<Arc<Queue>>)> {
    let names: Vec<CString> = info
        .enabled_extensions
        .into_iter()
        .filter(|(_, on)| *on)
        .filter_map(|(name, _)| CString::new(name).ok())
        .collect();
    let names: Vec<_> = names.iter().map(|n| n.as_ptr()).chain([BFLOAT16_NAME.as_ptr()]).collect();
    let queues: Vec<_> = info
        .queue_create_infos
        .iter()
        .map(|q| {
            vk::DeviceQueueCreateInfo::default()
                .queue_family_index(q.queue_family_index)
                .queue_priorities(&q.queues)
        })
        .collect();
    let mut atomics = vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT::default()
        .shader_buffer_float32_atomic_add(info.enabled_features.shader_buffer_float32_atomic_add);
    let mut bfloat16 = Bfloat16Features::new();
    (bfloat16.scalars, bfloat16.matrices) = (vk::TRUE, vk::TRUE);
    if info.enabled_extensions.ext_shader_atomic_float {
        bfloat16.next = (&raw mut atomics).cast();
    }
    let mut matrices = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default()
        .cooperative_matrix(info.enabled_features.cooperative_matrix);
    matrices.p_next = (&raw mut bfloat16).cast();
    let (core, mut first, mut second, mut third) = features(&info.enabled_features);
    third.p_next = (&raw mut matrices).cast();
    second.p_next = (&raw mut third).cast();
    first.p_next = (&raw mut second).cast();
    let mut core = vk::PhysicalDeviceFeatures2::default().features(core);
    core.p_next = (&raw mut first).cast();
    let mut create =
        vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
    create.p_next = (&raw const core).cast();
    let mut handle = vk::Device::null();
    // SAFETY: everything that `create` points to lives until the call returns; extensions and
    // features are ones that the device was asked about.
    let made = unsafe {
        (physical.instance().fns().v1_0.create_device)(
            physical.handle(),
            &raw const create,
            std::ptr::null(),
            &raw mut handle,
        )
    };
    made.result().map_err(|e| error::device_error("vulkan", &VulkanError::from(e)))?;
    if handle == vk::Device::null() {
        return Err(Error::device("vulkan", "the driver made no device"));
    }
    // SAFETY: the handle was just made from `physical` with what `info` says; bfloat16 is beyond
    // what vulkano knows, and it only ever sees modules without it.
    let (device, queues) = unsafe { Device::from_handle(physical.clone(), handle, info) };
    Ok((device, queues.collect()))
}

/// vulkano's features in Vulkan's structures, as many as `device.rs` asks for.
fn features(
    f: &DeviceFeatures,
) -> (
    vk::PhysicalDeviceFeatures,
    vk::PhysicalDeviceVulkan11Features<'static>,
    vk::PhysicalDeviceVulkan12Features<'static>,
    vk::PhysicalDeviceVulkan13Features<'static>,
) {
    let core = vk::PhysicalDeviceFeatures::default()
        .shader_int16(f.shader_int16)
        .shader_int64(f.shader_int64);
    let first = vk::PhysicalDeviceVulkan11Features::default()
        .storage_buffer16_bit_access(f.storage_buffer16_bit_access)
        .uniform_and_storage_buffer16_bit_access(f.uniform_and_storage_buffer16_bit_access);
    let second = vk::PhysicalDeviceVulkan12Features::default()
        .buffer_device_address(f.buffer_device_address)
        .timeline_semaphore(f.timeline_semaphore)
        .shader_float16(f.shader_float16)
        .shader_int8(f.shader_int8)
        .storage_buffer8_bit_access(f.storage_buffer8_bit_access)
        .uniform_and_storage_buffer8_bit_access(f.uniform_and_storage_buffer8_bit_access)
        .shader_buffer_int64_atomics(f.shader_buffer_int64_atomics)
        .shader_subgroup_extended_types(f.shader_subgroup_extended_types)
        .scalar_block_layout(f.scalar_block_layout)
        .host_query_reset(f.host_query_reset)
        .vulkan_memory_model(f.vulkan_memory_model)
        .vulkan_memory_model_device_scope(f.vulkan_memory_model_device_scope);
    let third = vk::PhysicalDeviceVulkan13Features::default()
        .subgroup_size_control(f.subgroup_size_control)
        .compute_full_subgroups(f.compute_full_subgroups)
        .shader_integer_dot_product(f.shader_integer_dot_product);
    (core, first, second, third)
}
