//! Everything that streams of one device share.

use std::sync::Arc;

use mlx_vulkan_core::Result;
use parking_lot::Mutex;
use vulkano::device::physical::PhysicalDevice;

use crate::runtime::{
    capabilities::Capabilities,
    config::Config,
    linked::Linked,
    memory::{
        allocation::{Allocation, MappedMemory, VkMemory},
        guards::Guards,
        pool::{Pool, User},
    },
    pipelines::Pipelines,
    raw::{block::Usage, device::RawDevice, error, timeline::Timeline},
    timer::Timer,
    trace,
    written::WrittenPipelines,
};
use mlx_vulkan_core::buffer::Buffer;

/// A device with its pools, pipelines and gates.
pub(crate) struct DeviceState {
    pub(crate) raw: Arc<RawDevice>,
    pub(crate) config: &'static Config,
    pub(crate) pipelines: Pipelines,
    pub(crate) linked: Linked,
    pub(crate) written: WrittenPipelines,
    arrays: Arc<Pool>,
    pub(crate) read_back: Arc<Pool>,
    /// Bytes around allocations that nobody may write; with `MLX_VK_DEBUG_GUARD`.
    pub(crate) guards: Option<Arc<Guards>>,
    /// The device's clock in the trace; with `MLX_VK_TRACE`.
    pub(crate) clock: Option<Arc<trace::Clock>>,
    /// The clock of the stream that last had the device to itself.
    occupant: Mutex<Option<Arc<Timer>>>,
    gates: Mutex<Vec<(Arc<Timeline>, u64)>>,
    /// Held while a buffer gets a copy on the other side, so that two threads do not both make one.
    pub(crate) transfers: Mutex<()>,
}

impl DeviceState {
    /// Opens a device.
    pub(crate) fn new(
        physical: &Arc<PhysicalDevice>,
        config: &'static Config,
    ) -> Result<Arc<Self>> {
        let raw = Arc::new(RawDevice::new(physical, config)?);
        let usage = if raw.capabilities.unified { Usage::Shared } else { Usage::Device };
        let guards = config.debug_guard.then(|| Guards::new(&raw)).transpose()?;
        let period = f64::from(raw.capabilities.timestamp_period);
        let clock = (config.trace.is_some() && period > 0.0)
            .then(|| trace::Clock::new(&raw.device, &raw.capabilities.name, period));
        Ok(Arc::new(DeviceState {
            pipelines: Pipelines::new(raw.clone(), config)?,
            linked: Linked::default(),
            written: WrittenPipelines::default(),
            arrays: Pool::new(raw.clone(), usage, guards.clone()),
            read_back: Pool::new(raw.clone(), Usage::ReadBack, guards.clone()),
            guards,
            clock,
            raw,
            config,
            occupant: Mutex::default(),
            gates: Mutex::default(),
            transfers: Mutex::default(),
        }))
    }

    /// What the device can do.
    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.raw.capabilities
    }

    /// Whether no other stream has dispatches in flight whose workgroups wait for each other; then none
    /// may begin one before this stream's are done, for those of two streams would wait forever.
    pub(crate) fn occupy(&self, timer: &Arc<Timer>) -> bool {
        let mut last = self.occupant.lock();
        let free = match &*last {
            Some(last) if last.stream == timer.stream => return true,
            Some(last) => last.has_reached(last.tick().value),
            None => true,
        };
        if free {
            *last = Some(timer.clone());
        }
        free
    }

    /// Memory for an array.
    pub(crate) fn allocate(&self, bytes: u64, user: User) -> Result<Arc<Allocation>> {
        self.arrays.allocate(bytes, user)
    }

    /// Looks at the guards of memory that has retired.
    pub(crate) fn check_guards(&self) {
        if let Some(guards) = &self.guards {
            guards.settle_if_idle();
        }
    }

    /// A buffer over an allocation: shared with the host where the device is unified.
    pub(crate) fn buffer(&self, allocation: Arc<Allocation>, nbytes: usize) -> Buffer {
        let device = Box::new(VkMemory::new(allocation.clone()));
        if self.capabilities().unified {
            Buffer::from_shared(nbytes, Box::new(MappedMemory::new(allocation, nbytes)), device)
        } else {
            Buffer::from_device(nbytes, device)
        }
    }

    /// A gate that the host opens once.
    pub(crate) fn gate(self: &Arc<Self>) -> Result<Gate> {
        let free = self.gates.lock().pop();
        let (timeline, last) = match free {
            Some(free) => free,
            None => {
                let timeline = Timeline::new(&self.raw.device);
                (Arc::new(timeline.map_err(|e| error::validated_error("fence", &e))?), 0)
            }
        };
        Ok(Gate { device: self.clone(), timeline, value: last + 1 })
    }
}

/// A point that submissions wait for and the host signals. An opened gate's semaphore serves the
/// next gate: its waits stay satisfied as its value only grows.
pub(crate) struct Gate {
    device: Arc<DeviceState>,
    /// What submissions wait for.
    pub(crate) timeline: Arc<Timeline>,
    /// The value that they wait for.
    pub(crate) value: u64,
}

impl Drop for Gate {
    /// Opens the gate.
    fn drop(&mut self) {
        if let Err(error) = self.timeline.signal(self.value) {
            let error = self.device.raw.fail("fence", &error);
            tracing::error!("{error}");
        }
        self.device.gates.lock().push((self.timeline.clone(), self.value));
    }
}
