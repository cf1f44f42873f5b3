//! A pool of one kind of memory: freed spans are kept by size and handed out again by MLX's rule;
//! new ones are cut from large blocks.

use std::{collections::BTreeMap, sync::Arc};

use mlx_vulkan_core::{
    Result,
    clock::Tick,
    memory::{self, Extent},
};
use parking_lot::Mutex;
use vulkano::VulkanError;

use super::{
    allocation::{Allocation, Span, Ticks},
    guard::{GUARD, Guard},
    guards::Guards,
    ranges::Ranges,
};
use crate::runtime::{
    raw::{
        block::{Block, Usage},
        device::RawDevice,
        ending::InDriver,
        error,
    },
    stats,
};

/// Spans are multiples of this and aligned to it.
const UNIT: u64 = 256;
/// MLX's page, part of its reuse rule.
const PAGE: u64 = 16 << 10;
/// Spans above this are whole pages, so that near sizes share cached spans.
const PAGED: u64 = 1 << 20;
const FIRST_BLOCK: u64 = 64 << 20;
const LARGEST_BLOCK: u64 = 256 << 20;

/// Who will use new memory: it decides how soon freed memory may be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// Work of this stream: in-queue order and the hazard tracker protect its own earlier work.
    Stream(u16),
    /// The host, which no barrier holds back: everything must have finished.
    Host,
}

struct Free {
    span: Span,
    ticks: Ticks,
}

#[derive(Default)]
struct Inner {
    /// Blocks that are cut up, with their free ranges.
    blocks: Vec<(Arc<Block>, Ranges)>,
    by_size: BTreeMap<u64, Vec<Free>>,
    /// Spans that left the cache while the device may still use them.
    limbo: Vec<Free>,
}

/// A pool.
pub(crate) struct Pool {
    device: Arc<RawDevice>,
    usage: Usage,
    inner: Mutex<Inner>,
    guards: Option<Arc<Guards>>,
}

impl Pool {
    /// An empty pool; its cache obeys core's limits. With `guards` every allocation is guarded.
    pub(crate) fn new(
        device: Arc<RawDevice>,
        usage: Usage,
        guards: Option<Arc<Guards>>,
    ) -> Arc<Self> {
        let pool = Arc::new(Pool { device, usage, inner: Mutex::default(), guards });
        let weak = Arc::downgrade(&pool);
        memory::register_cache(Box::new(move |extent| {
            if let Some(pool) = weak.upgrade() {
                pool.trim(extent);
            }
        }));
        pool
    }

