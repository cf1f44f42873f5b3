//! The committer of a stream: takes over what its encoder encodes, records it with exact
//! barriers and gives it to the queue.
//!
//! Recorded work is given to the queue when an evaluation ends, or when the device is at the last submission
//! that it has: it goes on with the next one at once. While more is in the queue, what follows is better done
//! in the same submission, where nothing waits for the end of a command buffer (17 µs on an H200).

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::*},
};

use ash::vk;
use mlx_vulkan_core::{Error, Result, clock::Tick};
use smallvec::SmallVec;
use vulkano::device::Queue as DeviceQueue;

use super::{
    queue::{Batch, Command, Ended, Item, Transfer, Wait},
    work::{Work, Works},
};
use crate::runtime::{
    device::DeviceState,
    hazards::Hazards,
    profile::Marks,
    raw::{
        ending::{self, InDriver},
        error,
        pipeline::Pipeline,
        recorder::{self, Recorder},
    },
    stats::{self, Evaluation},
    timer::{self, Timer},
    trace,
};

/// Dispatches that are recorded before they are handed over even to a busy device; profiles and traces
/// have room for as many in one command buffer.
const MOST_RECORDED: u64 = 2048;

/// Command buffers with which a stream registers what happens when the process ends.
const MOST_WATCHED: usize = 2;

/// A command buffer of the ring.
struct Slot {
    recorder: Recorder,
    marks: Option<Marks>,
}

/// What the device was given at once, with what must live until it has run.
struct Submission {
    /// What it raises the clock to.
    value: u64,
    /// None where only the clock goes on.
    slot: Option<Slot>,
    _waits: Vec<Wait>,
}

/// Records and submits.
pub(super) struct Committer {
    /// Where the last evaluation's slice ends in the trace.
    traced_until: u64,
    device: Arc<DeviceState>,
    timer: Arc<Timer>,
    queue: Arc<DeviceQueue>,
    /// What was recorded.
    pub(super) done: Works,
    idle: Vec<Slot>,
    current: Option<Slot>,
    in_flight: VecDeque<Submission>,
    hazards: Hazards,
    bound: vk::Pipeline,
    /// The last that was recorded leads, and nothing before it is under way beside it.
    led: bool,
    waits: Vec<Wait>,
    /// The clock's value once everything that was taken over has run.
    value: u64,
    /// Counted since the last submission; the registry's counters are shared by all threads.
    dispatches: u64,
    barriers: u64,
    /// Counted since the evaluation began.
    evaluation: Evaluation,
    /// Why a command buffer could not be begun. Nothing is recorded any more then: it would go by what is
    /// missing.
    unbegun: Option<Error>,
    /// Handlers of the process's end that were registered for the stream.
    watched: usize,
}

impl Committer {
    pub(super) fn new(
        device: Arc<DeviceState>,
        timer: Arc<Timer>,
        queue: Arc<DeviceQueue>,
    ) -> Self {
        Committer {
            device,
            timer,
            queue,
            done: Works::new(),
            idle: Vec::new(),
            current: None,
            in_flight: VecDeque::new(),
            hazards: Hazards::new(),
            bound: vk::Pipeline::null(),
            led: false,
            waits: Vec::new(),
            value: 0,
            dispatches: 0,
            barriers: 0,
            evaluation: Evaluation::default(),
            traced_until: 0,
            unbegun: None,
            watched: 0,
        }
    }

    /// Takes a batch over.
    pub(super) fn commit(&mut self, batch: &mut Batch) -> Result<()> {
        let mut result = Ok(());
        for item in batch.items.drain(..) {
            result = result.and(self.take(item, batch.value));
        }
        self.value = batch.value;
        result
    }

    /// A batch was taken over: hands everything over if it is the last one, or the device waits for it.
    pub(super) fn committed(&mut self, batch: &Batch) -> Result<()> {
        let now = batch.last || self.dispatches >= MOST_RECORDED || self.is_wanted();
        if let Some(ended) = batch.ended {
            self.end(ended);
        }
        if now { self.submit() } else { Ok(()) }
    }

    fn take(&mut self, item: Item, value: u64) -> Result<()> {
        match item {
            Item::Work(work) => {
                let opened = self.open_for(value);
                if opened.is_ok() {
                    self.record(&work, value);
                }
                // Also after a failure: the thread that encodes frees what it holds.
                self.done.push(work);
                opened
            }
            Item::Transfer(transfer) => self.transfer(&transfer, value),
            Item::Wait(wait) => {
                // What is encoded already must not wait: others may be waiting for it.
                self.submit()?;
                self.waits.push(wait);
                Ok(())
            }
        }
    }

