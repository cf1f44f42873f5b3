//! The encoder of a stream: describes its work and hands it over to the committer in batches.

mod memory;

use std::{
    any::Any,
    mem::take,
    sync::{
        Arc,
        atomic::Ordering::{Acquire, Relaxed, Release},
    },
};

use bytemuck::Pod;
use mlx_vulkan_core::{Error, Result, buffer::BufferRef, clock::Tick};
use parking_lot::MappedMutexGuard;
use smallvec::SmallVec;

use crate::runtime::{
    builders::Pipeline,
    capabilities::Capabilities,
    commit::{BufferOffset, Call, Command, Ended, Handover, Item, Transfer, Wait, Work},
    device::DeviceState,
    memory::{
        allocation::{Allocation, Span},
        ring::{self, Ring},
    },
    observe,
    pipelines::PipelineOf,
    raw::{ending::InDriver, recorder::Recorder},
    timer::Timer,
    trace,
};

pub(crate) use crate::runtime::hazards::Region;

const ARGS_CHUNK: u64 = 256 << 10;
pub(crate) const STAGING_CHUNK: u64 = 8 << 20;
/// Full staging chunks before uploads wait for the oldest.
const STAGING_CHUNKS: usize = 4;

/// One run of a kernel.
#[derive(Debug)]
pub(crate) struct Dispatch<'a, P> {
    /// The kernel.
    pub(crate) pipeline: &'a PipelineOf<P>,
    /// Its push constants.
    pub(crate) push: &'a P,
    /// Number of workgroups along each axis.
    pub(crate) groups: [u32; 3],
    /// Memory that it reads. Arguments from [`Encoder::args`] need not be named.
    pub(crate) reads: &'a [Region],
    /// Memory that it writes.
    pub(crate) writes: &'a [Region],
}

/// What an operation's operands have to do with others of the open batch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Recent {
    /// Inputs that were written in it.
    pub(crate) written: usize,
    /// Whether something that it writes in place was read in it.
    pub(crate) overwritten: bool,
}

/// Work that a layer above has put off, to encode it together. Everything else is encoded after it, but for
/// dispatches that touch nothing of it, which go first.
pub(crate) trait Deferred: Any + Send {
    /// Whether there is none.
    fn is_empty(&self) -> bool;

    /// Whether it writes memory of `reads` or `writes`, or reads some of `writes`.
    fn touches(&self, reads: &[Region], writes: &[Region]) -> bool;

    /// A pipeline that has to be made before it can be encoded, and is not yet.
    fn missing(&self) -> Option<Arc<Pipeline>>;

    /// Whether it can be encoded without what comes next, as well as with it, and without waiting.
    fn may_end(&self) -> bool;

    /// Encodes it.
    ///
    /// # Errors
    /// When memory is out or the device fails.
    fn encode(&mut self, encoder: &mut Encoder) -> Result<()>;

    /// Gives up memory that is kept from one time to the next; nothing uses it now.
    fn rest(&mut self);
}

/// Why an operation could not be encoded now: what has to be waited for before it is tried again.
#[derive(Debug)]
pub(crate) enum Blocked {
    /// Memory is out.
    Memory,
    /// What was put off needs this pipeline first.
    Pipeline(Arc<Pipeline>),
    /// Something is in use, or not there, until this tick.
    Until(Tick),
}

/// What the operation that is being encoded has done, to undo it should it fail.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Its first dispatch in the open batch.
    first: Option<usize>,
    /// Dispatches of it were handed over: they will run.
    handed: bool,
}

