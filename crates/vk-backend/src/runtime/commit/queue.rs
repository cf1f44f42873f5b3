//! Batches of work on their way from an encoder to its committer, in order.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::Acquire},
    thread,
};

use ash::vk;
use mlx_vulkan_core::clock::Tick;

use super::work::{Work, Works};
use crate::runtime::{
    builders::Pipeline,
    device::Gate,
    hazards::Region,
    memory::allocation::Allocation,
    raw::{ending, timeline::Timeline},
    timer::{self, GLANCE, Timer},
};

/// Looks at another stream's hand-over before a committer sleeps between them.
const MOST_YIELDS: usize = 1000;

/// Buffer and offset of bytes, for transfers.
pub(crate) type BufferOffset = (vk::Buffer, u64);

/// Something that a stream does.
pub(crate) enum Item {
    /// A dispatch.
    Work(Box<Work>),
    /// A copy of bytes, or a fill.
    Transfer(Transfer),
    /// Everything after it starts only after a point of another timeline.
    Wait(Wait),
}

/// A transfer command with the memory that it touches.
pub(crate) struct Transfer {
    pub(crate) command: Command,
    pub(crate) read: Option<Region>,
    pub(crate) write: Region,
}

/// A transfer command.
pub(crate) enum Command {
    Copy {
        from: BufferOffset,
        to: BufferOffset,
        bytes: u64,
    },
    /// A multiple of four bytes, with a repeated word.
    Fill {
        to: BufferOffset,
        bytes: u64,
        word: u32,
    },
}

/// A point of a timeline.
pub(crate) struct Wait {
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) value: u64,
    /// The stream whose timeline it is; none for a gate that the host opens.
    stream: Option<Arc<Timer>>,
    /// What has to be in a queue before: it may be what the host waits for before it opens a gate.
    before: Vec<(Arc<Timer>, u64)>,
}

impl Wait {
    /// Until a stream has reached `value`.
    pub(crate) fn stream(timer: Arc<Timer>, value: u64) -> Self {
        let before = vec![(timer.clone(), value)];
        Wait { timeline: timer.timeline.clone(), value, stream: Some(timer), before }
    }

    /// Lets `stream` wait until the host opens a gate.
    pub(crate) fn gate(gate: &Gate, stream: u16) -> Self {
        let before = timer::under_way(stream);
        Wait { timeline: gate.timeline.clone(), value: gate.value, stream: None, before }
    }

    /// Waits until what it waits for is in a queue: two streams may share one, and what comes first
    /// in it must not wait for what comes later.
    pub(super) fn until_handed_over(&self) {
        let mut looks = 0;
        while !self.is_handed_over() {
            ending::stop_if_ending();
            looks += 1;
            // The other stream may wait for a pipeline, which takes a driver milliseconds or seconds.
            if looks < MOST_YIELDS { thread::yield_now() } else { thread::sleep(GLANCE) }
        }
    }

    /// Whether what it waits for is in a queue, or never will be.
    pub(super) fn is_handed_over(&self) -> bool {
        let is_there = |(timer, value): &(Arc<Timer>, u64)| {
            timer.handed.load(Acquire) >= *value || timer.raw.check().is_err()
        };
        self.before.iter().all(is_there)
    }

    /// The value to wait for, once what it waits for is in a queue.
    pub(super) fn signal(&self) -> u64 {
        self.stream.as_ref().map_or(self.value, |timer| timer.signal_of(self.value))
    }
}

/// The end of an evaluation, for statistics and the trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) operations: u64,
    /// When its first operation was encoded.
    pub(crate) start: u64,
}

/// What was encoded towards one value of the stream's clock.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) items: Vec<Item>,
    /// The clock's value once it has run.
    pub(crate) value: u64,
    /// Nothing is known to follow: it goes to the device at once.
    pub(crate) last: bool,
    pub(crate) ended: Option<Ended>,
    /// A pipeline that it needs was not made when that was encoded.
    is_cold: bool,
}

