//! Memory accounting and MLX's memory functions.
//!
//! Every allocation of either backend is counted here, but host copies that are not needed beside a
//! device's: what that was read back to, and parts of files. (Upstream's devices share the host's memory.)
//! Caches (free blocks kept for reuse) are registered, so that limits and [`clear_cache`] reach all of them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::RwLock;

use crate::tape::folding;

static ACTIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static CACHED: AtomicUsize = AtomicUsize::new(0);
static MEMORY_LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static CACHE_LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static CACHES: RwLock<Vec<Trim>> = RwLock::new(Vec::new());

/// Frees blocks of a cache.
pub type Trim = Box<dyn Fn(Extent) + Send + Sync>;

/// How much of a cache is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Until all caches together hold at most so many bytes, or this one is empty.
    To(usize),
    /// All of it, and what a backend keeps besides for the next use.
    All,
}

impl Extent {
    /// The bytes that all caches together may hold.
    pub fn bytes(self) -> usize {
        match self {
            Extent::To(bytes) => bytes,
            Extent::All => 0,
        }
    }
}

/// Bytes that living arrays hold.
pub fn active_memory() -> usize {
    ACTIVE.load(Relaxed)
}

/// The most bytes that were active since the start or [`reset_peak_memory`].
pub fn peak_memory() -> usize {
    PEAK.load(Relaxed)
}

/// Sets the peak to zero, as MLX does.
pub fn reset_peak_memory() {
    PEAK.store(0, Relaxed);
}

/// Bytes kept for reuse.
pub fn cache_memory() -> usize {
    CACHED.load(Relaxed)
}

/// The limit on active memory, in bytes.
pub fn memory_limit() -> usize {
    MEMORY_LIMIT.load(Relaxed)
}

/// Sets the limit on active memory and returns the previous one. Evaluation waits for running
/// work when it is exceeded; allocation fails only when the device has no memory left.
pub fn set_memory_limit(bytes: usize) -> usize {
    MEMORY_LIMIT.swap(bytes, Relaxed)
}

/// Sets the limit on cached memory and returns the previous one.
pub fn set_cache_limit(bytes: usize) -> usize {
    let previous = CACHE_LIMIT.swap(bytes, Relaxed);
    if cache_memory() > bytes {
        trim(Extent::To(bytes));
    }
    previous
}

/// The limit on cached memory, in bytes.
pub fn cache_limit() -> usize {
    CACHE_LIMIT.load(Relaxed)
}

/// Frees every cached block, and results that are kept because every evaluation would compute them anew.
pub fn clear_cache() {
    trim(Extent::To(0));
}

/// Frees what nobody uses, for who has no memory left.
pub fn make_room() {
    trim(Extent::All);
}

fn trim(extent: Extent) {
    // What this frees goes to the caches.
    folding::clear();
    for cache in CACHES.read().iter() {
        cache(extent);
    }
}

/// For backends: registers a cache of free blocks.
pub fn register_cache(trim: Trim) {
    CACHES.write().push(trim);
}

/// For backends: `bytes` became active.
pub fn note_allocated(bytes: usize) {
    let now = ACTIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(now, Relaxed);
}

/// For backends: `bytes` are no longer active.
pub fn note_freed(bytes: usize) {
    ACTIVE.fetch_sub(bytes, Relaxed);
}

/// For backends: `bytes` entered a cache.
pub fn note_cached(bytes: usize) {
    CACHED.fetch_add(bytes, Relaxed);
}

/// For backends: `bytes` left a cache.
pub fn note_uncached(bytes: usize) {
    CACHED.fetch_sub(bytes, Relaxed);
}
