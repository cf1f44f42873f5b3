//! The window: operations that are encoded but not yet recorded.
//!
//! An encoder keeps what it is given until its command buffer is handed over. Then operations that
//! belong together become one kernel where there is one that does all of them (`fuse.rs`), and the
//! rest is ordered so that few barriers are needed (`graph.rs`). Results that nobody can see any
//! more are not computed. Any graph profits: nothing above the encoder knows.

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
pub(crate) use set::CAPACITY;
use step::Step;

/// A dispatch with all that it needs, ready to be recorded.
pub(crate) struct Work {
    call: Option<Call>,
    pub(crate) reads: SmallVec<[Region; 6]>,
    pub(crate) writes: SmallVec<[Region; 3]>,
    meaning: Option<Meaning>,
}

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
}

impl Accesses for Work {
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
        Work { call: Some(call), reads: reads.into(), writes: writes.into(), meaning: None }
    }

    /// An operation whose kernel is chosen when it is clear whether it becomes a part of another's.
    pub(crate) fn later(
        step: Step,
        result: &BufferRef,
        reads: &[Region],
        writes: &[Region],
    ) -> Self {
        let meaning = Some(Meaning { step, result: result.clone() });
        Work { call: None, reads: reads.into(), writes: writes.into(), meaning }
    }

    /// Says what the dispatch means, so that it can be fused.
    pub(crate) fn means(mut self, step: Step, result: &BufferRef) -> Self {
        self.meaning = Some(Meaning { step, result: result.clone() });
        self
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
}

/// Operations in the order in which they were encoded.
#[derive(Default)]
pub(crate) struct Window {
    works: Vec<Work>,
    /// Memory that the operations use: it must not serve another one before they are recorded.
    held: Vec<BufferRef>,
    scratch: Vec<Arc<Allocation>>,
    /// Operations that a fusion may begin with.
    seeds: usize,
}

impl Window {
    pub(crate) fn is_empty(&self) -> bool {
        self.works.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.works.len() == CAPACITY
    }

    pub(crate) fn push(&mut self, work: Work) {
        self.seeds +=
            usize::from(matches!(work.step(), Some(Step::MatVec(_) | Step::Attention(_))));
        self.works.push(work);
    }

    /// Keeps a buffer's memory until the window is recorded.
    pub(crate) fn hold(&mut self, buffer: &BufferRef) {
        self.held.push(buffer.clone());
    }

    /// The same for scratch memory.
    pub(crate) fn hold_scratch(&mut self, scratch: &mut Vec<Arc<Allocation>>) {
        self.scratch.append(scratch);
    }

    /// Fuses what can be fused and gives the works to `record` in a good order. They stay: what they
    /// hold goes with [`Window::clear`], also after an error.
    pub(crate) fn drain(
        &mut self,
        device: &DeviceState,
        mut record: impl FnMut(&Dispatch<'_>),
    ) -> Result<()> {
        if self.seeds == 0 || !device.config.enable_fusion {
            for work in &mut self.works {
                work.settle(device)?;
                work.record(&mut record);
            }
        } else {
            let mut graph = Graph::new(&self.works);
            let fused = fuse::fuse(&self.works, &mut graph, device)?;
            for i in graph.order() {
                if let Some(fused) = fused.get(&i) {
                    fused.record(&mut record);
                } else {
                    self.works[i].settle(device)?;
                    self.works[i].record(&mut record);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        self.works.clear();
        self.held.clear();
        self.scratch.clear();
        self.seeds = 0;
    }
}
