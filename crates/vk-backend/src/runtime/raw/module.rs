//! Shader modules from committed SPIR-V.

use std::sync::Arc;

use mlx_vulkan_core::{Error, Result};
use vulkano::{
    device::Device,
    shader::{ShaderModule, ShaderModuleCreateInfo},
};

use super::error;

/// The module of a kernel's committed words.
#[cfg_attr(
    feature = "shader-macros",
    expect(dead_code, reason = "the macros bring loaders of their own")
)]
pub(crate) fn load(device: &Arc<Device>, name: &str, bytes: &[u8]) -> Result<Arc<ShaderModule>> {
    of_words(device, &words(name, bytes)?)
}

/// The module of words that a compiler made, or the linker from such.
pub(crate) fn of_words(device: &Arc<Device>, words: &[u32]) -> Result<Arc<ShaderModule>> {
    // SAFETY: the words are compiler output that spirv-val accepted when they were committed, or copies of
    // its functions with calls between them, which the validation layers check in tests.
    unsafe { ShaderModule::new(device.clone(), ShaderModuleCreateInfo::new(words)) }
        .map_err(|e| error::validated_error("pipeline", &e))
}

/// A module's bytes as words.
pub(crate) fn words(name: &str, bytes: &[u8]) -> Result<Vec<u32>> {
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
    if words.len() * 4 != bytes.len() || words.first() != Some(&0x0723_0203) {
        return Err(Error::device("pipeline", format!("kernel {name}: not SPIR-V")));
    }
    Ok(words)
}
