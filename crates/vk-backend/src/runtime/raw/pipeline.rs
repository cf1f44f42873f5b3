//! Compute pipelines, their one layout, and the driver's cache.

use std::{any::Any, sync::Arc};

use ash::vk;
use mlx_vulkan_core::{Error, Result};
use vulkano::{
    VulkanObject,
    device::Device,
    pipeline::{
        PipelineLayout,
        cache::{PipelineCache, PipelineCacheCreateInfo},
        layout::{PipelineLayoutCreateInfo, PushConstantRange},
    },
    shader::ShaderStages,
};

use super::{error, recorder::PUSH_BYTES};

/// A compiled kernel with its specialization.
pub(crate) struct Pipeline {
    handle: vk::Pipeline,
    /// Destroys it.
    _owner: Arc<dyn Any + Send + Sync>,
    layout: Arc<PipelineLayout>,
    name: &'static str,
}

/// A pipeline that was made without vulkano's SPIR-V parser; destroyed with this.
struct RawPipeline {
    device: Arc<Device>,
    handle: vk::Pipeline,
}

impl Drop for RawPipeline {
    fn drop(&mut self) {
        let destroy = self.device.fns().v1_0.destroy_pipeline;
        // SAFETY: the handle is ours alone; pipelines outlive the streams that use them.
        unsafe { destroy(self.device.handle(), self.handle, std::ptr::null()) }
    }
}

impl Pipeline {
    pub(super) fn new(
        handle: vk::Pipeline,
        owner: Arc<dyn Any + Send + Sync>,
        layout: &Arc<PipelineLayout>,
        name: &'static str,
    ) -> Self {
        Pipeline { handle, _owner: owner, layout: layout.clone(), name }
    }

    /// The kernel's name, for profiles.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn handle(&self) -> vk::Pipeline {
        self.handle
    }

    pub(crate) fn layout(&self) -> vk::PipelineLayout {
        self.layout.handle()
    }
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pipeline({})", self.name)
    }
}

/// The layout that all kernels share: push constants and no descriptors.
pub(crate) fn layout(device: &Arc<Device>) -> Result<Arc<PipelineLayout>> {
    let info = PipelineLayoutCreateInfo {
        push_constant_ranges: vec![PushConstantRange {
            stages: ShaderStages::COMPUTE,
            offset: 0,
            size: PUSH_BYTES as u32,
        }],
        ..PipelineLayoutCreateInfo::default()
    };
    PipelineLayout::new(device.clone(), info).map_err(|e| error::validated_error("pipeline", &e))
}

/// The driver's cache, with what an earlier process saved.
pub(crate) fn cache(device: &Arc<Device>, initial_data: Vec<u8>) -> Result<Arc<PipelineCache>> {
    let info = PipelineCacheCreateInfo { initial_data, ..PipelineCacheCreateInfo::default() };
    // SAFETY: the data was checked to carry our checksum and this device's and driver's header, so
    // it is what this driver gave us; an empty one is always valid.
    unsafe { PipelineCache::new(device.clone(), info) }
        .map_err(|e| error::validated_error("pipeline", &e))
}

/// Compiles the words of a kernel. `constants[i]` are the bits of specialization constant `i`.
///
/// # Errors
/// When the driver refuses it.
pub(crate) fn create(
    words: &[u32],
    layout: &Arc<PipelineLayout>,
    cache: Option<&Arc<PipelineCache>>,
    name: &'static str,
    constants: &[u32],
    subgroup_size: Option<u32>,
) -> Result<Pipeline> {
    let failed =
        |e: vk::Result| Error::device("pipeline", format!("kernel {name} {constants:?}: {e}"));
    let device = vulkano::device::DeviceOwned::device(&**layout).clone();
    let fns = &device.fns().v1_0;
    let info = vk::ShaderModuleCreateInfo::default().code(words);
    let mut module = vk::ShaderModule::null();
    // SAFETY: the words are compiler output that spirv-val accepted when they were committed, or what linking
    // and specialization make of it, which the validation layers check in tests; whoever has them knows that
    // the device has what they declare (`module::lacks`), and planners know it of cooperative matrices.
    let made = unsafe {
        (fns.create_shader_module)(device.handle(), &info, std::ptr::null(), &raw mut module)
    };
    made.result().map_err(failed)?;
    // Entries of constants that the module lacks have no effect.
    let entries: Vec<_> = (0..constants.len() as u32)
        .map(|id| vk::SpecializationMapEntry { constant_id: id, offset: id * 4, size: 4 })
        .collect();
    let specialization = vk::SpecializationInfo::default()
        .map_entries(&entries)
        .data(bytemuck::cast_slice(constants));
    let mut required = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
        .required_subgroup_size(subgroup_size.unwrap_or_default());
    let mut stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(c"main")
        .specialization_info(&specialization);
    if subgroup_size.is_some() {
        stage = stage.push_next(&mut required);
    }
    let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout.handle());
    let mut handle = vk::Pipeline::null();
    let cache = cache.map_or(vk::PipelineCache::null(), |c| c.handle());
    // SAFETY: module, layout, specialization and the cache, which synchronizes itself, live until
    // the call returns; the layout has the kernel's push constants and no descriptors.
    let made = unsafe {
        (fns.create_compute_pipelines)(
            device.handle(),
            cache,
            1,
            &info,
            std::ptr::null(),
            &raw mut handle,
        )
    };
    // SAFETY: ours, and no pipeline needs its module once it is made.
    unsafe { (fns.destroy_shader_module)(device.handle(), module, std::ptr::null()) };
    made.result().map_err(failed)?;
    let owner = Arc::new(RawPipeline { device: device.clone(), handle });
    Ok(Pipeline::new(handle, owner, layout, name))
}
