//! What became of a result: an error belongs to the result that it kept from being computed, and to the
//! results computed from that.
//!
//! Work of the CPU can fail by itself: its backend looks at the inputs of each task before it runs, and
//! keeps an error with the outputs ([`BufferRef::fail`]). Work of a device cannot, but it may read what
//! the CPU computes later, or another stream that fails as a whole. So a result that is encoded on a
//! device while such an input is still under way remembers it as a `Source`. Memory whose outcome is
//! some result's source is not taken over by others: what becomes of them is not that result's affair.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::{
    Error, Result, Stream,
    buffer::BufferRef,
    clock::{self, Tick},
    stream::DeviceType,
};

/// What went wrong, shared by all results that it concerns.
#[derive(Debug)]
pub struct Failure {
    error: Error,
    told: AtomicBool,
}

impl Failure {
    /// Of which nobody was told yet.
    pub fn new(error: Error) -> Arc<Self> {
        Arc::new(Failure { error, told: AtomicBool::new(false) })
    }

    /// Whether somebody who waited was told.
    pub fn was_told(&self) -> bool {
        self.told.load(Relaxed)
    }

    /// The error, for who waits.
    pub fn tell(&self) -> Error {
        self.told.store(true, Relaxed);
        self.error.clone()
    }
}

/// What has gone wrong with a buffer's contents, and what may.
#[derive(Default)]
pub(crate) struct Outcome {
    failure: OnceLock<Arc<Failure>>,
    sources: Mutex<Sources>,
}

/// Something that a result is computed from and that was not there when this was encoded.
#[derive(Clone)]
struct Source {
    /// When it is there.
    tick: Tick,
    /// What becomes of it; none for work of a device, which fails only with its stream.
    outcome: Option<Arc<Outcome>>,
}

impl Source {
    fn failure(&self) -> Option<Arc<Failure>> {
        let known = self.outcome.as_ref().and_then(|outcome| outcome.failure.get().cloned());
        known.or_else(|| self.tick.failure().map(Failure::new))
    }

    /// Whether it is there as it should be.
    fn is_settled(&self) -> bool {
        self.tick.reached() && self.failure().is_none()
    }
}

/// Different sources: of each device's stream the last one.
type Sources = SmallVec<[Source; 1]>;

fn add(sources: &mut Sources, new: &Source) {
    let known = sources.iter_mut().find(|known| match (&known.outcome, &new.outcome) {
        (Some(known), Some(new)) => Arc::ptr_eq(known, new),
        (None, None) => known.tick.stream == new.tick.stream,
        _ => false,
    });
    match known {
        Some(known) if known.tick.value >= new.tick.value => {}
        Some(known) => known.tick = new.tick,
        None => sources.push(new.clone()),
    }
}

/// What has gone wrong or may with the inputs of an operation of a device: mostly nothing.
#[derive(Default)]
pub(crate) struct Doubts(Option<Box<Known>>);

/// What is known of the inputs.
#[derive(Default)]
struct Known {
    failure: Option<Arc<Failure>>,
    sources: Sources,
}

impl Doubts {
    fn known(&mut self) -> &mut Known {
        self.0.get_or_insert_default()
    }

    /// An input that `producer` still computes.
    pub(crate) fn note_under_way(&mut self, input: &BufferRef, written: Tick, producer: Stream) {
        let fails_alone = producer.device.kind == DeviceType::Cpu;
        let outcome = fails_alone.then(|| input.outcome().clone());
        add(&mut self.known().sources, &Source { tick: written, outcome });
    }

    /// The stream of an input failed before it was there.
    pub(crate) fn note_failed(&mut self, error: Error) {
        self.known().failure.get_or_insert_with(|| Failure::new(error));
    }

    /// What is known of an input.
    #[inline]
    pub(crate) fn note(&mut self, input: &BufferRef) {
        if let Some(outcome) = input.known_outcome() {
            self.known().note(outcome);
        }
    }

    /// They are an output's as well.
    #[inline]
    pub(crate) fn pass_on(&self, output: &BufferRef) {
        if let Some(known) = &self.0 {
            known.pass_on(output);
        }
    }
}

impl Known {
    fn note(&mut self, outcome: &Outcome) {
        if self.failure.is_none() {
            self.failure = outcome.failure.get().cloned();
        }
        let mut sources = outcome.sources.lock();
        sources.retain(|source| !source.is_settled());
        sources.iter().for_each(|source| add(&mut self.sources, source));
    }

    fn pass_on(&self, output: &BufferRef) {
        if let Some(failure) = &self.failure {
            output.fail(failure);
        }
        if !self.sources.is_empty() {
            let mut sources = output.outcome().sources.lock();
            sources.retain(|source| !source.is_settled());
            self.sources.iter().for_each(|source| add(&mut sources, source));
        }
    }
}

impl BufferRef {
    /// For backends: the contents could not be computed. The first failure stays.
    pub fn fail(&self, failure: &Arc<Failure>) {
        let _ = self.outcome().failure.set(failure.clone());
    }

    /// For backends: why the contents are not what they should be, as far as it is known. Once the last
    /// write is reached, all is known but what its stream says of itself ([`Tick::failure`]).
    pub fn failure(&self) -> Option<Arc<Failure>> {
        let outcome = self.known_outcome()?;
        let failure = || outcome.sources.lock().iter().find_map(Source::failure);
        outcome.failure.get().cloned().or_else(failure)
    }

    /// Whether they are known not to be what they should be, for a reason of their own or of their stream.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure().is_some() || self.written().failure().is_some()
    }

    /// Blocks until the contents are there.
    ///
    /// # Errors
    /// What went wrong while computing them, or what they were computed from; the same for everybody who
    /// asks.
    pub fn wait(&self) -> Result<()> {
        self.written().wait()?;
        self.failure().map_or(Ok(()), |failure| Err(failure.tell()))
    }
}

/// What a stream failed in that nobody was told of.
pub(crate) fn untold(stream: Stream) -> Result<()> {
    clock::clock(stream.index).untold().map_or(Ok(()), Err)
}
