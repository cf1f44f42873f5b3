//! Host memory: aligned blocks from a cache, so that results of the CPU backend do not page-fault
//! their memory in anew each time.

use std::collections::BTreeMap;

use once_cell::sync::Lazy;
use parking_lot::Mutex;

use crate::{Error, Result, buffer::HostMemory, memory};

/// A cache line; the unit and alignment of host memory.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Blocks under this size come straight from the allocator: it is faster than the cache's lock.
const SMALLEST_CACHED: usize = 16 * 1024;

/// 64-byte aligned host memory.
pub struct HostVec {
    lines: Vec<Line>,
    nbytes: usize,
}

#[derive(Default)]
struct Cache {
    by_size: BTreeMap<usize, Vec<Vec<Line>>>,
}

static CACHE: Lazy<Mutex<Cache>> = Lazy::new(|| {
    memory::register_cache(Box::new(|extent| CACHE.lock().trim(extent.bytes())));
    Mutex::default()
});

impl Cache {
    /// The smallest block of at least `bytes` that does not waste more than it serves.
    fn take(&mut self, bytes: usize) -> Option<Vec<Line>> {
        let limit = (2 * bytes).min(bytes + 2 * 4096 * 16);
        let size = *self.by_size.range(bytes..=limit).next()?.0;
        let blocks = self.by_size.get_mut(&size)?;
        let block = blocks.pop();
        if blocks.is_empty() {
            self.by_size.remove(&size);
        }
        memory::note_uncached(size);
        block
    }

    fn put(&mut self, block: Vec<Line>) {
        let size = block.len() * 64;
        memory::note_cached(size);
        self.by_size.entry(size).or_default().push(block);
        self.trim(memory::cache_limit());
    }

    /// Frees the largest blocks first until at most `limit` bytes are cached here and elsewhere.
    fn trim(&mut self, limit: usize) {
        while memory::cache_memory() > limit {
            let Some((size, blocks)) = self.by_size.pop_last() else { return };
            memory::note_uncached(size * blocks.len());
        }
    }
}

impl HostVec {
    /// At least `nbytes` bytes of unspecified contents.
    ///
    /// # Errors
    /// When the system has no memory left.
    pub fn new(nbytes: usize) -> Result<Self> {
        let lines = nbytes.div_ceil(64);
        let cached = (nbytes >= SMALLEST_CACHED).then(|| CACHE.lock().take(lines * 64)).flatten();
        let lines = match cached {
            Some(block) => block,
            None => allocate(lines)?,
        };
        memory::note_allocated(lines.len() * 64);
        Ok(HostVec { lines, nbytes })
    }

    /// A copy of `bytes`.
    ///
    /// # Errors
    /// When the system has no memory left.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut vec = Self::new(bytes.len())?;
        bytemuck::cast_slice_mut(&mut vec.lines)[..bytes.len()].copy_from_slice(bytes);
        Ok(vec)
    }
}

/// Zeroed pages straight from the system for large blocks: they cost nothing until touched.
fn allocate(lines: usize) -> Result<Vec<Line>> {
    bytemuck::allocation::try_zeroed_vec(lines).map_err(|()| Error::OutOfMemory {
        requested: lines * 64,
        device: "the host".into(),
        hint: "free arrays or add memory".into(),
    })
}

impl Drop for HostVec {
    fn drop(&mut self) {
        let bytes = self.lines.len() * 64;
        memory::note_freed(bytes);
        if bytes >= SMALLEST_CACHED && bytes <= memory::cache_limit() {
            CACHE.lock().put(std::mem::take(&mut self.lines));
        }
    }
}

impl HostMemory for HostVec {
    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.nbytes]
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        Some(&mut bytemuck::cast_slice_mut(&mut self.lines)[..self.nbytes])
    }
}
