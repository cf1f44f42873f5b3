//! The pipelines of a device: each is promised when it is first asked for, made once by a builder, kept for
//! the life of the device, and saved to disk through the driver's cache.

use std::{
    borrow::Cow,
    marker::PhantomData,
    ops::Deref,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use mlx_vulkan_core::{Error, Result};
use parking_lot::RwLock;
use rspirv::spirv::Capability;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use vulkano::pipeline::{PipelineLayout, cache::PipelineCache};

use crate::{
    runtime::{
        builders::{self, Pipeline, Urgency},
        capabilities::Capabilities,
        config::Config,
        disk_cache,
        raw::{device::RawDevice, ending::InDriver, module, pipeline},
        stats, trace,
    },
    shaders::{Kernel, KernelOf, SpecConstants, specialize::specialized},
};

/// How long no pipeline is made before the cache is saved.
const QUIET: std::time::Duration = std::time::Duration::from_millis(500);

/// A pipeline's identity: kernel, required subgroup size (0 for any), specialization constants.
type Key = (Kernel, u32, SmallVec<[u32; 16]>);

/// A pipeline of a kernel that takes push constants `P`.
#[derive(Debug)]
pub(crate) struct PipelineOf<P> {
    pipeline: Arc<Pipeline>,
    push: PhantomData<fn(P)>,
}

impl<P> PipelineOf<P> {
    /// A pipeline whose kernel takes `P`.
    pub(crate) fn new(pipeline: Arc<Pipeline>) -> Self {
        PipelineOf { pipeline, push: PhantomData }
    }

    /// The pipeline, whatever it takes.
    pub(crate) fn any(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// The same, given away.
    pub(crate) fn into_any(self) -> Arc<Pipeline> {
        self.pipeline
    }
}

impl<P> Clone for PipelineOf<P> {
    fn clone(&self) -> Self {
        PipelineOf { pipeline: self.pipeline.clone(), push: PhantomData }
    }
}

impl<P> Deref for PipelineOf<P> {
    type Target = Pipeline;

    fn deref(&self) -> &Pipeline {
        &self.pipeline
    }
}

/// The pipelines of one device.
pub(crate) struct Pipelines {
    maker: Arc<Maker>,
    promised: RwLock<FxHashMap<Key, Arc<Pipeline>>>,
}

/// The module of a kernel, once somebody has parsed it.
#[cfg(feature = "shader-macros")]
type Module = Arc<std::sync::OnceLock<Result<Arc<vulkano::shader::ShaderModule>>>>;

/// What builders need to make the pipelines of a device.
pub(super) struct Maker {
    device: Arc<RawDevice>,
    layout: Arc<PipelineLayout>,
    cache: Option<Arc<PipelineCache>>,
    saver: Arc<Saver>,
    #[cfg(feature = "shader-macros")]
    modules: parking_lot::Mutex<FxHashMap<Kernel, Module>>,
    /// Whether loops are written out.
    unroll: bool,
    /// Whether the driver gets kernels with their constants in them.
    specialize: bool,
    traced: bool,
}

/// Writes the driver's cache to disk: a moment after the last pipeline was made, and at the end.
struct Saver {
    cache: Option<Arc<PipelineCache>>,
    file: Option<PathBuf>,
    unsaved: AtomicBool,
    scheduled: AtomicBool,
}

impl Saver {
    /// A pipeline was made: saves once no other follows for a while.
    fn schedule(self: &Arc<Self>) {
        self.unsaved.store(true, Relaxed);
        if self.file.is_none() || self.scheduled.swap(true, Relaxed) {
            return;
        }
        let saver = self.clone();
        let run = move || {
            while saver.unsaved.swap(false, Relaxed) {
                std::thread::sleep(QUIET);
            }
            saver.scheduled.store(false, Relaxed);
            saver.save();
        };
        // Without a thread the end of the process saves.
        let _ = std::thread::Builder::new().name("mlx-vk-cache".into()).spawn(run);
    }

    fn save(&self) {
        let (Some(cache), Some(file)) = (&self.cache, &self.file) else { return };
        let data = {
            let _in_driver = InDriver::new();
            cache.get_data()
        };
        match data {
            Ok(data) => disk_cache::save(file, &data),
            Err(error) => tracing::debug!("pipeline cache not read: {error}"),
        }
    }
}

impl Pipelines {
    /// The pipelines of `device`, with the driver's cache from disk.
    pub(crate) fn new(device: Arc<RawDevice>, config: &Config) -> Result<Self> {
        let file = disk_cache::path(&device.device, config);
        Self::with_file(device, config, file)
    }

    /// The same with nothing from disk, of which nothing is kept.
    pub(crate) fn unsaved(device: Arc<RawDevice>, config: &Config) -> Result<Self> {
        Self::with_file(device, config, None)
    }

    fn with_file(device: Arc<RawDevice>, config: &Config, file: Option<PathBuf>) -> Result<Self> {
        let saved = file.as_deref().and_then(disk_cache::load).unwrap_or_default();
        let cache = pipeline::cache(&device.device, saved).ok();
        let (unsaved, scheduled) = (AtomicBool::new(false), AtomicBool::new(false));
        let is_software = device.capabilities.is_software();
        let unroll = config.enable_software_unroll || !is_software;
        let specialize = config.enable_specialization.unwrap_or(is_software);
        let maker = Maker {
            layout: pipeline::layout(&device.device)?,
            device,
            saver: Arc::new(Saver { cache: cache.clone(), file, unsaved, scheduled }),
            cache,
            #[cfg(feature = "shader-macros")]
            modules: Default::default(),
            unroll,
            specialize,
            traced: trace::is_on(config),
        };
        Ok(Pipelines { maker: Arc::new(maker), promised: RwLock::default() })
    }

    /// The pipeline of `kernel` with its specialization constants, and with a required subgroup size unless
    /// that is 0. It may not be made yet; that the driver refuses it is found where it is needed.
    pub(crate) fn get<C: SpecConstants, P>(
        &self,
        kernel: KernelOf<C, P>,
        constants: &C,
        subgroup_size: u32,
    ) -> PipelineOf<P> {
        let words = constants.words();
        PipelineOf::new(self.find(kernel.kernel(), words.as_ref(), subgroup_size, Urgency::Now))
    }

    /// The same for somebody who only expects to need it.
    pub(crate) fn expect<C: SpecConstants, P>(
        &self,
        kernel: KernelOf<C, P>,
        constants: &C,
        subgroup_size: u32,
    ) {
        self.find(kernel.kernel(), constants.words().as_ref(), subgroup_size, Urgency::Later);
    }

    /// The same with `constants[i]` as specialization constant `i`.
    fn find(
        &self,
        kernel: Kernel,
        constants: &[u32],
        subgroup_size: u32,
        urgency: Urgency,
    ) -> Arc<Pipeline> {
        let key = (kernel, subgroup_size, SmallVec::from_slice(constants));
        let found = self.promised.read().get(&key).cloned();
        stats::PIPELINE_HITS.add(u64::from(found.is_some()));
        let pipeline = found.unwrap_or_else(|| self.promise(key));
        builders::order(&pipeline, urgency);
        pipeline
    }

    fn promise(&self, key: Key) -> Arc<Pipeline> {
        let (maker, own) = (self.maker.clone(), key.clone());
        let new = Pipeline::new(key.0.name(), move || maker.make(&own));
        // Another thread may have promised the same one.
        self.promised.write().entry(key).or_insert(new).clone()
    }

    /// The pipeline of `kernel` with workgroups of so many threads, and its other constants as they stand in
    /// its source.
    pub(crate) fn plain(&self, kernel: Kernel, workgroup: u32) -> Arc<Pipeline> {
        self.find(kernel, &[workgroup], 0, Urgency::Now)
    }

    /// A capability that a kernel's module declares and the device lacks, where there is a module to read.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn lacks(&self, kernel: Kernel) -> Result<Option<Capability>> {
        let Some(bytes) = kernel.readable() else { return Ok(None) };
        Ok(self.maker.lacks(&module::words(kernel.name(), bytes)?))
    }

    /// Who makes pipelines of modules that are linked while the program runs.
    pub(super) fn maker(&self) -> Arc<Maker> {
        self.maker.clone()
    }

    /// Writes the driver's cache to disk now if pipelines were made since the last time.
    pub(crate) fn save(&self) {
        let saver = &self.maker.saver;
        if saver.scheduled.load(Relaxed) {
            saver.save();
        }
    }
}

impl Maker {
    /// # Errors
    /// When the driver refuses it.
    fn make(&self, key: &Key) -> Result<pipeline::Pipeline> {
        self.counted(key.0.name(), || self.create(key))
    }

    /// The pipeline of a module that was linked from the library `name`.
    ///
    /// # Errors
    /// When the driver refuses it.
    pub(super) fn linked(
        &self,
        name: &'static str,
        words: &[u32],
        constants: &[u32],
    ) -> Result<pipeline::Pipeline> {
        self.counted(name, || self.of_words(name, words, constants, None))
    }

    /// The pipeline of a module that was made of a user's source.
    ///
    /// # Errors
    /// When the driver refuses it.
    pub(super) fn written(
        &self,
        name: &'static str,
        words: &[u32],
        subgroup_size: Option<u32>,
    ) -> Result<pipeline::Pipeline> {
        self.counted(name, || self.of_words(name, words, &[], subgroup_size))
    }

    /// The device's abilities.
    pub(super) fn capabilities(&self) -> &Capabilities {
        &self.device.capabilities
    }

    /// What `create` gives for the kernel `name`, in the trace and the statistics.
    fn counted(
        &self,
        name: &'static str,
        create: impl FnOnce() -> Result<pipeline::Pipeline>,
    ) -> Result<pipeline::Pipeline> {
        let start = self.traced.then(trace::now);
        let made = self.device.refusal(name).and_then(|()| create());
        if let Some(start) = start {
            trace::built(name, start);
        }
        if made.is_ok() {
            stats::pipeline_created(name);
            self.saver.schedule();
        }
        made
    }

    fn create(&self, (kernel, subgroup_size, constants): &Key) -> Result<pipeline::Pipeline> {
        let size = (*subgroup_size != 0).then_some(*subgroup_size);
        #[cfg(feature = "shader-macros")]
        if kernel.committed().is_none() {
            let (layout, cache, name) = (&self.layout, self.cache.as_ref(), kernel.name());
            return crate::runtime::raw::shader::create(
                &self.module(*kernel)?,
                layout,
                cache,
                name,
                constants,
                self.device.capabilities.packs_nearest.into(),
                size,
            );
        }
        let bytes = kernel.readable().unwrap_or_default();
        self.of_words(kernel.name(), &module::words(kernel.name(), bytes)?, constants, size)
    }

    /// A capability that a module declares and the device lacks.
    fn lacks(&self, words: &[u32]) -> Option<Capability> {
        module::lacks(words, self.device.device.enabled_features(), &self.device.capabilities)
    }

    /// The pipeline of a module's words. Not by vulkano, which hands the driver constants in another order in
    /// each process, so that a driver that caches by them (NVIDIA's) never finds what the last one saved.
    fn of_words(
        &self,
        name: &'static str,
        words: &[u32],
        constants: &[u32],
        subgroup_size: Option<u32>,
    ) -> Result<pipeline::Pipeline> {
        if let Some(lacked) = self.lacks(words) {
            let message = format!("kernel {name}: the device has no {lacked:?}");
            return Err(Error::device("pipeline", message));
        }
        let mut words = Cow::Borrowed(words);
        if self.device.capabilities.packs_nearest {
            module::packs_nearest(words.to_mut());
        }
        if let Some(with) = self.specialize.then(|| specialized(&words, constants)).flatten() {
            words = Cow::Owned(with);
        }
        if !self.unroll {
            module::keep_loops(words.to_mut());
        }
        let (layout, cache) = (&self.layout, self.cache.as_ref());
        pipeline::create(&words, layout, cache, name, constants, subgroup_size)
    }

    /// The module of a kernel, which several pipelines may be made of at the same time.
    #[cfg(feature = "shader-macros")]
    fn module(&self, kernel: Kernel) -> Result<Arc<vulkano::shader::ShaderModule>> {
        let module = self.modules.lock().entry(kernel).or_default().clone();
        module.get_or_init(|| kernel.load(&self.device.device)).clone()
    }
}
