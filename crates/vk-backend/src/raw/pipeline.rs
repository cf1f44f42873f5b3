//! Compute pipelines, their one layout, and the driver's cache.

use std::sync::Arc;

use ash::vk;
use mlx_core::{Error, Result};
use vulkano::{
    VulkanObject,
    device::Device,
    pipeline::{
        ComputePipeline, PipelineLayout, PipelineShaderStageCreateInfo,
        cache::{PipelineCache, PipelineCacheCreateInfo},
        compute::ComputePipelineCreateInfo,
        layout::{PipelineLayoutCreateInfo, PushConstantRange},
    },
    shader::{ShaderModule, ShaderStages, SpecializationConstant},
};

use super::{error, recorder::PUSH_BYTES};

/// A compiled kernel with its specialization.
pub struct Pipeline {
    pipeline: Arc<ComputePipeline>,
    layout: Arc<PipelineLayout>,
    name: &'static str,
}

impl Pipeline {
    /// The kernel's name, for profiles.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn handle(&self) -> vk::Pipeline {
        self.pipeline.handle()
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

/// Compiles a kernel. `constants[i]` are the bits of specialization constant `i`.
pub(crate) fn create(
    module: &Arc<ShaderModule>,
    layout: &Arc<PipelineLayout>,
    cache: Option<&Arc<PipelineCache>>,
    name: &'static str,
    constants: &[u32],
    subgroup_size: Option<u32>,
) -> Result<Pipeline> {
    let failed =
        |what: String| Error::device("pipeline", format!("kernel {name} {constants:?}: {what}"));
    let known = module.specialization_constants();
    let values = (0u32..)
        .zip(constants)
        .filter_map(|(id, &bits)| Some((id, typed(known.get(&id)?, bits))))
        .map(|(id, value)| {
            Ok((id, value.ok_or_else(|| failed(format!("constant {id} is not 32 bits wide")))?))
        })
        .collect::<Result<_>>()?;
    let module = module.specialize(values).map_err(|e| failed(e.to_string()))?;
    let entry = module.entry_point("main").ok_or_else(|| failed("no entry point".into()))?;
    let mut stage = PipelineShaderStageCreateInfo::new(entry);
    stage.required_subgroup_size = subgroup_size;
    let info = ComputePipelineCreateInfo::stage_layout(stage, layout.clone());
    let device = vulkano::device::DeviceOwned::device(&**layout).clone();
    let pipeline =
        ComputePipeline::new(device, cache.cloned(), info).map_err(|e| failed(e.to_string()))?;
    Ok(Pipeline { pipeline, layout: layout.clone(), name })
}

fn typed(default: &SpecializationConstant, bits: u32) -> Option<SpecializationConstant> {
    use SpecializationConstant as S;
    Some(match default {
        S::Bool(_) => S::Bool(bits != 0),
        S::U32(_) => S::U32(bits),
        S::I32(_) => S::I32(bits as i32),
        S::F32(_) => S::F32(f32::from_bits(bits)),
        _ => return None,
    })
}
