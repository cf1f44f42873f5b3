//! Pipelines of modules that are linked while a program runs.
//!
//! Nobody waits for one: what it would do is done by other kernels until it is made. A module is linked once
//! it was asked for often enough, because a pipeline costs a driver milliseconds of a core.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::runtime::{
    builders::{Pipeline, Urgency, promise},
    pipelines::{PipelineOf, Pipelines},
};
use crate::shaders::{KernelOf, SpecConstants};

/// The linked pipelines of a device, by the words that say what each does.
#[derive(Default)]
pub(crate) struct Linked {
    entries: Mutex<FxHashMap<Box<[u32]>, Entry>>,
}

/// What is known of a module.
enum Entry {
    /// It was asked for this often, by weight.
    Seen(u64),
    Promised(Arc<Pipeline>),
}

/// A module that somebody would like to use.
pub(crate) struct Wanted<'a, C, P> {
    /// The library that it is linked from.
    pub(crate) library: KernelOf<C, P>,
    pub(crate) constants: &'a C,
    /// What the module does, all of it.
    pub(crate) key: &'a [u32],
    /// How often it is asked for before it is linked; with 0 who asks makes it and waits.
    pub(crate) sightings: u64,
    /// How many times this one counts.
    pub(crate) weight: u64,
}

impl Linked {
    /// The pipeline of a module, if it is made. `link` gives the module's words, on a thread of its own.
    pub(crate) fn find<C: SpecConstants, P>(
        &self,
        pipelines: &Pipelines,
        wanted: &Wanted<'_, C, P>,
        link: impl FnOnce() -> Vec<u32> + Send + 'static,
    ) -> Option<PipelineOf<P>> {
        let pipeline = self.promised(pipelines, wanted, link)?;
        let is_made = wanted.sightings == 0 || pipeline.is_made();
        (is_made && pipeline.made().is_ok()).then(|| PipelineOf::new(pipeline))
    }

    fn promised<C: SpecConstants, P>(
        &self,
        pipelines: &Pipelines,
        wanted: &Wanted<'_, C, P>,
        link: impl FnOnce() -> Vec<u32> + Send + 'static,
    ) -> Option<Arc<Pipeline>> {
        let mut entries = self.entries.lock();
        let seen = match entries.get_mut(wanted.key) {
            Some(Entry::Promised(pipeline)) => return Some(pipeline.clone()),
            Some(Entry::Seen(times)) => {
                *times += wanted.weight;
                *times
            }
            None => wanted.weight,
        };
        if seen < wanted.sightings {
            entries.entry(wanted.key.into()).or_insert(Entry::Seen(seen));
            return None;
        }
        let (maker, name) = (pipelines.maker(), wanted.library.kernel().name());
        let constants = wanted.constants.words().as_ref().to_vec();
        let make = move || maker.linked(name, &link(), &constants);
        let pipeline = promise(name, Urgency::Later, make);
        entries.insert(wanted.key.into(), Entry::Promised(pipeline.clone()));
        Some(pipeline)
    }
}
