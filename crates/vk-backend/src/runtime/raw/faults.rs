//! Failures on demand: what a driver reports when memory is out or the device is lost, reported at
//! the very calls where drivers report it. Off unless `MLX_VK_DEBUG_MEMORY_LIMIT_MB` or
//! `MLX_VK_DEBUG_LOSE_DEVICE_AT` is set.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ash::vk;
use vulkano::VulkanError;

use crate::runtime::config::Config;

/// Bytes that the driver has given to this process, over all devices.
static HELD: AtomicU64 = AtomicU64::new(0);
/// Submissions so far, over all devices.
static SUBMISSIONS: AtomicU64 = AtomicU64::new(0);

/// A share of the driver's memory, given back when dropped.
pub(super) struct Share(u64);

impl Share {
    /// A share of `bytes`.
    ///
    /// # Errors
    /// When they are over the limit.
    pub(super) fn take(bytes: u64) -> Result<Self, VulkanError> {
        let share = Share(bytes);
        let held = HELD.fetch_add(bytes, Relaxed).saturating_add(bytes);
        match Config::get().debug_memory_limit_mb {
            Some(limit) if held > limit.saturating_mul(1 << 20) => {
                Err(VulkanError::OutOfDeviceMemory)
            }
            _ => Ok(share),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0, Relaxed);
    }
}

/// The result of the next submission, if it is not the driver that decides.
pub(super) fn submission() -> Option<vk::Result> {
    let at = Config::get().debug_lose_device_at?;
    let number = SUBMISSIONS.fetch_add(1, Relaxed) + 1;
    (number >= at).then_some(vk::Result::ERROR_DEVICE_LOST)
}
