//! Looking at guards in memory that the host cannot reach: copies to mapped memory, submitted by
//! themselves and looked at when they have arrived. Nothing here waits, because whoever retires
//! memory may hold an encoder that the device's queue waits for.

use std::sync::Arc;

use mlx_vulkan_core::Result;

use super::guard::{Check, GUARD};
use crate::runtime::raw::{
    block::{Block, MappedRange, Usage},
    device::RawDevice,
    error,
    recorder::Recorder,
    timeline::Timeline,
};

/// Guards looked at by one submission.
const BATCH: usize = 256;

/// A check with the contents of both guards.
type Seen = (Check, [Vec<u8>; 2]);

/// The copies of one device.
pub(super) struct Copies {
    device: Arc<RawDevice>,
    recorder: Recorder,
    timeline: Arc<Timeline>,
    submitted: u64,
    results: Arc<Block>,
    in_flight: Vec<Check>,
    waiting: Vec<Check>,
}

impl Copies {
    /// No copies yet.
    pub(super) fn new(device: Arc<RawDevice>) -> Result<Self> {
        let failed = |e| error::validated_error("guard", &e);
        let bytes = BATCH as u64 * 2 * GUARD;
        let results = Block::new(&device, Usage::ReadBack, bytes);
        Ok(Copies {
            recorder: Recorder::new(&device).map_err(failed)?,
            timeline: Arc::new(Timeline::new(&device.device).map_err(failed)?),
            submitted: 0,
            results: Arc::new(results.map_err(|e| device.fail("guard", &e))?),
            in_flight: Vec::new(),
            waiting: Vec::new(),
            device,
        })
    }

    /// The submission to wait for, if there is one.
    pub(super) fn in_flight(&self) -> Option<(Arc<Timeline>, u64)> {
        (!self.in_flight.is_empty()).then(|| (self.timeline.clone(), self.submitted))
    }

    /// Adds guards to look at, returns those that have been copied, and starts the next copies.
    pub(super) fn advance(&mut self, more: Vec<Check>) -> Vec<Seen> {
        self.waiting.extend(more);
        let arrived = self.timeline.value().is_ok_and(|value| value >= self.submitted);
        if !arrived {
            return Vec::new();
        }
        let seen = self.collect();
        if !self.waiting.is_empty() && self.device.check().is_ok() {
            let rest = self.waiting.split_off(self.waiting.len().min(BATCH));
            self.in_flight = std::mem::replace(&mut self.waiting, rest);
            if let Err(error) = self.submit() {
                let error = self.device.fail("guard", &error);
                tracing::error!("guards are no longer looked at: {error}");
                self.waiting.append(&mut self.in_flight);
            }
        }
        seen
    }

    fn collect(&mut self) -> Vec<Seen> {
        let read = |at: usize| {
            let offset = at as u64 * GUARD;
            MappedRange::new(self.results.clone(), offset, GUARD as usize).bytes().to_vec()
        };
        let seen = self.in_flight.drain(..).enumerate();
        seen.map(|(i, check)| (check, [read(2 * i), read(2 * i + 1)])).collect()
    }

    fn submit(&mut self) -> Result<(), vulkano::VulkanError> {
        self.recorder.begin()?;
        for (i, from) in self.in_flight.iter().flat_map(|c| c.guard.buffer_offsets()).enumerate() {
            let to = (self.results.handle(), i as u64 * GUARD);
            self.recorder.copy(from, to, GUARD);
        }
        self.recorder.end()?;
        // The work that used the memory has finished, as its streams' semaphores told the host.
        let signal = (self.timeline.handle(), self.submitted + 1);
        self.recorder.submit(&self.device.queues[0], &[], signal)?;
        self.submitted += 1;
        Ok(())
    }
}
