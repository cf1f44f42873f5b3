//! One allocation: a span of a block, owned by a buffer's device copy, its host copy, or both.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use ash::vk;
use mlx_vulkan_core::{
    buffer::{DeviceMemory, HostMemory},
    clock::{AtomicTick, Tick},
};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{guard::Guard, pool::Pool};
use crate::runtime::raw::{
    block::{Block, MappedRange},
    device::RawDevice,
};

/// Ticks until which memory may still be used.
pub(crate) type Ticks = SmallVec<[Tick; 2]>;

/// A range of a block.
#[derive(Clone)]
pub(crate) struct Span {
    /// The block.
    pub(crate) block: Arc<Block>,
    /// First byte in the block.
    pub(crate) offset: u64,
    /// Bytes, rounded up to the pool's unit.
    pub(crate) bytes: u64,
}

impl Span {
    /// Address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.block.address() + self.offset
    }

    /// Buffer and offset `at` bytes into the span, for copies.
    pub(crate) fn buffer_offset(&self, at: u64) -> (vk::Buffer, u64) {
        (self.block.handle(), self.offset + at)
    }
}

/// A span that goes back to its pool when the last owner is gone.
pub(crate) struct Allocation {
    pool: Arc<Pool>,
    span: Span,
    ticks: Mutex<Ticks>,
    guard: Option<Arc<Guard>>,
}

impl Allocation {
    pub(super) fn new(pool: Arc<Pool>, span: Span) -> Self {
        Allocation { pool, span, ticks: Mutex::default(), guard: None }
    }

    /// What lies between the guards.
    pub(super) fn guarded(pool: Arc<Pool>, guard: Arc<Guard>) -> Self {
        let span = guard.inner();
        Allocation { pool, span, ticks: Mutex::default(), guard: Some(guard) }
    }

    /// The guards around the memory (`MLX_VK_DEBUG_GUARD`).
    pub(crate) fn guard(&self) -> Option<&Arc<Guard>> {
        self.guard.as_ref()
    }

    /// Where it is.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Whether it is memory of a device.
    pub(crate) fn is_on(&self, device: &Arc<RawDevice>) -> bool {
        self.pool.is_on(device)
    }

    /// Notes that work up to `tick` uses the memory, whatever becomes of its owner.
    pub(crate) fn touch(&self, tick: Tick) {
        let mut ticks = self.ticks.lock();
        match ticks.iter_mut().find(|t| t.stream == tick.stream) {
            Some(last) => last.value = last.value.max(tick.value),
            None => ticks.push(tick),
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let ticks = std::mem::take(self.ticks.get_mut());
        match self.guard.take() {
            None => self.pool.give(self.span.clone(), ticks),
            Some(guard) => self.pool.retire(guard, ticks),
        }
    }
}

/// A buffer's copy on a Vulkan device.
pub(crate) struct VkMemory {
    allocation: Arc<Allocation>,
    /// When the copy from the host has arrived; other streams wait for it.
    filled: AtomicTick,
    /// Chunks of an upload that has begun, and the last write of what it copies.
    staged: AtomicUsize,
    staged_of: AtomicTick,
    /// Held by uploads that are still to read the host copy.
    awaited: Arc<()>,
}

impl VkMemory {
    /// The device copy in `allocation`.
    pub(crate) fn new(allocation: Arc<Allocation>) -> Self {
        VkMemory {
            allocation,
            filled: AtomicTick::default(),
            staged: AtomicUsize::new(0),
            staged_of: AtomicTick::default(),
            awaited: Arc::default(),
        }
    }

    /// The memory.
    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    /// The tick at which the last upload has arrived.
    pub(crate) fn filled(&self) -> Tick {
        self.filled.load()
    }

    /// Number of chunks of these `contents` that an upload has copied before it had to wait. One uploads at
    /// a time.
    pub(crate) fn staged(&self, contents: Tick) -> usize {
        if self.staged_of.load() == contents { self.staged.load(Relaxed) } else { 0 }
    }

    /// Notes that so many chunks of these `contents` are copied.
    pub(crate) fn set_staged(&self, chunks: usize, contents: Tick) {
        self.staged.store(chunks, Relaxed);
        self.staged_of.store(contents);
    }

    /// Notes that an upload will read the host copy, until what is returned is dropped.
    pub(crate) fn await_host(&self) -> Arc<()> {
        self.awaited.clone()
    }

    /// Whether an upload is still to read the host copy.
    pub(crate) fn awaits_host(&self) -> bool {
        Arc::strong_count(&self.awaited) > 1
    }

    /// Notes that an upload arrives at `tick`.
    pub(crate) fn set_filled(&self, tick: Tick) {
        self.filled.store(tick);
        self.allocation.touch(tick);
    }
}

impl DeviceMemory for VkMemory {
    fn address(&self) -> u64 {
        self.allocation.span.address()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn retire(&mut self, ticks: &[Tick]) {
        ticks.iter().filter(|t| t.value != 0).for_each(|&t| self.allocation.touch(t));
    }
}

/// Mapped memory as a buffer's host copy.
pub(crate) struct MappedMemory {
    range: MappedRange,
    /// Keeps the span from its pool.
    _allocation: Arc<Allocation>,
}

impl MappedMemory {
    /// The first `nbytes` of a mapped allocation.
    pub(crate) fn new(allocation: Arc<Allocation>, nbytes: usize) -> Self {
        let span = allocation.span();
        let range = MappedRange::new(span.block.clone(), span.offset, nbytes);
        MappedMemory { range, _allocation: allocation }
    }
}

impl HostMemory for MappedMemory {
    fn bytes(&self) -> &[u8] {
        self.range.bytes()
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        Some(self.range.bytes_mut())
    }
}
