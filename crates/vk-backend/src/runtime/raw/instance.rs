//! The instance and the devices it shows. No loader or no driver is an error, not a panic.

use std::sync::Arc;

use mlx_vulkan_core::{Error, Result};
use vulkano::{
    Version, VulkanLibrary,
    device::physical::{PhysicalDevice, PhysicalDeviceType},
    instance::{
        Instance, InstanceCreateFlags, InstanceCreateInfo, InstanceExtensions,
        debug::ValidationFeatureEnable,
    },
};

use super::{debug, error};
use crate::runtime::{capabilities::DeviceKind, config::Config};

/// Loads Vulkan and lists its devices in the driver's order.
pub(crate) fn physical_devices(config: &Config) -> Result<Vec<Arc<PhysicalDevice>>> {
    let library = VulkanLibrary::new().map_err(|e| {
        Error::device(
            "vulkan",
            format!("no Vulkan loader ({e}); install it, e.g. `apt-get install libvulkan1`"),
        )
    })?;
    let instance = create(library, config)?;
    let devices =
        instance.enumerate_physical_devices().map_err(|e| error::device_error("vulkan", &e))?;
    Ok(devices.collect())
}

fn create(library: Arc<VulkanLibrary>, config: &Config) -> Result<Arc<Instance>> {
    let mut info = InstanceCreateInfo {
        flags: InstanceCreateFlags::ENUMERATE_PORTABILITY,
        application_name: Some("mlx".into()),
        engine_name: Some("mlx-vulkan".into()),
        max_api_version: Some(Version::V1_3),
        enabled_extensions: InstanceExtensions {
            khr_portability_enumeration: true,
            khr_get_physical_device_properties2: true,
            ..InstanceExtensions::empty()
        }
        .intersection(library.supported_extensions()),
        ..InstanceCreateInfo::default()
    };
    if config.validation {
        add_validation(&library, &mut info)?;
    }
    let instance = Instance::new(library, info).map_err(|e| match e {
        vulkano::Validated::Error(vulkano::VulkanError::IncompatibleDriver) => Error::device(
            "vulkan",
            "no Vulkan driver; install your GPU's, or mesa-vulkan-drivers for a software one",
        ),
        other => error::validated_error("vulkan", &other),
    })?;
    if config.validation {
        debug::listen(&instance)?;
    }
    Ok(instance)
}

fn add_validation(library: &VulkanLibrary, info: &mut InstanceCreateInfo) -> Result<()> {
    const LAYER: &str = "VK_LAYER_KHRONOS_validation";
    let mut layers = library.layer_properties().map_err(|e| error::device_error("vulkan", &e))?;
    if !layers.any(|layer| layer.name() == LAYER) {
        let message = "MLX_VK_VALIDATION=1 needs the Khronos layer (vulkan-validationlayers)";
        return Err(Error::device("vulkan", message));
    }
    info.enabled_layers.push(LAYER.into());
    info.enabled_extensions.ext_debug_utils = true;
    info.enabled_extensions.ext_validation_features = true;
    info.enabled_validation_features.push(ValidationFeatureEnable::SynchronizationValidation);
    info.debug_utils_messengers.push(debug::messenger());
    Ok(())
}

/// The device's kind.
pub(crate) fn kind(device: &PhysicalDevice) -> DeviceKind {
    match device.properties().device_type {
        PhysicalDeviceType::DiscreteGpu => DeviceKind::Discrete,
        PhysicalDeviceType::IntegratedGpu => DeviceKind::Integrated,
        PhysicalDeviceType::VirtualGpu => DeviceKind::Virtual,
        PhysicalDeviceType::Cpu => DeviceKind::Software,
        _ => DeviceKind::Other,
    }
}
