//! Failures on demand: what a driver reports when memory is out, the device is lost or its compiler fails,
//! reported at the very calls where drivers report it. Off unless `MLX_VK_DEBUG_MEMORY_LIMIT_MB`,
//! `MLX_VK_DEBUG_LOSE_DEVICE_AT` or `MLX_VK_DEBUG_REFUSE_KERNEL` is set, or a test asks for a failure
//! (`provoke.rs`).

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use ash::vk;
use vulkano::VulkanError;

use crate::runtime::config::Config;

/// No stream has this index.
const NONE: u32 = u32::MAX;

/// The failures of one device.
pub(super) struct Faults {
    /// Bytes that the driver gives.
    limit: Option<u64>,
    /// Bytes that it has given.
    held: AtomicU64,
    /// The submission from which on the device is lost, counted from 1.
    lost_at: Option<u64>,
    /// Submissions so far, if one is to fail.
    submissions: AtomicU64,
    /// The kernel that the driver's compiler refuses.
    refused: Option<String>,
    /// The stream whose next command buffer cannot be begun, or [`NONE`].
    unbegun: AtomicU32,
}

/// A share of the driver's memory, given back when dropped.
pub(super) struct Share {
    faults: Arc<Faults>,
    bytes: u64,
}

impl Faults {
    /// The failures that are asked for.
    pub(super) fn new(config: &Config) -> Arc<Faults> {
        Arc::new(Faults {
            limit: config.debug_memory_limit_mb.map(|limit| limit.saturating_mul(1 << 20)),
            held: AtomicU64::new(0),
            lost_at: config.debug_lose_device_at,
            submissions: AtomicU64::new(0),
            refused: config.debug_refuse_kernel.clone(),
            unbegun: AtomicU32::new(NONE),
        })
    }

    /// A share of `bytes`.
    ///
    /// # Errors
    /// When they are over the limit.
    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> Result<Share, VulkanError> {
        let share = Share { faults: self.clone(), bytes };
        let held = self.held.fetch_add(bytes, Relaxed).saturating_add(bytes);
        match self.limit {
            Some(limit) if held > limit => Err(VulkanError::OutOfDeviceMemory),
            _ => Ok(share),
        }
    }

    /// The result of the next submission, if it is not the driver that decides.
    pub(super) fn submission(&self) -> Option<vk::Result> {
        let at = self.lost_at?;
        let number = self.submissions.fetch_add(1, Relaxed) + 1;
        (number >= at).then_some(vk::Result::ERROR_DEVICE_LOST)
    }

    /// A stream's next command buffer cannot be begun.
    pub(super) fn refuse_command_buffer(&self, stream: u16) {
        self.unbegun.store(stream.into(), Relaxed);
    }

    /// The result of beginning a command buffer of a stream, if it is not the driver that decides.
    pub(super) fn command_buffer(&self, stream: u16) -> Option<VulkanError> {
        let refused = self.unbegun.compare_exchange(stream.into(), NONE, Relaxed, Relaxed);
        refused.ok().map(|_| VulkanError::OutOfDeviceMemory)
    }

    /// The result of compiling `kernel`, if it is not the driver that decides.
    pub(super) fn pipeline(&self, kernel: &str) -> Option<vk::Result> {
        let refused = self.refused.as_deref() == Some(kernel);
        refused.then_some(vk::Result::ERROR_UNKNOWN)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.faults.held.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_out_beyond_the_limit_until_some_is_given_back() {
        let faults = Faults::new(&Config { debug_memory_limit_mb: Some(2), ..Config::default() });
        let first = faults.take(1 << 20).unwrap();
        let second = faults.take(1 << 20).unwrap();
        assert_eq!(faults.take(1).err(), Some(VulkanError::OutOfDeviceMemory));
        drop(first);
        assert!(faults.take(1 << 20).is_ok(), "a refused share is not held");
        drop(second);
        assert!(Faults::new(&Config::default()).take(u64::MAX).is_ok());
    }

    #[test]
    fn a_device_is_lost_from_one_submission_on() {
        let faults = Faults::new(&Config { debug_lose_device_at: Some(3), ..Config::default() });
        let results: Vec<_> = (0..4).map(|_| faults.submission()).collect();
        let lost = Some(vk::Result::ERROR_DEVICE_LOST);
        assert_eq!(results, [None, None, lost, lost]);
        assert_eq!(Faults::new(&Config::default()).submission(), None);
    }

    #[test]
    fn one_command_buffer_is_refused() {
        let faults = Faults::new(&Config::default());
        assert_eq!(faults.command_buffer(0), None);
        faults.refuse_command_buffer(1);
        let results = [0, 1, 1].map(|stream| faults.command_buffer(stream));
        assert_eq!(results, [None, Some(VulkanError::OutOfDeviceMemory), None]);
    }

    #[test]
    fn one_kernel_is_refused() {
        let refused = Some("select".to_owned());
        let faults = Faults::new(&Config { debug_refuse_kernel: refused, ..Config::default() });
        let results = ["select", "take"].map(|kernel| faults.pipeline(kernel));
        assert_eq!(results, [Some(vk::Result::ERROR_UNKNOWN), None]);
    }
}
