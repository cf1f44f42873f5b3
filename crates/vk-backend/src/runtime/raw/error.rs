//! From Vulkan's results to core's errors.

use mlx_vulkan_core::Error;
use vulkano::{Validated, VulkanError};

/// What to do about a lost device.
pub(crate) const LOST: &str = "the device was lost: the driver was reset or a kernel ran too long. \
     The CPU backend and other devices still work; restart the process to use this device again. \
     MLX_VK_SERIALIZE=1 and MLX_VK_VALIDATION=1 help to find the cause";

/// Whether the driver has no memory for something now: with less in use the same call may succeed.
pub(crate) fn is_lack(error: &VulkanError) -> bool {
    matches!(
        error,
        VulkanError::OutOfDeviceMemory | VulkanError::OutOfHostMemory | VulkanError::TooManyObjects
    )
}

/// A failed step as core's error.
pub(crate) fn device_error(op: &'static str, error: &VulkanError) -> Error {
    match error {
        VulkanError::DeviceLost => Error::device(op, LOST),
        VulkanError::OutOfHostMemory => Error::OutOfMemory {
            requested: 0,
            device: "the host".into(),
            hint: "free arrays or add memory".into(),
        },
        other => Error::device(op, format!("Vulkan reports: {other}")),
    }
}

/// The same for calls that vulkano validates.
pub(crate) fn validated_error(op: &'static str, error: &Validated<VulkanError>) -> Error {
    match error {
        Validated::Error(error) => device_error(op, error),
        Validated::ValidationError(error) => {
            Error::device(op, format!("invalid Vulkan usage: {error}"))
        }
    }
}
