//! A ring of mapped chunks for what the host hands to the device: arguments and staging data.
//!
//! Bytes are written once, read by one submission, and the chunk is recycled when the last
//! submission that read from it has finished; nothing is overwritten early.

use std::{collections::VecDeque, sync::Arc};

use ash::vk;
use vulkano::VulkanError;

use crate::runtime::raw::{
    block::{Block, Usage},
    device::RawDevice,
};

/// Arguments are aligned to this: the largest vector that kernels load.
const ALIGN: u64 = 16;

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
    /// Full chunks with the value of the last submission that reads from them, oldest first.
    full: VecDeque<(Arc<Block>, u64)>,
}

impl Ring {
    /// An empty ring of chunks of `chunk_bytes`. When the first one is needed, `at_once` are made: a loop
    /// that goes on in the next chunk creates none.
    pub(crate) fn new(device: Arc<RawDevice>, chunk_bytes: u64, at_once: usize) -> Self {
        Ring { device, chunk_bytes, at_once, current: None, full: VecDeque::new() }
    }

    /// Room for `bytes` that submission `open` reads; `reached` is the last finished submission.
    pub(crate) fn reserve(
        &mut self,
        bytes: u64,
        open: u64,
        reached: impl FnOnce() -> u64,
    ) -> Result<Slot, VulkanError> {
        let fits = self.current.as_ref().is_some_and(|(block, at)| at + bytes <= block.bytes());
        if !fits {
            self.next_chunk(bytes, open, reached)?;
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

    /// Number of full chunks and the submission that frees the oldest.
    pub(crate) fn pressure(&self) -> (usize, u64) {
        (self.full.len(), self.full.front().map_or(0, |c| c.1))
    }

    /// Gives up all chunks; nothing that reads from one is in flight.
    pub(crate) fn rest(&mut self) {
        self.current = None;
        self.full = VecDeque::new();
    }

    fn next_chunk(
        &mut self,
        bytes: u64,
        open: u64,
        reached: impl FnOnce() -> u64,
    ) -> Result<(), VulkanError> {
        let before = self.current.take();
        let missing = if before.is_none() { self.at_once - 1 } else { 0 };
        self.full.extend(before.map(|(block, _)| (block, open)));
        let reached = if self.full.is_empty() { 0 } else { reached() };
        let found =
            self.full.iter().position(|(block, last)| *last <= reached && bytes <= block.bytes());
        let block = match found.and_then(|i| self.full.remove(i)) {
            Some((block, _)) => block,
            None => self.chunk(bytes.max(self.chunk_bytes))?,
        };
        self.current = Some((block, 0));
        for _ in 0..missing {
            // Nothing reads from it yet.
            self.full.push_back((self.chunk(self.chunk_bytes)?, 0));
        }
        Ok(())
    }

    fn chunk(&self, bytes: u64) -> Result<Arc<Block>, VulkanError> {
        Block::new(&self.device, Usage::Upload, bytes).map(Arc::new)
    }
}
