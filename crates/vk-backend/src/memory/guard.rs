//! Guard bytes around allocations (`MLX_VK_DEBUG_GUARD=1`): a kernel that writes before or past its
//! output destroys a pattern, which is found when the memory retires and at every wait.
//!
//! A guarded allocation is [`GUARD`] bytes, what was asked for, and at least [`GUARD`] bytes; the
//! guard behind begins at the very next byte. Retired memory is held back until the work that used
//! it has finished and its guards were looked at: mapped memory by the host, other memory through
//! copies ([`Copies`]). Without the switch none of this exists: a pool has no [`Guards`].

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use ash::vk;
use mlx_core::{Error, Result};
use parking_lot::Mutex;
use smallvec::SmallVec;
use vulkano::VulkanError;

use super::{
    allocation::{Span, Ticks},
    guard_copies::Copies,
    pool::Pool,
};
use crate::{
    hazards::Region,
    raw::{
        block::{Block, MappedRange, Usage},
        device::RawDevice,
    },
    stats,
};

/// Bytes of a guard, on either side; as much as ggml's test-backend-ops puts around its tensors.
pub(crate) const GUARD: u64 = 1024;
/// Kernels that an error names at most: the last ones that wrote.
const NAMED: usize = 6;

/// What guards hold: neighbours differ, so that constants and repeated words are noticed.
const PATTERN: [u8; GUARD as usize] = {
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
    kernels: Mutex<SmallVec<[&'static str; NAMED]>>,
    reported: AtomicBool,
}

impl Guard {
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
    pub(crate) fn places(&self) -> [(vk::Buffer, u64); 2] {
        self.at().map(|at| self.outer.place(at))
    }

    /// Names the operation whose memory this is.
    pub(crate) fn set_op(&self, op: &'static str) {
        let _ = self.op.set(op);
    }

    fn wrote(&self, kernel: &'static str) {
        let mut kernels = self.kernels.lock();
        kernels.retain(|k| *k != kernel);
        if kernels.len() == NAMED {
            kernels.remove(0);
        }
        kernels.push(kernel);
    }

    fn arm_mapped(&self) {
        for at in self.at() {
            self.outer.block.write(self.outer.offset + at, &PATTERN);
        }
    }

    /// Both guards of mapped memory, which nothing but a broken kernel writes.
    fn mapped(&self) -> [MappedRange; 2] {
        self.at().map(|at| {
            let offset = self.outer.offset + at;
            MappedRange::new(self.outer.block.clone(), offset, GUARD as usize)
        })
    }

    /// What is wrong with the guards' contents, if something is.
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
        let kernels = self.kernels.lock();
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

/// The guards of one device.
pub(crate) struct Guards {
    live: Mutex<BTreeMap<u64, Arc<Guard>>>,
    retired: Mutex<Vec<(Check, Ticks)>>,
    found: Mutex<Vec<Error>>,
    /// Memory with the pattern, for streams that write guards.
    source: Block,
    /// Absent where all memory is mapped.
    copies: Option<Mutex<Copies>>,
}

impl Guards {
    /// The guards of a device.
    pub(crate) fn new(device: &Arc<RawDevice>) -> Result<Arc<Self>> {
        let failed = |e: VulkanError| device.fail("guard", &e);
        let source = Block::new(&device.device, Usage::Upload, GUARD).map_err(failed)?;
        source.write(0, &PATTERN);
        let copies = match device.capabilities.unified {
            true => None,
            false => Some(Mutex::new(Copies::new(device.clone())?)),
        };
        Ok(Arc::new(Guards {
            live: Mutex::default(),
            retired: Mutex::default(),
            found: Mutex::default(),
            source,
            copies,
        }))
    }

    /// Guards `outer`, of which `bytes` are for the user. Mapped memory is armed at once.
    pub(super) fn guard(&self, outer: Span, bytes: u64) -> Arc<Guard> {
        let guard = Arc::new(Guard {
            outer,
            bytes,
            op: OnceLock::new(),
            kernels: Mutex::default(),
            reported: AtomicBool::new(false),
        });
        if guard.is_mapped() {
            guard.arm_mapped();
        }
        self.live.lock().insert(guard.region().address, guard.clone());
        guard
    }

    /// Where streams copy the pattern from.
    pub(crate) fn source(&self) -> (vk::Buffer, u64) {
        (self.source.handle(), 0)
    }

    /// Notes which kernel writes to guarded memory, to name it if a guard breaks.
    pub(crate) fn note(&self, kernel: &'static str, writes: &[Region]) {
        let live = self.live.lock();
        for region in writes {
            let below = live.range(..=region.address).next_back();
            if let Some((_, guard)) = below.filter(|(_, g)| region.address < g.region().end()) {
                guard.wrote(kernel);
            }
        }
    }

    /// Takes memory back; it reaches `pool` once it has been looked at.
    pub(super) fn retire(&self, guard: Arc<Guard>, pool: Arc<Pool>, ticks: Ticks) {
        self.live.lock().remove(&guard.region().address);
        self.retired.lock().push((Check { guard, pool: Some(pool) }, ticks));
    }

    /// Looks at retired memory whose work has finished. Does not wait.
    pub(crate) fn sweep(&self) {
        let ready = {
            let mut retired = self.retired.lock();
            let (ready, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut *retired)
                .into_iter()
                .partition(|(_, ticks)| ticks.iter().all(|t| t.reached()));
            *retired = waiting;
            ready
        };
        self.look(ready.into_iter().map(|(check, _)| check));
    }

    fn look(&self, checks: impl Iterator<Item = Check>) {
        let (mapped, copied): (Vec<_>, Vec<_>) = checks.partition(|c| c.guard.is_mapped());
        for check in mapped {
            let [front, back] = check.guard.mapped();
            self.conclude(check, [front.bytes(), back.bytes()]);
        }
        let Some(copies) = &self.copies else { return };
        let mut copies = copies.lock();
        for (check, contents) in copies.advance(copied) {
            self.conclude(check, [&contents[0], &contents[1]]);
        }
    }

    /// Looks at mapped memory in use; finds what has been done to it so far.
    fn look_at_live(&self) {
        for guard in self.live.lock().values().filter(|guard| guard.is_mapped()) {
            let [front, back] = guard.mapped();
            self.judge(guard, [front.bytes(), back.bytes()]);
        }
    }

    fn judge(&self, guard: &Guard, contents: [&[u8]; 2]) {
        if let Some(damage) = guard.damage(contents)
            && !guard.reported.swap(true, Relaxed)
        {
            stats::GUARDS_BROKEN.add(1);
            let error = Error::device("guard", damage);
            eprintln!("mlx: error: {error}");
            self.found.lock().push(error);
        }
    }

    fn conclude(&self, check: Check, contents: [&[u8]; 2]) {
        stats::GUARDS_CHECKED.add(1);
        self.judge(&check.guard, contents);
        if let Some(pool) = &check.pool {
            pool.shelve(check.guard.outer.clone(), Ticks::new());
        }
    }

    /// Looks at retired memory, and at mapped memory in use; waits up to `patience` for the copies
    /// that this takes.
    ///
    /// # Errors
    /// What an operation has overwritten, each finding once.
    pub(crate) fn settle(&self, patience: Duration) -> Result<()> {
        let start = Instant::now();
        self.look_at_live();
        loop {
            self.sweep();
            let Some((timeline, value)) = self.copies.as_ref().and_then(|c| c.lock().in_flight())
            else {
                break;
            };
            let left = patience.saturating_sub(start.elapsed());
            // A failed device is found by whoever works on it.
            if left.is_zero() || !timeline.wait(value, left).unwrap_or(false) {
                break;
            }
        }
        self.found.lock().pop().map_or(Ok(()), Err)
    }

    /// The same for memory in use, on which no work is running.
    ///
    /// # Errors
    /// What an operation has overwritten.
    pub(crate) fn settle_all(&self, patience: Duration) -> Result<()> {
        let live: Vec<_> = self.live.lock().values().cloned().collect();
        self.look(live.into_iter().map(|guard| Check { guard, pool: None }));
        self.settle(patience)
    }
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
