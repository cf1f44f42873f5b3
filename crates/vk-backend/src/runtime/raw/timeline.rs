//! Timeline semaphores: the clocks of streams and the gates that the host opens.

use std::{sync::Arc, time::Duration};

use ash::vk;
use vulkano::{
    Validated, VulkanError, VulkanObject,
    device::Device,
    sync::semaphore::{
        Semaphore, SemaphoreCreateInfo, SemaphoreSignalInfo, SemaphoreType, SemaphoreWaitInfo,
    },
};

use super::ending::InDriver;

/// A counter that the device and the host raise and wait for.
pub(crate) struct Timeline(Semaphore);

impl Timeline {
    /// A counter at zero.
    pub(crate) fn new(device: &Arc<Device>) -> Result<Self, Validated<VulkanError>> {
        let info = SemaphoreCreateInfo {
            semaphore_type: SemaphoreType::Timeline,
            ..SemaphoreCreateInfo::default()
        };
        let _in_driver = InDriver::new();
        Semaphore::new(device.clone(), info).map(Timeline)
    }

    /// Vulkan's handle.
    pub(crate) fn handle(&self) -> vk::Semaphore {
        self.0.handle()
    }

    /// The value reached so far.
    pub(crate) fn value(&self) -> Result<u64, VulkanError> {
        let _in_driver = InDriver::new();
        // SAFETY: the semaphore is a timeline semaphore of a device that has them enabled.
        unsafe { self.0.counter_value_unchecked() }
    }

    /// Raises the counter from the host. `value` is larger than every value signalled before.
    pub(crate) fn signal(&self, value: u64) -> Result<(), VulkanError> {
        let _in_driver = InDriver::new();
        // SAFETY: timeline semaphore; only its gate's owner signals it, with rising values.
        unsafe {
            self.0.signal_unchecked(SemaphoreSignalInfo { value, ..SemaphoreSignalInfo::default() })
        }
    }

    /// Waits up to `timeout`; whether the value was reached.
    pub(crate) fn wait(&self, value: u64, timeout: Duration) -> Result<bool, VulkanError> {
        let info = SemaphoreWaitInfo { value, ..SemaphoreWaitInfo::default() };
        let _in_driver = InDriver::new();
        // SAFETY: timeline semaphore of a device that has them enabled.
        match unsafe { self.0.wait_unchecked(info, Some(timeout)) } {
            Ok(()) => Ok(true),
            Err(VulkanError::Timeout) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
