//! Guard bytes around allocations (`MLX_VK_DEBUG_GUARD=1`): a kernel that writes before or past its
//! output destroys a pattern, which is found when the memory retires and at every wait. What was
//! found belongs to the results of the batches that wrote there (see [`super::guards`]).
//!
//! A guarded allocation is [`GUARD`] bytes, what was asked for, and at least [`GUARD`] bytes; the
//! guard behind begins at the very next byte. Retired memory is held back until the work that used
//! it has finished and its guards were looked at: mapped memory by the host, other memory through
//! copies. Without the switch none of this exists: a pool has no guards.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use ash::vk;
use mlx_vulkan_core::clock::Tick;
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{allocation::Span, pool::Pool};
use crate::runtime::{hazards::Region, raw::block::MappedRange};

/// Bytes of a guard, on either side; as much as ggml's test-backend-ops puts around its tensors.
pub(crate) const GUARD: u64 = 1024;
/// Kernels that an error names at most: the last ones that wrote.
const NAMED: usize = 6;

/// What guards hold: neighbours differ, so that constants and repeated words are noticed.
pub(super) const PATTERN: [u8; GUARD as usize] = {
    let mut bytes = [0; GUARD as usize];
    let mut i = 0;
    while i < bytes.len() {
        bytes[i] = (i * 37 + 0xA5) as u8;
        i += 1;
    }
    bytes
};

/// The guards of one allocation.
pub(crate) struct Guard {
    /// Everything, with the guards.
    outer: Span,
    /// Bytes between the guards.
    bytes: u64,
    op: OnceLock<&'static str>,
    /// Kernels that wrote to the memory, with the batch of each one's last dispatch.
    writers: Mutex<SmallVec<[(&'static str, Tick); NAMED]>>,
    reported: AtomicBool,
}

impl Guard {
    /// Guards `outer`, of which `bytes` are for the user. Mapped memory is armed at once.
    pub(super) fn new(outer: Span, bytes: u64) -> Arc<Self> {
        let guard = Guard {
            outer,
            bytes,
            op: OnceLock::new(),
            writers: Mutex::default(),
            reported: AtomicBool::new(false),
        };
        if guard.is_mapped() {
            let write = |at| guard.outer.block.write(guard.outer.offset + at, &PATTERN);
            guard.at().into_iter().for_each(write);
        }
        Arc::new(guard)
    }

    /// The span with its guards, for the pool.
    pub(super) fn outer(&self) -> &Span {
        &self.outer
    }

    /// What the user gets.
    pub(super) fn inner(&self) -> Span {
        Span { offset: self.outer.offset + GUARD, bytes: self.bytes, ..self.outer.clone() }
    }

    /// The memory with its guards.
    pub(crate) fn region(&self) -> Region {
        Region { address: self.outer.address(), bytes: self.outer.bytes }
    }

    /// Whether the host reaches the memory; otherwise a stream has to write the guards.
    pub(crate) fn is_mapped(&self) -> bool {
        self.outer.block.is_mapped()
    }

    /// Offsets of both guards in the span.
    fn at(&self) -> [u64; 2] {
        [0, GUARD + self.bytes]
    }

    /// Both guards, for copies.
    pub(crate) fn buffer_offsets(&self) -> [(vk::Buffer, u64); 2] {
        self.at().map(|at| self.outer.buffer_offset(at))
    }

    /// Names the operation whose memory this is.
    pub(crate) fn set_op(&self, op: &'static str) {
        let _ = self.op.set(op);
    }

    /// Notes that a kernel writes to the memory in the batch that ends at `tick`.
    pub(super) fn wrote(&self, kernel: &'static str, tick: Tick) {
        let mut writers = self.writers.lock();
        writers.retain(|(name, _)| *name != kernel);
        if writers.len() == NAMED {
            writers.remove(0);
        }
        writers.push((kernel, tick));
    }

    /// The batches that wrote to the memory last.
    pub(super) fn written(&self) -> SmallVec<[Tick; NAMED]> {
        self.writers.lock().iter().map(|(_, tick)| *tick).collect()
    }

    /// Both guards of mapped memory, which nothing but a broken kernel writes.
    pub(super) fn mapped(&self) -> [MappedRange; 2] {
        self.at().map(|at| {
            let offset = self.outer.offset + at;
            MappedRange::new(self.outer.block.clone(), offset, GUARD as usize)
        })
    }

    /// What is wrong with the guards' contents, if something is that was not told before.
    pub(super) fn new_damage(&self, contents: [&[u8]; 2]) -> Option<String> {
        self.damage(contents).filter(|_| !self.reported.swap(true, Relaxed))
    }

    fn damage(&self, contents: [&[u8]; 2]) -> Option<String> {
        if contents == [&PATTERN; 2] {
            return None;
        }
        let sides = [("before", true), ("past the end of", false)];
        let found = sides.into_iter().zip(contents).find_map(|((side, front), bytes)| {
            let wrong = |i: &usize| bytes[*i] != PATTERN[*i];
            let (first, last) = ((0..bytes.len()).find(wrong)?, (0..bytes.len()).rfind(wrong)?);
            let (near, far) = if front {
                (GUARD as usize - last, GUARD as usize - first)
            } else {
                (first + 1, last + 1)
            };
            Some(format!("bytes {near} to {far} {side}"))
        })?;
        let op = self.op.get().copied().unwrap_or("a transfer");
        let kernels: Vec<&str> = self.writers.lock().iter().map(|(name, _)| *name).collect();
        let by = if kernels.is_empty() { "no kernel".to_owned() } else { kernels.join(", ") };
        Some(format!(
            "{found} the {} bytes that {op} allocated were overwritten; kernels that wrote there: {by}",
            self.bytes
        ))
    }
}

/// A guard to look at; with the pool that gets the memory back if it has retired.
pub(super) struct Check {
    pub(super) guard: Arc<Guard>,
    pub(super) pool: Option<Arc<Pool>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_has_no_runs() {
        assert!(PATTERN.windows(2).all(|w| w[0] != w[1]));
        assert!(PATTERN.chunks_exact(4).all(|w| w != [0; 4] && w != [0xFF; 4]));
    }
}
