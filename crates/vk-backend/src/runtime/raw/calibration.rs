//! The device's timestamps beside the host's clock: VK_EXT_calibrated_timestamps, which vulkano
//! enables and loads but does not wrap.

use std::sync::Arc;

use ash::vk;
use vulkano::{
    VulkanObject,
    device::{Device, physical::PhysicalDevice},
};

/// One reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The device's timestamp, in its ticks.
    pub(crate) device: u64,
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub(crate) host: u64,
    /// Nanoseconds between both readings at most.
    pub(crate) deviation: u64,
}

/// Whether the device and CLOCK_MONOTONIC can be read together.
pub(crate) fn is_supported(physical: &PhysicalDevice) -> bool {
    if !physical.supported_extensions().ext_calibrated_timestamps {
        return false;
    }
    let fns = &physical.instance().fns().ext_calibrated_timestamps;
    let mut count = 0;
    // SAFETY: the physical device is the instance's and has the extension; a null array asks for
    // the number of domains.
    let asked = unsafe {
        (fns.get_physical_device_calibrateable_time_domains_ext)(
            physical.handle(),
            &mut count,
            std::ptr::null_mut(),
        )
    };
    if asked != vk::Result::SUCCESS {
        return false;
    }
    let mut domains = vec![vk::TimeDomainEXT::default(); count as usize];
    // SAFETY: as above; the array has room for `count` domains.
    let listed = unsafe {
        (fns.get_physical_device_calibrateable_time_domains_ext)(
            physical.handle(),
            &mut count,
            domains.as_mut_ptr(),
        )
    };
    let has = |domain| domains.contains(&domain);
    listed == vk::Result::SUCCESS
        && has(vk::TimeDomainEXT::DEVICE)
        && has(vk::TimeDomainEXT::CLOCK_MONOTONIC)
}

/// Reads both clocks of a device for which [`is_supported`] and whose extension is enabled.
pub(crate) fn read(device: &Arc<Device>) -> Option<Reading> {
    let domains = [vk::TimeDomainEXT::DEVICE, vk::TimeDomainEXT::CLOCK_MONOTONIC];
    let infos = domains.map(|domain| vk::CalibratedTimestampInfoEXT::default().time_domain(domain));
    let (mut times, mut deviation) = ([0u64; 2], 0);
    let fns = &device.fns().ext_calibrated_timestamps;
    // SAFETY: the extension is enabled and both domains are listed (the caller's promise); both
    // arrays have as many elements as the count says.
    let read = unsafe {
        (fns.get_calibrated_timestamps_ext)(
            device.handle(),
            infos.len() as u32,
            infos.as_ptr(),
            times.as_mut_ptr(),
            &mut deviation,
        )
    };
    (read == vk::Result::SUCCESS).then_some(Reading { device: times[0], host: times[1], deviation })
}
