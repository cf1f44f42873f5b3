//! A dispatch on its way from an encoder to its committer.

use std::sync::Arc;

use bytemuck::Pod;
use mlx_vulkan_core::buffer::BufferRef;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::runtime::{
    builders::Pipeline, hazards::Region, memory::allocation::Allocation, pipelines::PipelineOf,
    raw::recorder::PUSH_BYTES,
};

/// A dispatch with all that it needs, ready to be recorded.
pub(crate) struct Work {
    call: Call,
    reads: SmallVec<[Region; 6]>,
    writes: SmallVec<[Region; 3]>,
    /// Memory that it uses: it must not serve other work before this is recorded.
    pub(crate) held: SmallVec<[BufferRef; 6]>,
    pub(crate) scratch: Vec<Arc<Allocation>>,
    /// It comes after everything before it, and before everything after it.
    pub(super) alone: bool,
    /// What is recorded right behind it may begin before it has ended, if that is `beside`.
    pub(super) leads: bool,
    pub(super) beside: bool,
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
    /// A kernel with its push constants on a grid.
    pub(crate) fn new<P: Pod>(pipeline: PipelineOf<P>, push: &P, groups: [u32; 3]) -> Self {
        let mut bytes = [0; PUSH_BYTES];
        // Kernels with more do not compile: see `KernelOf`.
        bytes[..size_of::<P>()].copy_from_slice(bytemuck::bytes_of(push));
        let push_bytes = size_of::<P>() as u8;
        Call { pipeline: pipeline.into_any(), push: bytes, push_bytes, groups }
    }
}

/// Regions that are compared with one another sooner than they are hashed.
const FEW: usize = 8;

/// Bytes of `writes` that are not in `reads` as well.
pub(crate) fn written(reads: &[Region], writes: &[Region]) -> u64 {
    let fresh = |is_read: &dyn Fn(&Region) -> bool| {
        writes.iter().filter(|w| !is_read(w)).map(|w| w.bytes).sum()
    };
    // A dispatch for many arrays has thousands of regions, any other a few.
    if reads.len().min(writes.len()) > FEW {
        let reads: FxHashSet<&Region> = reads.iter().collect();
        return fresh(&|w| reads.contains(w));
    }
    fresh(&|w| reads.contains(w))
}

impl Work {
    /// A dispatch.
    pub(crate) fn new(call: Call, reads: &[Region], writes: &[Region]) -> Self {
        Work {
            call,
            reads: reads.into(),
            writes: writes.into(),
            held: SmallVec::new(),
            scratch: Vec::new(),
            alone: false,
            leads: false,
            beside: false,
        }
    }

    /// A dispatch that the one right behind it waits for by itself, if that is [`Work::beside`].
    pub(crate) fn leading(self) -> Self {
        Work { leads: true, ..self }
    }

    /// A dispatch that needs no barrier behind the one before, if that is [`Work::leading`]: it writes
    /// nothing before it has seen all results of that in memory, and reads nothing else that it writes.
    pub(crate) fn beside(self) -> Self {
        Work { beside: true, ..self }
    }

    /// A dispatch between two barriers: what it reads need not be named.
    pub(crate) fn alone(call: Call, writes: &[Region]) -> Self {
        Work { alone: true, ..Self::new(call, &[], writes) }
    }

    /// Name of its kernel, for statistics.
    pub(crate) fn name(&self) -> &'static str {
        self.call.pipeline.name()
    }

    /// Its pipeline, which may not be made yet.
    pub(crate) fn pipeline(&self) -> &Arc<Pipeline> {
        &self.call.pipeline
    }

    /// Bytes that it writes, but for those that it overwrites in place. Of a dispatch that
    /// is alone who encodes it knows.
    pub(crate) fn written(&self) -> u64 {
        if self.alone { 0 } else { written(&self.reads, &self.writes) }
    }

    /// What is recorded with its pipeline: push constants and grid.
    pub(super) fn call(&self) -> (&[u8], [u32; 3]) {
        let Call { push, push_bytes, groups, .. } = &self.call;
        (&push[..usize::from(*push_bytes)], *groups)
    }

    /// Memory that it reads, and that it writes.
    pub(crate) fn regions(&self) -> [&[Region]; 2] {
        [&self.reads, &self.writes]
    }
}