/// Encodes the work of one stream: describes it, with what it reads and writes, for the committer.
pub(crate) struct Encoder {
    device: Arc<DeviceState>,
    timer: Arc<Timer>,
    handover: Arc<Handover>,
    ops: u64,
    pub(crate) bytes: u64,
    args: Ring,
    pub(crate) staging: Ring,
    pub(crate) scratch: Vec<Arc<Allocation>>,
    /// Memory that the next dispatch uses.
    pub(crate) held: SmallVec<[BufferRef; 6]>,
    /// Of the operands of the operation that is being encoded.
    pub(crate) recent: Recent,
    /// What is encoded before anything else.
    deferred: Option<Box<dyn Deferred>>,
    /// The last are in use. Smaller ones stay: an operation that has them may go on in later batches.
    counters: Vec<Arc<Allocation>>,
    /// The operation that is being encoded.
    pub(crate) op: &'static str,
    max_groups: [u32; 3],
    /// Operations since the evaluation began, and when that was, for the trace.
    operations: u64,
    evaluation_start: u64,
    /// The operation's kernels, if statistics ask for them.
    used: Option<Vec<&'static str>>,
    pub(crate) done: Done,
    /// The operation writes to an input's memory.
    pub(crate) in_place: bool,
    pub(super) blocked: Option<Blocked>,
    /// What is encoded may be tried again after a wait.
    pub(super) may_wait: bool,
}

impl Encoder {
    pub(crate) fn new(
        device: Arc<DeviceState>,
        timer: Arc<Timer>,
        handover: Arc<Handover>,
        deferred: Option<Box<dyn Deferred>>,
    ) -> Self {
        let raw = device.raw.clone();
        Encoder {
            max_groups: raw.capabilities.max_groups,
            operations: 0,
            evaluation_start: 0,
            used: observe::is_on(device.config).then(Vec::new),
            ops: 0,
            bytes: 0,
            args: Ring::new(raw.clone(), ARGS_CHUNK, 2),
            staging: Ring::new(raw, STAGING_CHUNK, 1),
            scratch: Vec::new(),
            held: SmallVec::new(),
            recent: Recent::default(),
            deferred,
            counters: Vec::new(),
            done: Done::default(),
            in_place: false,
            blocked: None,
            may_wait: false,
            op: "transfer",
            handover,
            device,
            timer,
        }
    }