    /// Whether its memory is a device's.
    pub(super) fn is_on(&self, device: &Arc<RawDevice>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    /// Memory of at least `bytes` bytes with unspecified contents.
    ///
    /// # Errors
    /// When the device has none left, also after the cache was freed.
    pub(crate) fn allocate(self: &Arc<Self>, bytes: u64, user: User) -> Result<Arc<Allocation>> {
        let size = match &self.guards {
            None => round(bytes),
            Some(guards) => {
                guards.sweep();
                round(bytes + 2 * GUARD)
            }
        };
        let span = match self.try_take(size, user) {
            Ok(span) => span,
            Err(error) if error::is_lack(&error) => {
                memory::make_room();
                self.try_take(size, user).map_err(|e| self.device.no_memory(bytes, &e))?
            }
            Err(error) => return Err(self.device.fail("malloc", &error)),
        };
        self.note(span.bytes, memory::note_allocated);
        Ok(Arc::new(match &self.guards {
            None => Allocation::new(self.clone(), span),
            Some(guards) => Allocation::guarded(self.clone(), guards.guard(span, bytes)),
        }))
    }

    /// Tells core what is in use: arrays, but no copies of them for the host to read.
    fn note(&self, bytes: u64, what: fn(usize)) {
        if self.usage != Usage::ReadBack {
            what(bytes as usize);
        }
    }

    fn try_take(&self, size: u64, user: User) -> Result<Span, VulkanError> {
        let mut inner = self.inner.lock();
        if let Some(span) = inner.take_cached(size, user) {
            stats::CACHE_REUSES.add(1);
            return Ok(span);
        }
        inner.sweep();
        if let Some(span) = inner.cut(size) {
            return Ok(span);
        }
        let (block_size, shared) = self.block_size(size, inner.blocks.len());
        let block = match Block::new(&self.device, self.usage, block_size) {
            // A whole block may be too much where the span alone is not.
            Err(VulkanError::OutOfDeviceMemory) if block_size > size => {
                return self.dedicated(size);
            }
            other => Arc::new(other?),
        };
        if !shared {
            return Ok(Span { block, offset: 0, bytes: size });
        }
        inner.blocks.push((block, Ranges::new(block_size)));
        inner.cut(size).ok_or(VulkanError::OutOfDeviceMemory)
    }

    fn dedicated(&self, size: u64) -> Result<Span, VulkanError> {
        let block = Block::new(&self.device, self.usage, size)?;
        Ok(Span { block: Arc::new(block), offset: 0, bytes: size })
    }

    /// Size of the next block, and whether it is cut up. Large spans get blocks of their own, which
    /// can go back to the driver one by one.
    fn block_size(&self, size: u64, blocks: usize) -> (u64, bool) {
        let budget = (self.device.capabilities.device_memory / 16).max(UNIT);
        let block =
            (FIRST_BLOCK << blocks.min(2)).min(LARGEST_BLOCK).min(budget.next_power_of_two());
        if size > block / 4 { (size, false) } else { (block, true) }
    }

    /// Takes a span back. Called when the last owner drops it.
    pub(super) fn give(&self, span: Span, ticks: Ticks) {
        self.note(span.bytes, memory::note_freed);
        self.shelve(span, ticks);
    }

    /// Takes guarded memory back: it is looked at before it is used again.
    pub(super) fn retire(self: &Arc<Self>, guard: Arc<Guard>, ticks: Ticks) {
        self.note(guard.region().bytes, memory::note_freed);
        if let Some(guards) = &self.guards {
            guards.retire(guard, self.clone(), ticks);
        }
    }

    /// Puts a span into the cache. Which ticks are reached is only asked when somebody else wants it: the
    /// answer takes a call of the driver, and the stream that used it last needs none.
    pub(super) fn shelve(&self, span: Span, ticks: Ticks) {
        let limit = memory::cache_limit() as u64;
        let dropped = {
            let mut inner = self.inner.lock();
            memory::note_cached(span.bytes as usize);
            inner.by_size.entry(span.bytes).or_default().push(Free { span, ticks });
            let is_full = memory::cache_memory() as u64 > limit;
            if is_full { inner.trim(limit, self.spare()) } else { Vec::new() }
        };
        release(dropped);
    }

    /// Frees cached spans, largest first; blocks without spans go back to the driver.
    pub(crate) fn trim(&self, extent: Extent) {
        // What was let go just now reaches the cache once it has been looked at.
        if let Some(guards) = &self.guards {
            guards.settle_if_idle();
        }
        // The driver frees blocks slowly: after the lock is released.
        let spare = if extent == Extent::All { 0 } else { self.spare() };
        let dropped = self.inner.lock().trim(extent.bytes() as u64, spare);
        release(dropped);
    }

    /// Bytes of unused blocks that stay when the cache is cleared: a program that frees everything usually
    /// goes on, and an H200's driver takes 20 us to give a MiB and 20 to take it back.
    fn spare(&self) -> u64 {
        self.device.capabilities.device_memory / 64
    }
}

impl Inner {
    /// MLX's rule: the closest size that is under `min(2 * size, size + 2 * PAGE)`.
    fn take_cached(&mut self, size: u64, user: User) -> Option<Span> {
        let limit = (2 * size).min(size + 2 * PAGE);
        let (found, at) = self.by_size.range(size..limit).find_map(|(&found, spans)| {
            let at = spans.iter().rposition(|free| is_usable(&free.ticks, user))?;
            Some((found, at))
        })?;
        let spans = self.by_size.get_mut(&found)?;
        let free = spans.swap_remove(at);
        if spans.is_empty() {
            self.by_size.remove(&found);
        }
        memory::note_uncached(found as usize);
        Some(free.span)
    }

