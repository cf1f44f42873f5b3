//! The window: operations that are encoded but not yet recorded.
//!
//! A committer keeps what it takes over until it is clear what follows. Then operations that
//! belong together become one kernel where there is one that does all of them (`fuse.rs`), and the
//! rest is ordered so that few barriers are needed (`graph.rs`). Results that nobody can see any
//! more are not stored. Any graph profits: nothing above the encoder knows.

mod fuse;
mod graph;
mod set;
pub(crate) mod step;

use std::sync::Arc;

use mlx_core::{Result, buffer::BufferRef};
use smallvec::SmallVec;

use crate::{
    device::DeviceState,
    encoder::Dispatch,
    hazards::Region,
    kernels::{
        Kernel, decode,
        matvec::{self, Fused},
    },
    memory::allocation::Allocation,
    pipelines::Pipeline,
    raw::recorder::PUSH_BYTES,
};

use graph::{Accesses, Graph};
use set::{CAPACITY, Set};
use step::Step;

/// A dispatch with all that it needs, ready to be recorded.
pub(crate) struct Work {
    call: Option<Call>,
    pub(crate) reads: SmallVec<[Region; 6]>,
    pub(crate) writes: SmallVec<[Region; 3]>,
    meaning: Option<Meaning>,
    /// Place in the order of the stream's dispatches, from 1 on.
    pub(crate) number: u64,
    /// Memory that it uses: it must not serve other work before this is recorded.
    pub(crate) held: SmallVec<[BufferRef; 6]>,
    pub(crate) scratch: Vec<Arc<Allocation>>,
}

/// Works in a list. They go from thread to thread and from list to list by their addresses.
pub(crate) type Works = Vec<Box<Work>>;

/// What is recorded.
pub(crate) struct Call {
    pipeline: Arc<Pipeline>,
    push: [u8; PUSH_BYTES],
    push_bytes: u8,
    groups: [u32; 3],
}

impl Call {
    /// # Panics
    /// When the push constants are more than [`PUSH_BYTES`].
    pub(crate) fn new(pipeline: Arc<Pipeline>, push: &[u8], groups: [u32; 3]) -> Self {
        let mut bytes = [0; PUSH_BYTES];
        bytes[..push.len()].copy_from_slice(push);
        Call { pipeline, push: bytes, push_bytes: push.len() as u8, groups }
    }

    fn push(&self) -> &[u8] {
        &self.push[..self.push_bytes.into()]
    }
}

/// What a work means, and the buffer of its result, which may lose its owners.
struct Meaning {
    step: Step,
    result: BufferRef,
    /// When it was seen to have lost them: the last dispatch that may read it.
    last_reader: Option<u64>,
}

impl Meaning {
    fn new(step: Step, result: &BufferRef) -> Self {
        Meaning { step, result: result.clone(), last_reader: None }
    }
}

impl Accesses for Box<Work> {
    fn reads(&self) -> &[Region] {
        &self.reads
    }
    fn writes(&self) -> &[Region] {
        &self.writes
    }
}

impl Work {
    /// A dispatch.
    pub(crate) fn new(call: Call, reads: &[Region], writes: &[Region]) -> Self {
        Work::of(Some(call), reads, writes, None)
    }

    fn of(
        call: Option<Call>,
        reads: &[Region],
        writes: &[Region],
        meaning: Option<Meaning>,
    ) -> Self {
        Work {
            call,
            reads: reads.into(),
            writes: writes.into(),
            meaning,
            number: 0,
            held: SmallVec::new(),
            scratch: Vec::new(),
        }
    }

    /// An operation whose kernel is chosen when it is clear whether it becomes a part of another's.
    pub(crate) fn later(
        step: Step,
        result: &BufferRef,
        reads: &[Region],
        writes: &[Region],
    ) -> Self {
        Work::of(None, reads, writes, Some(Meaning::new(step, result)))
    }

    /// Says what the dispatch means, so that it can be fused.
    pub(crate) fn means(mut self, step: Step, result: &BufferRef) -> Self {
        self.meaning = Some(Meaning::new(step, result));
        self
    }

    /// Notes whether the result has lost its owners, now that `pushed` dispatches are encoded.
    pub(crate) fn observe(&mut self, pushed: u64) {
        if let Some(meaning) = &mut self.meaning
            && meaning.last_reader.is_none()
            && !meaning.result.is_owned()
        {
            meaning.last_reader = Some(pushed);
        }
    }

