//! All guards of a device: which kernels write where, when retired memory is looked at, and whose
//! error a broken guard is.
//!
//! It belongs to the batches that wrote to the guarded memory, and to all that were encoded on their
//! streams until it was found: they may read what was overwritten. Whoever waits for one of their
//! results is told, however often.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use ash::vk;
use mlx_vulkan_core::{Error, Result, clock::Tick, notice, outcome::Failure};
use parking_lot::Mutex;
use smallvec::SmallVec;
use vulkano::VulkanError;

use super::{
    allocation::{Span, Ticks},
    guard::{Check, GUARD, Guard, PATTERN},
    guard_copies::Copies,
    pool::Pool,
};
use crate::runtime::{
    hazards::Region,
    raw::{
        block::{Block, Usage},
        device::RawDevice,
    },
    stats, timer,
};

/// How long a waiter waits for guards to be looked at; what is not done then is done later.
pub(crate) const GUARD_PATIENCE: Duration = Duration::from_secs(1);

/// A guard that was found broken.
struct Finding {
    failure: Arc<Failure>,
    /// The batches that it concerns: first and last one of each stream that wrote there.
    batches: SmallVec<[(Tick, u64); 2]>,
}

impl Finding {
    fn new(guard: &Guard, error: Error) -> Self {
        let mut batches = SmallVec::<[(Tick, u64); 2]>::new();
        for tick in guard.written() {
            match batches.iter_mut().find(|(first, _)| first.stream == tick.stream) {
                Some((first, _)) => first.value = first.value.min(tick.value),
                None => {
                    let encoded = timer::of(tick.stream).map(|timer| timer.tick().value);
                    batches.push((tick, encoded.unwrap_or(tick.value)));
                }
            }
        }
        Finding { failure: Failure::new(error), batches }
    }

    /// Whether it concerns the results of a batch.
    fn concerns(&self, tick: Tick) -> bool {
        let within = |&(first, last): &(Tick, u64)| {
            first.stream == tick.stream && (first.value..=last).contains(&tick.value)
        };
        self.batches.iter().any(within)
    }

    /// Whether it concerns results of a stream. Without writers it is everybody's.
    fn is_of(&self, stream: u16) -> bool {
        self.batches.is_empty() || self.batches.iter().any(|(first, _)| first.stream == stream)
    }
}

/// The guards of one device.
pub(crate) struct Guards {
    live: Mutex<BTreeMap<u64, Arc<Guard>>>,
    retired: Mutex<Vec<(Check, Ticks)>>,
    found: Mutex<Vec<Finding>>,
    /// Memory with the pattern, for streams that write guards.
    source: Block,
    /// Absent where all memory is mapped.
    copies: Option<Mutex<Copies>>,
}

impl Guards {
    /// The guards of a device.
    pub(crate) fn new(device: &Arc<RawDevice>) -> Result<Arc<Self>> {
        let failed = |e: VulkanError| device.fail("guard", &e);
        let source = Block::new(device, Usage::Upload, GUARD).map_err(failed)?;
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

    /// Guards `outer`, of which `bytes` are for the user.
    pub(super) fn guard(&self, outer: Span, bytes: u64) -> Arc<Guard> {
        let guard = Guard::new(outer, bytes);
        self.live.lock().insert(guard.region().address, guard.clone());
        guard
    }

    /// Where streams copy the pattern from.
    pub(crate) fn source(&self) -> (vk::Buffer, u64) {
        (self.source.handle(), 0)
    }

    /// Notes which kernel writes to guarded memory, in the batch that ends at `tick`, to name it if a guard
    /// breaks.
    pub(crate) fn note(&self, kernel: &'static str, tick: Tick, writes: &[Region]) {
        let live = self.live.lock();
        for region in writes {
            let below = live.range(..=region.address).next_back();
            if let Some((_, guard)) = below.filter(|(_, g)| region.address < g.region().end()) {
                guard.wrote(kernel, tick);
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
        if let Some(damage) = guard.new_damage(contents) {
            stats::GUARDS_BROKEN.add(1);
            let error = Error::device("guard", damage);
            notice::write(&format!("mlx: error: {error}\n"));
            self.found.lock().push(Finding::new(guard, error));
        }
    }

    fn conclude(&self, check: Check, contents: [&[u8]; 2]) {
        stats::GUARDS_CHECKED.add(1);
        self.judge(&check.guard, contents);
        if let Some(pool) = &check.pool {
            pool.shelve(check.guard.outer().clone(), Ticks::new());
        }
    }

    /// What was found that concerns the results of a batch.
    pub(crate) fn failure(&self, tick: Tick) -> Option<Arc<Failure>> {
        let found = self.found.lock();
        found.iter().find(|finding| finding.concerns(tick)).map(|finding| finding.failure.clone())
    }

    /// What was found that concerns results of a stream, or of any, and that nobody was told of; now
    /// somebody is.
    pub(crate) fn untold(&self, stream: Option<u16>) -> Option<Error> {
        let found = self.found.lock();
        let mut of_it = found.iter().filter(|finding| stream.is_none_or(|s| finding.is_of(s)));
        of_it.find(|finding| !finding.failure.was_told()).map(|finding| finding.failure.tell())
    }

    /// Looks at retired memory, and at mapped memory in use; waits up to `patience` for the copies
    /// that this takes.
    pub(crate) fn settle(&self, patience: Duration) {
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
    }

    /// The same. Waits only while no stream has work in flight: in the queue the copies could be behind work
    /// that waits for the caller.
    pub(crate) fn settle_if_idle(&self) {
        let patience = if timer::are_idle() { GUARD_PATIENCE } else { Duration::ZERO };
        self.settle(patience);
    }

    /// The same for memory in use, on which no work is running.
    ///
    /// # Errors
    /// What an operation has overwritten, if nobody was told of it.
    pub(crate) fn settle_all(&self, patience: Duration) -> Result<()> {
        let live: Vec<_> = self.live.lock().values().cloned().collect();
        self.look(live.into_iter().map(|guard| Check { guard, pool: None }));
        self.settle(patience);
        self.untold(None).map_or(Ok(()), Err)
    }
}