impl Item {
    /// Its pipeline, if that is not made yet.
    fn missing(&self) -> Option<&Arc<Pipeline>> {
        match self {
            Item::Work(work) => Some(work.pipeline()).filter(|pipeline| !pipeline.is_made()),
            _ => None,
        }
    }
}

impl Batch {
    /// A pipeline that it needs and that is not made yet.
    pub(super) fn missing(&self) -> Option<&Arc<Pipeline>> {
        if self.is_cold { self.items.iter().find_map(Item::missing) } else { None }
    }
}

/// The batches between an encoder and its committer.
#[derive(Default)]
pub(crate) struct Queue {
    open: Vec<Item>,
    /// A pipeline that the open batch needs was not made when that was encoded.
    is_cold: bool,
    batches: VecDeque<Batch>,
    /// Emptied lists of items, to be filled again.
    spare: Vec<Vec<Item>>,
    done: Works,
}

impl Queue {
    /// Appends to the open batch.
    pub(crate) fn push(&mut self, item: Item) {
        self.is_cold |= item.missing().is_some();
        self.open.push(item);
    }

    /// Items of the open batch.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Takes the dispatches from the `first` item of the open batch on back.
    pub(crate) fn take_back(&mut self, first: usize) -> Vec<Item> {
        let all = self.open.drain(first.min(self.open.len())..);
        let (works, others) = all.partition::<Vec<_>, _>(|item| matches!(item, Item::Work(_)));
        self.open.extend(others);
        works
    }

    /// Whether everything that the batches wait for is in a queue of a device, and their pipelines are made.
    pub(crate) fn is_ready(&self) -> bool {
        let mut items = self.batches.iter().flat_map(|batch| &batch.items);
        self.batches.iter().all(|batch| batch.missing().is_none())
            && items.all(|item| !matches!(item, Item::Wait(wait) if !wait.is_handed_over()))
    }

    /// A pipeline that the next batch needs and that is not made yet.
    pub(crate) fn missing(&self) -> Option<Arc<Pipeline>> {
        self.batches.front()?.missing().cloned()
    }

    /// The operation is encoded: its temporary memory is needed as long as its last dispatch.
    pub(crate) fn keep(&mut self, scratch: &mut Vec<Arc<Allocation>>, tick: Tick) {
        scratch.iter().for_each(|memory| memory.touch(tick));
        match self.open.last_mut() {
            Some(Item::Work(work)) => work.scratch.append(scratch),
            // Everything is handed over, or ordered by the transfer.
            _ => scratch.clear(),
        }
    }

    /// Closes the open batch.
    pub(crate) fn close(&mut self, value: u64, last: bool, ended: Option<Ended>) {
        let next = self.spare.pop().unwrap_or_default();
        let items = std::mem::replace(&mut self.open, next);
        let is_cold = std::mem::take(&mut self.is_cold);
        self.batches.push_back(Batch { items, value, last, ended, is_cold });
    }

    /// Takes recorded works back. The thread that encodes frees what they hold: reference counts and
    /// allocations stay with one core then, which is what makes a second thread worth while.
    pub(crate) fn give_back(&mut self, done: &mut Works) {
        self.done.append(done);
    }

    /// What was recorded, to be freed.
    pub(crate) fn done(&mut self) -> Works {
        std::mem::take(&mut self.done)
    }

    /// The next batch, if its pipelines are made.
    pub(crate) fn take(&mut self) -> Option<Batch> {
        if self.missing().is_some() { None } else { self.batches.pop_front() }
    }

    /// Takes an emptied list back.
    pub(crate) fn recycle(&mut self, items: Vec<Item>) {
        self.spare.push(items);
    }

    /// Batches that wait, and the items in them.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.batches.len(), self.batches.iter().map(|b| b.items.len()).sum())
    }
}