    /// Whether somebody may want the result after dispatch `number`.
    fn is_wanted_after(&self, number: u64) -> bool {
        self.meaning.as_ref().is_none_or(|m| m.last_reader.is_none_or(|last| last > number))
    }

    /// Name of its kernel, for statistics.
    pub(crate) fn name(&self) -> &'static str {
        match (&self.call, self.step()) {
            (Some(call), _) => call.pipeline.name(),
            (None, Some(Step::Attention(_))) => Kernel::attention_decode.name(),
            (None, _) => Kernel::matvec_fused.name(),
        }
    }

    /// Gives the dispatch to `record`; its kernel is chosen.
    fn record(&self, record: &mut impl FnMut(&Dispatch<'_>)) {
        if let Some(call) = &self.call {
            let (pipeline, push, groups) = (&call.pipeline, call.push(), call.groups);
            record(&Dispatch { pipeline, push, groups, reads: &self.reads, writes: &self.writes });
        }
    }

    /// Chooses the kernel if that was left for later.
    fn settle(&mut self, device: &DeviceState) -> Result<()> {
        if self.call.is_none() {
            self.call = match self.step() {
                Some(Step::MatVec(step)) => Some(matvec::encode(device, &Fused::of(step))?),
                Some(Step::Attention(step)) => Some(decode::encode(device, step, None)?),
                _ => None,
            };
        }
        Ok(())
    }

    fn step(&self) -> Option<&Step> {
        self.meaning.as_ref().map(|m| &m.step)
    }

    /// Whether a fusion may begin with it.
    fn is_seed(&self) -> bool {
        matches!(self.step(), Some(Step::MatVec(_) | Step::Attention(_)))
    }
}

/// Operations in the order in which they were encoded.
#[derive(Default)]
pub(crate) struct Window {
    works: Works,
    /// Operations that a fusion may begin with.
    seeds: usize,
    /// What was recorded.
    done: Works,
}

/// Works at the end of a window that are kept for what may follow, when something may.
const TAIL: usize = 32;

impl Window {
    pub(crate) fn is_empty(&self) -> bool {
        self.works.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.works.len() == CAPACITY
    }

    pub(crate) fn works(&mut self) -> impl Iterator<Item = &mut Work> {
        self.works.iter_mut().map(|work| &mut **work)
    }

    /// The works that were recorded, to be given back.
    pub(crate) fn done(&mut self) -> &mut Works {
        &mut self.done
    }

    pub(crate) fn push(&mut self, work: Box<Work>) {
        self.seeds += usize::from(work.is_seed());
        self.works.push(work);
    }

    /// Fuses what can be fused and gives the works to `record` in a good order. Unless they are the
    /// `last`, those stay that may belong together with what follows.
    pub(crate) fn drain(
        &mut self,
        device: &DeviceState,
        last: bool,
        mut record: impl FnMut(&Dispatch<'_>),
    ) -> Result<()> {
        if self.seeds == 0 || !device.config.enable_fusion {
            let works = &mut self.works;
            let result = works.iter_mut().try_for_each(|work| {
                work.settle(device)?;
                work.record(&mut record);
                Ok(())
            });
            self.done.append(works);
            self.seeds = 0;
            return result;
        }
        let end = self.works.len();
        let tail = if last { end } else { end.saturating_sub(TAIL) };
        let mut graph = Graph::new(&self.works);
        let fused = fuse::fuse(&self.works, &mut graph, device, tail)?;
        let kept = graph.needs(tail);
        for i in graph.order().into_iter().filter(|&i| !kept.contains(i)) {
            if let Some(fused) = fused.get(&i) {
                fused.count();
                fused.work.record(&mut record);
            } else {
                self.works[i].settle(device)?;
                self.works[i].record(&mut record);
            }
        }
        self.keep(&kept);
        Ok(())
    }

    fn keep(&mut self, kept: &Set) {
        for (i, work) in std::mem::take(&mut self.works).into_iter().enumerate() {
            let list = if kept.contains(i) { &mut self.works } else { &mut self.done };
            list.push(work);
        }
        self.seeds = self.works.iter().filter(|w| w.is_seed()).count();
    }

    /// Forgets what is left, after an error.
    pub(crate) fn clear(&mut self) {
        self.done.append(&mut self.works);
        self.seeds = 0;
    }
}
