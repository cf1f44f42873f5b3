//! Pipelines of modules that vulkano's `shader!` made.

use std::sync::Arc;

use mlx_vulkan_core::{Error, Result};
use vulkano::{
    VulkanObject,
    pipeline::{
        ComputePipeline, PipelineLayout, PipelineShaderStageCreateInfo, cache::PipelineCache,
        compute::ComputePipelineCreateInfo,
    },
    shader::{ShaderModule, SpecializationConstant},
};

use super::pipeline::Pipeline;
use crate::shaders::layouts::common::DEVICE_CONSTANT;

/// Compiles a module. `constants[i]` are the bits of specialization constant `i`, `device` those of the
/// device's.
///
/// # Errors
/// When vulkano or the driver refuses it.
pub(crate) fn create(
    module: &Arc<ShaderModule>,
    layout: &Arc<PipelineLayout>,
    cache: Option<&Arc<PipelineCache>>,
    name: &'static str,
    constants: &[u32],
    device: u32,
    subgroup_size: Option<u32>,
) -> Result<Pipeline> {
    let failed =
        |what: String| Error::device("pipeline", format!("kernel {name} {constants:?}: {what}"));
    let known = module.specialization_constants();
    let values = (0u32..)
        .zip(constants)
        .chain([(DEVICE_CONSTANT, &device)])
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
    Ok(Pipeline::new(pipeline.handle(), pipeline, layout, name))
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
