//! Timestamp queries for the profile.

use std::sync::Arc;

use ash::vk;
use vulkano::{
    Validated, VulkanError, VulkanObject,
    device::Device,
    query::{QueryPool, QueryPoolCreateInfo, QueryResultFlags, QueryType},
};

/// A pool of timestamps.
pub(crate) struct Queries(Arc<QueryPool>);

impl Queries {
    /// A pool of `count` timestamps.
    pub(crate) fn new(device: &Arc<Device>, count: u32) -> Result<Self, Validated<VulkanError>> {
        let info = QueryPoolCreateInfo {
            query_count: count,
            ..QueryPoolCreateInfo::query_type(QueryType::Timestamp)
        };
        QueryPool::new(device.clone(), info).map(Queries)
    }

    /// Vulkan's handle.
    pub(crate) fn handle(&self) -> vk::QueryPool {
        self.0.handle()
    }

    /// Number of timestamps.
    pub(crate) fn count(&self) -> u32 {
        self.0.query_count()
    }

    /// The first `count` timestamps, once the work that writes them has finished.
    pub(crate) fn read(&self, count: u32) -> Vec<u64> {
        let mut values = vec![0u64; count as usize];
        let read = count == 0
            || self.0.get_results(0..count, &mut values, QueryResultFlags::WAIT).unwrap_or(false);
        if read { values } else { Vec::new() }
    }
}
