//! The command encoder of a stream: records dispatches with exact barriers and hands them over in
//! batches.

mod memory;

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::Release},
    time::Duration,
};

use ash::vk;
use mlx_core::{Error, Result, buffer::BufferRef, clock::Tick};
use smallvec::SmallVec;
use vulkano::device::Queue;

use crate::{
    capabilities::Capabilities,
    device::DeviceState,
    hazards::Hazards,
    memory::{
        allocation::{Allocation, Span},
        ring::{Place, Ring},
    },
    observe,
    pipelines::Pipeline,
    profile::Marks,
    raw::{error, recorder::Recorder, timeline::Timeline},
    stats::{self, Evaluation},
    stream::Timer,
    trace,
    window::{Call, Window, Work, step::Step},
};

pub use crate::hazards::Region;

const ARGS_CHUNK: u64 = 256 << 10;
pub(crate) const STAGING_CHUNK: u64 = 8 << 20;
/// Full staging chunks before uploads wait for the oldest.
const STAGING_CHUNKS: usize = 4;

/// How long an upload waits for a staging chunk before it takes a new one.
const STAGING_PATIENCE: Duration = Duration::from_secs(1);

/// One run of a kernel.
#[derive(Debug, Clone, Copy)]
pub struct Dispatch<'a> {
    /// The kernel.
    pub pipeline: &'a Arc<Pipeline>,
    /// Its push constants: at most 128 bytes, whole words.
    pub push: &'a [u8],
    /// Number of workgroups along each axis.
    pub groups: [u32; 3],
    /// Memory that it reads. Arguments from [`Encoder::args`] need not be named.
    pub reads: &'a [Region],
    /// Memory that it writes.
    pub writes: &'a [Region],
}

/// A command buffer of the ring with what must live until it has run.
struct Slot {
    recorder: Recorder,
    waits: SmallVec<[(Arc<Timeline>, u64); 2]>,
    marks: Option<Marks>,
}

/// Records the work of one stream.
pub struct Encoder {
    timer: Arc<Timer>,
    queue: Arc<Queue>,
    idle: Vec<Slot>,
    current: Option<Slot>,
    in_flight: VecDeque<(u64, Slot)>,
    window: Window,
    hazards: Hazards,
    bound: vk::Pipeline,
    ops: u64,
    bytes: u64,
    waits: SmallVec<[(Arc<Timeline>, u64); 2]>,
    args: Ring,
    pub(crate) staging: Ring,
    scratch: Vec<Arc<Allocation>>,
    counters: Option<Arc<Allocation>>,
    /// The operation that is being encoded.
    op: &'static str,
    max_groups: [u32; 3],
    serialize: bool,
    /// Counted since the last submission; the registry's counters are shared by all threads.
    dispatches: u64,
    barriers: u64,
    /// Counted since the evaluation began, and when that was, for the trace.
    evaluation: Evaluation,
    evaluation_start: u64,
    /// The operation's kernels, if statistics ask for them.
    used: Option<Vec<&'static str>>,
}

impl Encoder {
    pub(crate) fn new(timer: Arc<Timer>, queue: Arc<Queue>) -> Self {
        let raw = timer.device.raw.clone();
        Encoder {
            max_groups: raw.capabilities.max_groups,
            serialize: timer.device.config.serialize,
            dispatches: 0,
            barriers: 0,
            evaluation: Evaluation::default(),
            evaluation_start: 0,
            used: observe::is_on(timer.device.config).then(Vec::new),
            queue,
            idle: Vec::new(),
            current: None,
            in_flight: VecDeque::new(),
            window: Window::default(),
            hazards: Hazards::new(),
            bound: vk::Pipeline::null(),
            ops: 0,
            bytes: 0,
            waits: SmallVec::new(),
            args: Ring::new(raw.clone(), ARGS_CHUNK),
            staging: Ring::new(raw, STAGING_CHUNK),
            scratch: Vec::new(),
            counters: None,
            op: "transfer",
            timer,
        }
    }

    /// What the device can do.
    pub fn capabilities(&self) -> &Capabilities {
        self.timer.device.capabilities()
    }

    pub(crate) fn device(&self) -> &Arc<DeviceState> {
        &self.timer.device
    }

    /// Index of the stream.
    pub(crate) fn stream(&self) -> u16 {
        self.timer.stream
    }