    /// Cuts a span from the blocks.
    fn cut(&mut self, size: u64) -> Option<Span> {
        self.blocks.iter_mut().find_map(|(block, ranges)| {
            let offset = ranges.take(size)?;
            Some(Span { block: block.clone(), offset, bytes: size })
        })
    }

    /// Returns spans in limbo whose work has finished to their blocks.
    fn sweep(&mut self) {
        if self.limbo.is_empty() {
            return;
        }
        let (done, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.limbo)
            .into_iter()
            .partition(|free| free.ticks.iter().all(|t| t.reached()));
        self.limbo = waiting;
        for free in done {
            self.uncut(&free.span);
        }
    }

    /// Gives a span back to its block; a block of its own goes away with the span.
    fn uncut(&mut self, span: &Span) {
        if let Some((_, ranges)) = self.blocks.iter_mut().find(|(b, _)| Arc::ptr_eq(b, &span.block))
        {
            ranges.give(span.offset, span.bytes);
        }
    }

    /// See [`Pool::trim`]; returns the blocks to drop. Unused ones of up to `spare` bytes stay, and one in
    /// any case if that is not zero.
    fn trim(&mut self, limit: u64, spare: u64) -> Vec<Arc<Block>> {
        let (mut own, mut adopted) = (Vec::new(), 0);
        while memory::cache_memory() as u64 > limit {
            let Some(mut entry) = self.by_size.last_entry() else { break };
            let size = *entry.key();
            let free = entry.get_mut().pop();
            if entry.get().is_empty() {
                entry.remove();
            }
            let Some(free) = free else { continue };
            memory::note_uncached(size as usize);
            if limit == 0 && adopted + size <= spare && self.adopt(&free.span) {
                adopted += size;
            }
            own.push(free.span.block.clone());
            self.limbo.push(free);
        }
        self.sweep();
        let mut unused = 0;
        let stays = |(block, ranges): &(Arc<Block>, Ranges)| {
            if !ranges.is_unused() || limit > 0 {
                return true;
            }
            let is_spare = (unused == 0 && spare > 0) || unused + block.bytes() <= spare;
            unused += if is_spare { block.bytes() } else { 0 };
            is_spare
        };
        let (kept, dropped) = std::mem::take(&mut self.blocks).into_iter().partition(stays);
        self.blocks = kept;
        own.extend(Vec::into_iter(dropped).map(|(block, _)| block));
        own
    }

    /// Lets a span that is a whole block become one that is cut up, once its work has finished.
    fn adopt(&mut self, span: &Span) -> bool {
        let is_own = !self.blocks.iter().any(|(block, _)| Arc::ptr_eq(block, &span.block));
        if is_own {
            let mut ranges = Ranges::new(span.bytes);
            ranges.take(span.bytes);
            self.blocks.push((span.block.clone(), ranges));
        }
        is_own
    }
}

/// Lets go of blocks, which the driver frees if nobody else has them.
fn release(blocks: Vec<Arc<Block>>) {
    if !blocks.is_empty() {
        let _in_driver = InDriver::new();
        drop(blocks);
    }
}

/// Whether memory that is used until `ticks` may be handed to `user` now.
fn is_usable(ticks: &[Tick], user: User) -> bool {
    ticks.iter().all(|t| user == User::Stream(t.stream) || t.reached())
}

/// Rounds a size up to the unit, or to pages when it is large.
fn round(bytes: u64) -> u64 {
    let unit = if bytes >= PAGED { PAGE } else { UNIT };
    bytes.max(1).next_multiple_of(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_to_units_and_pages() {
        assert_eq!((round(0), round(256), round(257)), (256, 256, 512));
        assert_eq!(round(PAGED + 1), PAGED + PAGE);
        assert_eq!(round((5 << 30) + 1), (5 << 30) + PAGE);
    }

    #[test]
    fn own_stream_reuses_at_once_and_others_wait() {
        // A tick far in the future of a stream that no clock knows must not be polled for its own.
        let tick = Tick { stream: 7, value: u64::MAX >> 16 };
        assert!(is_usable(&[tick], User::Stream(7)));
        assert!(is_usable(&[], User::Host));
        assert!(is_usable(&[Tick::START], User::Host));
    }
}