    /// What the device can do.
    pub(crate) fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }

    pub(crate) fn device(&self) -> &Arc<DeviceState> {
        &self.device
    }

    /// The clock of the stream.
    pub(crate) fn timer(&self) -> &Arc<Timer> {
        &self.timer
    }

    /// What is put off, if the stream does so.
    pub(crate) fn deferred(&mut self) -> Option<&mut dyn Deferred> {
        self.deferred.as_deref_mut()
    }

    /// Encodes what was put off.
    fn flush(&mut self) -> Result<()> {
        let Some(mut deferred) = self.deferred.take_if(|d| !d.is_empty()) else { return Ok(()) };
        if self.may_wait
            && let Some(missing) = deferred.missing()
        {
            self.deferred = Some(deferred);
            self.blocked = Some(Blocked::Pipeline(missing));
            return Err(Error::device("encode", "a pipeline has to be made first"));
        }
        // Somebody else's operation may be half encoded.
        let (held, scratch, op) = (take(&mut self.held), take(&mut self.scratch), self.op);
        let done = take(&mut self.done);
        let result = deferred.encode(self);
        (self.held, self.scratch, self.op) = (held, scratch, op);
        // What that operation has encoded before stays: what was put off would be taken back with it.
        self.done = match done.first {
            Some(_) => Done { first: Some(self.handover.queue().len()), handed: true },
            None => done,
        };
        self.deferred = Some(deferred);
        result
    }

    /// Index of the stream.
    pub(crate) fn stream(&self) -> u16 {
        self.timer.stream
    }

    fn submitted(&self) -> u64 {
        // Only the encoder writes it, and we are the encoder.
        self.timer.submitted.load(Relaxed)
    }

    /// The tick of the work that is encoded next.
    pub(crate) fn open_tick(&self) -> Tick {
        Tick { stream: self.timer.stream, value: self.submitted() + 1 }
    }

    /// The tick of everything encoded so far.
    pub(crate) fn tick(&self) -> Tick {
        self.timer.tick()
    }

    /// Encodes a dispatch.
    ///
    /// # Errors
    /// When the grid is over the device's limits, or the device fails.
    pub(crate) fn dispatch<P: Pod>(&mut self, dispatch: &Dispatch<'_, P>) -> Result<()> {
        let &Dispatch { pipeline, push, groups, reads, writes } = dispatch;
        if groups.contains(&0) {
            return Ok(());
        }
        let most = self.max_groups;
        if groups.iter().zip(most).any(|(&asked, most)| asked > most) {
            let name = pipeline.name();
            let message = format!("{name}: grid {groups:?} is over the limit {most:?}");
            return Err(Error::device("dispatch", message));
        }
        self.encode_work(Work::new(Call::new(pipeline.clone(), push, groups), reads, writes))
    }

    /// The same for a dispatch that is described already, with a grid within the limits.
    ///
    /// # Errors
    /// When the device fails, or is known to refuse the kernel.
    pub(crate) fn encode_work(&mut self, mut work: Work) -> Result<()> {
        work.pipeline().check()?;
        if !self.goes_first(&work) {
            self.flush()?;
        }
        self.open()?;
        // What is written takes memory until it has run; what is read or overwritten is there anyway.
        self.bytes += work.written();
        self.ops += 1;
        self.note_used(work.name());
        work.held = take(&mut self.held);
        let mut queue = self.handover.queue();
        self.done.first.get_or_insert(queue.len());
        queue.push(Item::Work(Box::new(work)));
        Ok(())
    }

    /// Whether a dispatch may be encoded before what was put off.
    fn goes_first(&self, work: &Work) -> bool {
        let Recent { written, overwritten } = self.recent;
        // New memory is none that somebody holds.
        let is_apart = written == 0 && !overwritten;
        let [reads, writes] = work.regions();
        is_apart || self.deferred.as_ref().is_some_and(|deferred| !deferred.touches(reads, writes))
    }

    /// Counts a kernel of the operation, if statistics ask for them.
    pub(crate) fn note_used(&mut self, kernel: &'static str) {
        if let Some(used) = &mut self.used {
            used.push(kernel);
        }
    }

    /// Keeps a buffer's memory until the work that is encoded next is recorded.
    pub(crate) fn hold(&mut self, buffer: &BufferRef) {
        self.held.push(buffer.clone());
    }

    /// Copies `bytes` to where kernels can read them until the work encoded next has run; returns
    /// the address, a multiple of 16.
    ///
    /// # Errors
    /// When memory is out.
    pub(crate) fn args(&mut self, bytes: &[u8]) -> Result<u64> {
        let (timer, size) = (&self.timer, bytes.len() as u64);
        let slot = self.args.reserve(size, || timer.now());
        let slot = slot.map_err(|e| self.no_memory(size, &e))?;
        slot.write(bytes);
        // The chunk is recycled with a submission, so there has to be one.
        self.open()?;
        Ok(slot.address)
    }

    /// An operation begins, or one kernel's share of `count` of them: its memory is named after it.
    pub(crate) fn begin_op(&mut self, op: &'static str, count: u64) {
        self.op = op;
        self.timer.lacks.notice(self.tick().value);
        self.recent = Recent::default();
        (self.done, self.in_place, self.blocked) = (Done::default(), false, None);
        if self.operations == 0 && trace::is_on(self.device.config) {
            self.evaluation_start = trace::now();
        }
        self.operations += count;
        if let Some(used) = &mut self.used {
            used.clear();
        }
    }

    /// The kernels of the operation, if statistics ask for them.
    pub(crate) fn used(&self) -> Option<&[&'static str]> {
        self.used.as_deref()
    }

    /// Hands over what is encoded at the end of an evaluation.
    pub(crate) fn finalize(&mut self) -> Result<()> {
        let (operations, start) = (take(&mut self.operations), self.evaluation_start);
        self.close(true, (operations > 0).then_some(Ended { operations, start }))
    }

    /// Fills memory with signalling garbage (a NaN as float, a large integer).
    fn poison(&mut self, allocation: &Allocation) -> Result<()> {
        let span = allocation.span();
        // Guarded memory is not whole words.
        let (start, bytes) = (span.buffer_offset(0), span.bytes / 4 * 4);
        let region = Region { address: span.address(), bytes };
        if bytes == 0 {
            return Ok(());
        }
        self.fill(start, region, 0x7FF7_7FF7)
    }

    /// Encodes a staging copy.
    pub(crate) fn copy(
        &mut self,
        from: BufferOffset,
        read: Region,
        to: &Span,
        at: u64,
    ) -> Result<()> {
        if read.bytes == 0 {
            return Ok(());
        }
        let write = Region { address: to.address() + at, bytes: read.bytes };
        let command = Command::Copy { from, to: to.buffer_offset(at), bytes: read.bytes };
        self.transfer(Transfer { command, read: Some(read), write })
    }

    /// Encodes the copy of a span's first bytes to another span.
    pub(crate) fn copy_span(&mut self, from: &Span, to: &Span, bytes: u64) -> Result<()> {
        self.copy(from.buffer_offset(0), Region { address: from.address(), bytes }, to, 0)
    }

    /// Encodes filling a region, which begins at `to`, with a word.
    pub(crate) fn fill(&mut self, to: BufferOffset, write: Region, word: u32) -> Result<()> {
        let command = Command::Fill { to, bytes: write.bytes, word };
        self.transfer(Transfer { command, read: None, write })
    }

    fn transfer(&mut self, transfer: Transfer) -> Result<()> {
        self.flush()?;
        self.transfer_first(transfer)
    }

    /// Encodes a transfer before what was put off, which must not touch the same memory.
    fn transfer_first(&mut self, transfer: Transfer) -> Result<()> {
        self.open()?;
        self.ops += 1;
        self.bytes += transfer.write.bytes;
        self.handover.queue().push(Item::Transfer(transfer));
        Ok(())
    }

    /// Room in the staging ring; when too much is in flight, the operation is to be tried again.
    pub(crate) fn stage(&mut self, bytes: u64) -> Result<ring::Slot> {
        // Every copy of what was staged before is encoded.
        self.staging.settle(self.tick().value);
        let (full, oldest) = self.staging.pressure();
        if full >= STAGING_CHUNKS {
            if oldest > self.submitted() {
                self.commit()?;
            }
            if !self.timer.has_reached(oldest) {
                return Err(self.block_until(Tick { stream: self.stream(), value: oldest }));
            }
        }
        let timer = &self.timer;
        let slot = self.staging.reserve(bytes, || timer.now());
        let slot = slot.map_err(|e| self.no_memory(bytes, &e))?;
        self.open()?;
        Ok(slot)
    }

    /// The operation that is being encoded has to be tried again once `tick` is reached.
    pub(crate) fn block_until(&mut self, tick: Tick) -> Error {
        self.blocked = Some(Blocked::Until(tick));
        Error::device("encode", "work that was encoded has to run first")
    }

    /// Lets everything encoded from now on start only after a point of another timeline.
    pub(crate) fn wait_for(&mut self, wait: Wait) -> Result<()> {
        // What is encoded already must not wait: others may be waiting for it.
        self.commit()?;
        self.handover.queue().push(Item::Wait(wait));
        Ok(())
    }

    /// Takes back what the operation has encoded so far; if it may be tried again, what it has to wait for.
    /// Copies of its inputs to the device stay: they are there the next time.
    pub(crate) fn undo_op(&mut self) -> Option<Blocked> {
        let Done { first, handed } = take(&mut self.done);
        let works = first.map(|first| self.handover.queue().take_back(first));
        drop(works);
        self.held.clear();
        // What was handed over may overwrite an input: it cannot be read once more.
        self.blocked.take().filter(|_| !(handed && self.in_place))
    }

    /// Ends an operation: its scratch memory is free for the next one, and a full batch is handed
    /// over.
    pub(crate) fn end_op(&mut self) -> Result<()> {
        self.keep_scratch();
        // It may have gone on in later batches than those in which it asked for arguments.
        self.args.settle(self.tick().value);
        self.op = "transfer";
        let config = self.device.config;
        let full =
            self.ops >= config.max_ops_per_buffer || self.bytes >> 20 >= config.max_mb_per_buffer;
        if full { self.close(false, None) } else { Ok(()) }
    }

    /// Lets what was encoded last keep the scratch memory.
    pub(crate) fn keep_scratch(&mut self) {
        if !self.scratch.is_empty() {
            // The operation may have gone on in another batch than the one it began in.
            let tick = self.tick();
            self.handover.queue().keep(&mut self.scratch, tick);
        }
    }

    /// Whether something was encoded towards the next value of the clock.
    fn is_open(&self) -> bool {
        self.tick().value > self.submitted()
    }

    /// Makes sure that something is encoded towards the next value of the clock.
    pub(crate) fn open(&mut self) -> Result<()> {
        if !self.is_open() {
            self.timer.check()?;
            self.timer.encoded.store(self.submitted() + 1, Release);
        }
        Ok(())
    }

    /// Hands what is encoded over to the device. Does not wait; see [`Encoder::overdue`].
    ///
    /// # Errors
    /// When the device fails.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.close(true, None)
    }

    /// The same if the device has at most `under_way` submissions of the stream, and what was put off can end
    /// here; whether it did. Where memory is out, the next operation asks again, and can wait.
    ///
    /// # Errors
    /// When the device fails.
    pub(crate) fn offer(&mut self, under_way: usize) -> Result<bool> {
        let may_end = self.deferred.as_ref().is_none_or(|deferred| deferred.may_end());
        let handed = || self.submitted() == self.timer.handed.load(Acquire);
        if !may_end || !self.is_open() || !handed() || self.timer.under_way() > under_way {
            return Ok(false);
        }
        match self.commit() {
            Err(Error::OutOfMemory { .. }) => {
                self.blocked = None;
                Ok(false)
            }
            result => result.map(|()| true),
        }
    }

    /// Closes the batch; with the `last` one everything is handed over, also what was held back for
    /// what might follow.
    fn close(&mut self, last: bool, ended: Option<Ended>) -> Result<()> {
        self.flush()?;
        let behind = self.submitted() > self.timer.handed.load(Acquire);
        if !(self.is_open() || last && behind || ended.is_some()) {
            return Ok(());
        }
        self.seal(last, ended);
        self.handover.notify(last)?;
        self.handover.free();
        Ok(())
    }

    fn seal(&mut self, last: bool, ended: Option<Ended>) {
        let value = self.tick().value;
        (self.ops, self.bytes) = (0, 0);
        self.done.handed |= self.done.first.take().is_some();
        self.handover.queue().close(value, last, ended);
        self.timer.submitted.store(value, Release);
    }

    /// The value to wait for before more is encoded: none while at most
    /// `MLX_VK_MAX_INFLIGHT_SEQUENCES` batches are in flight. The stream waits without holding the
    /// encoder, since what it waits for may need the encoder (a CPU stream that reads back).
    pub(crate) fn overdue(&mut self) -> Option<u64> {
        let most = self.device.config.max_inflight_sequences.max(1);
        let value = self.submitted().checked_sub(most)?;
        (!self.timer.has_reached(value)).then_some(value)
    }

    /// Gives up memory that is kept for what is encoded next; whether everything encoded has run, before
    /// which nothing can go.
    pub(crate) fn rest(&mut self) -> bool {
        let idle = self.timer.now() >= self.tick().value;
        let _in_driver = InDriver::new();
        let deferred = self.deferred.as_deref_mut().filter(|d| idle && d.is_empty());
        if let Some(deferred) = deferred {
            deferred.rest();
        }
        if idle {
            self.args.rest();
            self.staging.rest();
            self.counters = Vec::new();
        }
        idle
    }

    /// For benches: records what is encoded.
    pub(crate) fn record(&mut self) -> Result<()> {
        self.flush()?;
        self.seal(false, None);
        self.handover.settle()
    }

    /// For benches: the recorder itself, without the hazard tracker.
    pub(crate) fn plain(&mut self) -> Result<MappedMutexGuard<'_, Recorder>> {
        self.open()?;
        self.handover.plain()
    }

    /// For benches: hands everything over and waits for it.
    pub(crate) fn drain(&mut self) -> Result<()> {
        self.commit()?;
        self.timer.block(self.submitted())?;
        self.handover.settle()
    }
}