    fn submitted(&self) -> u64 {
        // Only the encoder writes it, and we are the encoder.
        self.timer.submitted.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The tick of the work that is encoded next.
    pub(crate) fn open_tick(&self) -> Tick {
        Tick { stream: self.timer.stream, value: self.submitted() + 1 }
    }

    /// The tick of everything encoded so far.
    pub(crate) fn tick(&self) -> Tick {
        let open = u64::from(self.current.is_some());
        Tick { stream: self.timer.stream, value: self.submitted() + open }
    }

    /// Encodes a dispatch. It waits in the window, where it may be fused with others, until the
    /// command buffer is handed over.
    ///
    /// # Errors
    /// When the grid is over the device's limits, or the device fails.
    pub fn dispatch(&mut self, dispatch: &Dispatch<'_>) -> Result<()> {
        self.encode(dispatch, None)
    }

    /// The same for an operation that means `step` and whose result is in `buffer`.
    pub(crate) fn dispatch_step(
        &mut self,
        dispatch: &Dispatch<'_>,
        step: Step,
        buffer: &BufferRef,
    ) -> Result<()> {
        self.encode(dispatch, Some((step, buffer)))
    }

    fn encode(&mut self, dispatch: &Dispatch<'_>, step: Option<(Step, &BufferRef)>) -> Result<()> {
        let Dispatch { pipeline, push, groups, reads, writes } = *dispatch;
        if groups.contains(&0) {
            return Ok(());
        }
        let most = self.max_groups;
        if groups.iter().zip(most).any(|(&asked, most)| asked > most) {
            let name = pipeline.name();
            let message = format!("{name}: grid {groups:?} is over the limit {most:?}");
            return Err(Error::device("dispatch", message));
        }
        // What nothing can be fused with does not wait, unless others do.
        if step.is_none() && self.window.is_empty() {
            self.open()?;
            self.count(pipeline.name(), writes);
            self.record(dispatch);
            return Ok(());
        }
        let work = Work::new(Call::new(pipeline.clone(), push, groups), reads, writes);
        self.encode_work(match step {
            Some((step, buffer)) => work.means(step, buffer),
            None => work,
        })
    }

    /// The same for an operation that is described already, with a grid within the limits.
    pub(crate) fn encode_work(&mut self, work: Work) -> Result<()> {
        self.open()?;
        if self.window.is_full() {
            self.flush()?;
        }
        self.count(work.name(), &work.writes);
        self.window.push(work);
        Ok(())
    }

    fn count(&mut self, kernel: &'static str, writes: &[Region]) {
        // What is written takes memory until it has run; weights that are read are there anyway.
        self.bytes += writes.iter().map(|w| w.bytes).sum::<u64>();
        self.ops += 1;
        if let Some(used) = &mut self.used {
            used.push(kernel);
        }
    }

    /// Keeps a buffer's memory for the work that is encoded but not recorded.
    pub(crate) fn hold(&mut self, buffer: &BufferRef) {
        self.window.hold(buffer);
    }

    /// Records what is in the window.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.window.is_empty() {
            self.window.clear();
            return Ok(());
        }
        let mut window = std::mem::take(&mut self.window);
        let device = self.timer.device.clone();
        let result = window.drain(&device, |dispatch| self.record(dispatch));
        window.clear();
        self.window = window;
        result
    }

    /// Records a dispatch, after a barrier if it touches memory that earlier ones changed.
    fn record(&mut self, dispatch: &Dispatch<'_>) {
        let Dispatch { pipeline, push, groups, reads, writes } = *dispatch;
        let hazard = self.hazards.access(reads, writes);
        let Some(slot) = &mut self.current else { return };
        let recorder = &mut slot.recorder;
        if let Some(guards) = &self.timer.device.guards {
            guards.note(pipeline.name(), writes);
        }
        if hazard || self.serialize || slot.marks.is_some() {
            recorder.barrier();
            self.barriers += 1;
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
    }

    /// Copies `bytes` to where kernels can read them until the work encoded next has run; returns
    /// the address, a multiple of 16.
    ///
    /// # Errors
    /// When memory is out.
    pub fn args(&mut self, bytes: &[u8]) -> Result<u64> {
        let open = self.submitted() + 1;
        let timer = &self.timer;
        let place = self.args.reserve(bytes.len() as u64, open, || timer.now());
        let place = place.map_err(|e| self.timer.device.raw.fail("malloc", &e))?;
        place.write(bytes);
        // The chunk is recycled with the open submission, so there has to be one.
        self.open()?;
        Ok(place.address)
    }

    /// An operation begins: its memory is named after it.
    pub(crate) fn begin_op(&mut self, op: &'static str) {
        self.op = op;
        if self.evaluation.operations == 0 && trace::is_on() {
            self.evaluation_start = trace::now();
        }
        self.evaluation.operations += 1;
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
        let result = self.commit();
        let evaluation = std::mem::take(&mut self.evaluation);
        if evaluation.operations > 0 {
            stats::evaluated(evaluation);
            if trace::is_on() {
                let stream = self.timer.stream;
                trace::evaluated(stream, evaluation.operations, self.evaluation_start);
            }
        }
        result
    }

    /// Fills memory with signalling garbage (a NaN as float, a large integer).
    fn poison(&mut self, allocation: &Allocation) -> Result<()> {
        let span = allocation.span();
        // Guarded memory is not whole words.
        let (place, bytes) = (span.place(0), span.bytes / 4 * 4);
        let region = Region { address: span.address(), bytes };
        if bytes == 0 {
            return Ok(());
        }
        self.transfer(&[], &[region])?.fill(place, bytes, 0x7FF7_7FF7);
        Ok(())
    }

    /// Records a staging copy.
    pub(crate) fn copy(
        &mut self,
        from: (vk::Buffer, u64),
        read: Region,
        to: &Span,
        at: u64,
    ) -> Result<()> {
        if read.bytes == 0 {
            return Ok(());
        }
        let write = Region { address: to.address() + at, bytes: read.bytes };
        self.transfer(&[read], &[write])?.copy(from, to.place(at), read.bytes);
        Ok(())
    }

    /// Records the copy of a span's first bytes to another span.
    pub(crate) fn copy_span(&mut self, from: &Span, to: &Span, bytes: u64) -> Result<()> {
        self.copy(from.place(0), Region { address: from.address(), bytes }, to, 0)
    }

    fn transfer(&mut self, reads: &[Region], writes: &[Region]) -> Result<&mut Recorder> {
        self.open()?;
        self.flush()?;
        let hazard = self.hazards.access(reads, writes) || self.serialize;
        self.ops += 1;
        self.bytes += writes.iter().map(|r| r.bytes).sum::<u64>();
        let slot =
            self.current.as_mut().ok_or_else(|| Error::device("encode", "no command buffer"))?;
        if hazard {
            slot.recorder.barrier();
            self.barriers += 1;
        }
        Ok(&mut slot.recorder)
    }

    /// Room in the staging ring; hands over and waits a while when too much is in flight.
    pub(crate) fn stage(&mut self, bytes: u64) -> Result<Place> {
        let (full, oldest) = self.staging.pressure();
        if full >= STAGING_CHUNKS {
            if oldest > self.submitted() {
                self.commit()?;
            }
            // A submission may itself wait for someone who needs this encoder: then the ring grows.
            self.timer.block_for(oldest, STAGING_PATIENCE)?;
        }
        let (open, timer) = (self.submitted() + 1, &self.timer);
        let place = self.staging.reserve(bytes, open, || timer.now());
        let place = place.map_err(|e| self.timer.device.raw.fail("malloc", &e))?;
        self.open()?;
        Ok(place)
    }

    /// Lets everything encoded from now on start only after `value` of `timeline`.
    pub(crate) fn wait_for(&mut self, timeline: &Arc<Timeline>, value: u64) -> Result<()> {
        // What is encoded already must not wait: others may be waiting for it.
        self.commit()?;
        match self.waits.iter_mut().find(|w| Arc::ptr_eq(&w.0, timeline)) {
            Some(wait) => wait.1 = wait.1.max(value),
            None => self.waits.push((timeline.clone(), value)),
        }
        Ok(())
    }

    /// Ends an operation: its scratch memory is free for the next one, and a full command buffer
    /// is handed over.
    pub(crate) fn end_op(&mut self) -> Result<()> {
        // The operation may have gone on in another submission than the one it began in.
        let tick = self.tick();
        self.scratch.iter().for_each(|memory| memory.touch(tick));
        if self.window.is_empty() {
            // Everything is recorded: later work may have the memory, behind a barrier.
            self.scratch.clear();
            self.window.clear();
        } else {
            self.window.hold_scratch(&mut self.scratch);
        }
        self.op = "transfer";
        let config = self.timer.device.config;
        let full =
            self.ops >= config.max_ops_per_buffer || self.bytes >> 20 >= config.max_mb_per_buffer;
        if full { self.commit() } else { Ok(()) }
    }

    /// Makes sure that a command buffer is recording.
    pub(crate) fn open(&mut self) -> Result<()> {
        if self.current.is_some() {
            return Ok(());
        }
        self.timer.device.raw.check()?;
        self.reclaim();
        let mut slot = match self.idle.pop() {
            Some(slot) => slot,
            None => self.new_slot()?,
        };
        slot.recorder.begin().map_err(|e| self.timer.device.raw.fail("encode", &e))?;
        if let Some(marks) = &mut slot.marks {
            marks.begin(&mut slot.recorder);
        }
        self.hazards.clear();
        self.bound = vk::Pipeline::null();
        self.current = Some(slot);
        Ok(())
    }

    fn new_slot(&self) -> Result<Slot> {
        let raw = &self.timer.device.raw;
        let recorder = Recorder::new(&raw.device, raw.family)
            .map_err(|e| error::validated_error("encode", &e))?;
        let marks = Marks::new(&self.timer.device);
        Ok(Slot { recorder, waits: SmallVec::new(), marks })
    }

    /// Hands what is encoded over to the queue. Does not wait; see [`Encoder::overdue`].
    ///
    /// # Errors
    /// When the device fails.
    pub(crate) fn commit(&mut self) -> Result<()> {
        let flushed = self.flush();
        let Some(mut slot) = self.current.take() else { return flushed };
        (self.ops, self.bytes) = (0, 0);
        slot.waits = std::mem::take(&mut self.waits);
        let value = self.submitted() + 1;
        let start = trace::is_on().then(trace::now);
        if let (Some(marks), Some(start)) = (&mut slot.marks, start) {
            marks.submitted(value, start);
        }
        let result = self.submit(&mut slot, value);
        if let Some(start) = start {
            let stream = self.timer.stream;
            trace::submitted(stream, value, self.dispatches, self.barriers, start);
        }
        // Also after a failure: who waits must find the error, not wait for a submission.
        self.timer.submitted.store(value, Release);
        self.in_flight.push_back((value, slot));
        self.evaluation.dispatches += std::mem::take(&mut self.dispatches);
        self.evaluation.barriers += std::mem::take(&mut self.barriers);
        flushed.and(result)
    }

    /// The submission to wait for before more is encoded: none while at most
    /// `MLX_VK_MAX_INFLIGHT_SEQUENCES` are in flight. The stream waits without holding the
    /// encoder, since what it waits for may need the encoder (a CPU stream that reads back).
    pub(crate) fn overdue(&mut self) -> Option<u64> {
        let most = self.timer.device.config.max_inflight_sequences.max(1) as usize;
        if self.in_flight.len() > most {
            self.reclaim();
        }
        let excess = self.in_flight.len().checked_sub(most + 1)?;
        Some(self.in_flight[excess].0)
    }

    fn submit(&self, slot: &mut Slot, value: u64) -> Result<()> {
        let waits: SmallVec<[(vk::Semaphore, u64); 4]> =
            slot.waits.iter().map(|(t, v)| (t.handle(), *v)).collect();
        let submitted = slot.recorder.end().and_then(|()| {
            slot.recorder.submit(&self.queue, &waits, (self.timer.timeline.handle(), value))
        });
        stats::SUBMITS.add(1);
        stats::DISPATCHES.add(self.dispatches);
        stats::BARRIERS.add(self.barriers);
        submitted.map_err(|error| self.timer.device.raw.lose("submit", &error))
    }

    /// For benches: the recorder itself, without the hazard tracker.
    pub(crate) fn plain(&mut self) -> Result<&mut Recorder> {
        self.open()?;
        self.flush()?;
        let slot =
            self.current.as_mut().ok_or_else(|| Error::device("encode", "no command buffer"))?;
        Ok(&mut slot.recorder)
    }

    /// Takes back the command buffers that have run.
    fn reclaim(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let now = self.timer.now();
        while self.in_flight.front().is_some_and(|(value, _)| *value <= now) {
            let Some((_, mut slot)) = self.in_flight.pop_front() else { return };
            slot.waits.clear();
            if let Some(marks) = &mut slot.marks {
                marks.collect(self.timer.stream);
            }
            self.idle.push(slot);
        }
    }

    /// Hands everything over and waits for it.
    pub(crate) fn drain(&mut self) -> Result<()> {
        self.commit()?;
        self.timer.block(self.submitted())?;
        self.reclaim();
        Ok(())
    }
}
