//! A ring of mapped chunks for what the host hands to the device: arguments and staging data.
//!
//! Bytes are written once, and the chunk is recycled when the last submission that reads from it has
//! finished; nothing is overwritten early. Which submission that is shows only later: an operation that waits
//! for another stream ends the batch in which its first slots were reserved, and goes on in the next one. So
//! a full chunk is kept until its ring is told ([`Ring::settle`]).

use std::{collections::VecDeque, sync::Arc};

use ash::vk;
use mlx_vulkan_core::memory;
use vulkano::VulkanError;

use crate::runtime::raw::{
    block::{Block, Usage},
    device::RawDevice,
    error,
};

/// Arguments are aligned to this: the largest vector that kernels load.
const ALIGN: u64 = 16;

/// No submission has a value as large.
const UNSETTLED: u64 = u64::MAX;

/// A slot in a chunk.
pub(crate) struct Slot {
    /// Address on the device.
    pub(crate) address: u64,
    /// Buffer and offset, for copies.
    pub(crate) buffer: (vk::Buffer, u64),
    block: Arc<Block>,
    offset: u64,
}

impl Slot {
    /// Writes `data` into the slot; it has at least as many bytes.
    pub(crate) fn write(&self, data: &[u8]) {
        self.block.write(self.offset, data);
    }
}

/// The ring.
pub(crate) struct Ring {
    device: Arc<RawDevice>,
    chunk_bytes: u64,
    at_once: usize,
    current: Option<(Arc<Block>, u64)>,
    /// Full chunks with the value of the last submission that reads from them, oldest first;
    /// [`UNSETTLED`] as long as that is not known.
    full: VecDeque<(Arc<Block>, u64)>,
}

impl Ring {
    /// An empty ring of chunks of `chunk_bytes`. When the first one is needed, `at_once` are made: a loop
    /// that goes on in the next chunk creates none.
    pub(crate) fn new(device: Arc<RawDevice>, chunk_bytes: u64, at_once: usize) -> Self {
        Ring { device, chunk_bytes, at_once, current: None, full: VecDeque::new() }
    }

    /// Room for `bytes`, which nothing overwrites before what reads them was settled and has finished;
    /// `reached` is the last finished submission.
    pub(crate) fn reserve(
        &mut self,
        bytes: u64,
        reached: impl FnOnce() -> u64,
    ) -> Result<Slot, VulkanError> {
        let fits = self.current.as_ref().is_some_and(|(block, at)| at + bytes <= block.bytes());
        if !fits {
            self.next_chunk(bytes, reached)?;
        }
        let (block, at) = self.current.as_mut().ok_or(VulkanError::Unknown)?;
        let offset = *at;
        *at = (offset + bytes).next_multiple_of(ALIGN);
        Ok(Slot {
            address: block.address() + offset,
            buffer: (block.handle(), offset),
            block: block.clone(),
            offset,
        })
    }

    /// What was reserved so far is read by submissions up to `last`.
    pub(crate) fn settle(&mut self, last: u64) {
        // Chunks become full in order, so these are the last ones.
        let unsettled = self.full.iter_mut().rev().take_while(|(_, value)| *value == UNSETTLED);
        unsettled.for_each(|(_, value)| *value = last);
    }

    /// Number of full chunks and the submission that frees the oldest.
    pub(crate) fn pressure(&self) -> (usize, u64) {
        (self.full.len(), self.full.front().map_or(0, |c| c.1))
    }

    /// Gives up all chunks; nothing that reads from one is in flight.
    pub(crate) fn rest(&mut self) {
        self.current = None;
        self.full = VecDeque::new();
    }

    fn next_chunk(&mut self, bytes: u64, reached: impl FnOnce() -> u64) -> Result<(), VulkanError> {
        let reached = if self.full.is_empty() { 0 } else { reached() };
        let found =
            self.full.iter().position(|(block, last)| *last <= reached && bytes <= block.bytes());
        let block = match found.and_then(|i| self.full.remove(i)) {
            Some((block, _)) => block,
            None => self.chunk(bytes.max(self.chunk_bytes))?,
        };
        match self.current.replace((block, 0)) {
            Some((before, _)) => self.full.push_back((before, UNSETTLED)),
            // Nothing reads from these yet. They are only made early: without memory there will be others.
            None => {
                let spare = (1..self.at_once).map_while(|_| self.chunk(self.chunk_bytes).ok());
                let spare: Vec<_> = spare.map(|block| (block, 0)).collect();
                self.full.extend(spare);
            }
        }
        Ok(())
    }

    /// A chunk from the driver; where it has no memory, once more without the cache.
    fn chunk(&self, bytes: u64) -> Result<Arc<Block>, VulkanError> {
        let block = || Block::new(&self.device, Usage::Upload, bytes);
        let made = match block() {
            Err(error) if error::is_lack(&error) => {
                memory::make_room();
                block()
            }
            made => made,
        };
        made.map(Arc::new)
    }
}
