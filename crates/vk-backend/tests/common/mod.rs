//! What the tests of this crate share.

use mlx_vulkan_core::{Device, backend, stream::DeviceType, with_device};

/// Runs `test` with operations going to the GPU.
///
/// # Panics
/// Where there is no usable Vulkan device, or the validation layer reports an error.
pub(crate) fn with_gpu(test: impl FnOnce()) {
    mlx_vulkan_vk::install();
    assert!(
        backend::is_available(DeviceType::Gpu),
        "tests need a Vulkan device: run them with `cargo xtask test`"
    );
    with_device(Device::GPU, test).unwrap();
    assert_eq!(
        mlx_vulkan_vk::backend::validation_errors(),
        0,
        "the validation layer reported errors"
    );
}