    /// Whether the device is at its last submission, or has none, while there is something for it. To hand
    /// over once it has none takes some 100 µs, in which it stands still.
    pub(super) fn is_wanted(&self) -> bool {
        let under_way = || {
            let now = self.timer.now();
            self.in_flight.iter().filter(|given| given.value > now).count()
        };
        self.is_behind() && under_way() < 2
    }

    /// Whether everything that is to be waited for is in a queue.
    pub(super) fn is_ready(&self) -> bool {
        self.waits.iter().all(Wait::is_handed_over)
    }

    /// Whether something that was taken over is not handed over.
    pub(super) fn is_behind(&self) -> bool {
        self.value > self.timer.handed.load(Relaxed)
    }

    /// The pipeline of a dispatch of the batch `value`; none if there is none, or if there was none for an
    /// earlier one: what that should have made may be what this one goes by.
    fn pipeline<'w>(&self, work: &'w Work, value: u64) -> Option<&'w Pipeline> {
        let lacks = &self.timer.lacks;
        // Whoever gave the batch over has waited for it.
        let made = work.pipeline().made();
        made.map_err(|error| lacks.add(value, error)).ok().filter(|_| !lacks.concerns(value))
    }

    /// Records a dispatch of the batch `value`, after a barrier if it touches memory that earlier ones
    /// changed, or if it has to be alone.
    fn record(&mut self, work: &Work, value: u64) {
        let Some(pipeline) = self.pipeline(work, value) else { return };
        let (push, groups) = work.call();
        let ([reads, writes], alone) = (work.regions(), work.alone);
        let hazard = match alone {
            true => self.hazards.access_all(),
            false => self.hazards.access(reads, writes),
        };
        let hazard = hazard && !(self.led && work.beside);
        self.led = work.leads && hazard;
        let Some(slot) = &mut self.current else { return };
        let recorder = &mut slot.recorder;
        if let Some(guards) = &self.device.guards {
            let tick = Tick { stream: self.timer.stream, value };
            guards.note(pipeline.name(), tick, writes);
        }
        if hazard || self.device.config.serialize || slot.marks.is_some() {
            recorder.barrier();
            self.barriers += 1;
            self.evaluation.barriers += 1;
        }
        if self.bound != pipeline.handle() {
            recorder.bind(pipeline);
            self.bound = pipeline.handle();
        }
        recorder.push(pipeline, push);
        if let Some(marks) = &mut slot.marks {
            let touched = reads.iter().chain(writes).map(|r| r.bytes).sum();
            marks.before(recorder, pipeline.name(), touched);
        }
        recorder.dispatch(groups);
        if let Some(marks) = &mut slot.marks {
            marks.after(recorder);
        }
        self.dispatches += 1;
        self.evaluation.dispatches += 1;
    }

    /// Records a transfer of the batch `value`.
    fn transfer(&mut self, transfer: &Transfer, value: u64) -> Result<()> {
        self.open_for(value)?;
        let reads = transfer.read.as_slice();
        let hazard = self.hazards.access(reads, std::slice::from_ref(&transfer.write));
        self.led = false;
        let Some(slot) = &mut self.current else { return Ok(()) };
        if hazard || self.device.config.serialize {
            slot.recorder.barrier();
            self.barriers += 1;
            self.evaluation.barriers += 1;
        }
        match transfer.command {
            Command::Copy { from, to, bytes } => slot.recorder.copy(from, to, bytes),
            Command::Fill { to, bytes, word } => slot.recorder.fill(to, bytes, word),
        }
        Ok(())
    }

    /// The command buffer, if one is recording.
    pub(super) fn recorder(&mut self) -> Option<&mut Recorder> {
        self.current.as_mut().map(|slot| &mut slot.recorder)
    }

    /// Makes sure that a command buffer is recording for the batch `value`. Where there is none, all who ask
    /// for results from that batch on are told, before the clock passes it.
    fn open_for(&mut self, value: u64) -> Result<()> {
        if let Some(error) = &self.unbegun {
            return Err(error.clone());
        }
        let opened = self.open();
        if let Err(error) = &opened {
            self.timer.fail(value, error.clone());
            self.unbegun = Some(error.clone());
        }
        opened
    }

    /// Makes sure that a command buffer is recording.
    pub(super) fn open(&mut self) -> Result<()> {
        if self.current.is_some() {
            return Ok(());
        }
        self.reclaim();
        let mut slot = match self.idle.pop() {
            Some(slot) => slot,
            None => self.new_slot()?,
        };
        let raw = &self.device.raw;
        let begun = raw.command_buffer_fault(self.timer.stream).map_or(Ok(()), Err);
        begun.and_then(|()| slot.recorder.begin()).map_err(|e| raw.fail("encode", &e))?;
        if let Some(marks) = &mut slot.marks {
            marks.begin(&mut slot.recorder);
        }
        self.hazards.clear();
        self.bound = vk::Pipeline::null();
        self.led = false;
        self.current = Some(slot);
        Ok(())
    }

    fn new_slot(&mut self) -> Result<Slot> {
        let raw = &self.device.raw;
        let recorder = Recorder::new(raw).map_err(|e| error::validated_error("encode", &e))?;
        let marks = Marks::new(&self.device);
        // When the second one is made, the driver has had work to do, and registered what it does at exit.
        // Later ones would only make the list of handlers longer: the stream lives as long as the process.
        if self.watched < MOST_WATCHED {
            self.watched += 1;
            ending::watch(timer::finish);
        }
        Ok(Slot { recorder, marks })
    }

    /// Hands everything that was taken over to the queue, and be it nothing but the clock's value: other
    /// streams may wait for it. Does not wait for the device.
    pub(super) fn submit(&mut self) -> Result<()> {
        if !self.is_behind() && self.current.is_none() {
            return Ok(());
        }
        ending::stop_if_ending();
        let result = self.give();
        // Also after a failure: who waits must find the error, not wait for a submission.
        self.timer.hand_over(self.value);
        (self.dispatches, self.barriers) = (0, 0);
        result
    }

    /// Ends the command buffer, if there is one, and gives it to the queue.
    fn give(&mut self) -> Result<()> {
        let (mut slot, waits) = (self.current.take(), std::mem::take(&mut self.waits));
        waits.iter().for_each(Wait::until_handed_over);
        let start = trace::is_on(self.device.config).then(trace::now);
        let marks = slot.as_mut().and_then(|slot| slot.marks.as_mut());
        if let (Some(marks), Some(start)) = (marks, start) {
            marks.submitted(self.value, start);
        }
        stats::SUBMITS.add(1);
        stats::DISPATCHES.add(self.dispatches);
        stats::BARRIERS.add(self.barriers);
        let until: SmallVec<[(vk::Semaphore, u64); 4]> =
            waits.iter().map(|w| (w.timeline.handle(), w.signal())).collect();
        let signal = (self.timer.timeline.handle(), self.value);
        let submitted = match &mut slot {
            Some(Slot { recorder, .. }) => {
                recorder.end().and_then(|()| recorder.submit(&self.queue, &until, signal))
            }
            None => recorder::signal_after(&self.device.raw, &self.queue, &until, signal),
        };
        if let Some(start) = start {
            trace::submitted(self.timer.stream, self.value, self.dispatches, self.barriers, start);
        }
        self.in_flight.push_back(Submission { value: self.value, slot, _waits: waits });
        submitted.map_err(|error| self.device.raw.lose("submit", &error))
    }

    /// Counts an evaluation that has ended.
    fn end(&mut self, ended: Ended) {
        let counted = std::mem::take(&mut self.evaluation);
        stats::evaluated(Evaluation { operations: ended.operations, ..counted });
        if trace::is_on(self.device.config) {
            // The next evaluation may begin before this one is recorded: its slice begins behind it.
            let start = ended.start.max(self.traced_until);
            trace::evaluated(self.timer.stream, ended.operations, start);
            self.traced_until = trace::now();
        }
    }

    /// Gives up the command buffers that have run.
    pub(super) fn rest(&mut self) {
        let _in_driver = InDriver::new();
        self.reclaim();
        self.idle = Vec::new();
    }

    /// Takes back the command buffers that have run.
    pub(super) fn reclaim(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let now = self.timer.now();
        while let Some(given) = self.in_flight.pop_front_if(|given| given.value <= now) {
            let Some(mut slot) = given.slot else { continue };
            if let Some(marks) = &mut slot.marks {
                marks.collect(self.timer.stream);
            }
            self.idle.push(slot);
        }
    }
}
