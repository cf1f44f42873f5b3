//! The pipelines of a device: each is created once, kept for the life of the device, and saved to
//! disk through the driver's cache.

use std::{
    marker::PhantomData,
    ops::Deref,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use mlx_vulkan_core::Result;
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use vulkano::{
    pipeline::{PipelineLayout, cache::PipelineCache},
    shader::ShaderModule,
};

use crate::{
    runtime::{
        config::Config,
        disk_cache,
        raw::{device::RawDevice, ending::InDriver, pipeline},
        stats,
    },
    shaders::{Kernel, KernelOf, SpecConstants},
};

pub(crate) use crate::runtime::raw::pipeline::Pipeline;

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
    device: Arc<RawDevice>,
    layout: Arc<PipelineLayout>,
    cache: Option<Arc<PipelineCache>>,
    saver: Arc<Saver>,
    made: RwLock<FxHashMap<Key, Arc<Pipeline>>>,
    modules: Mutex<FxHashMap<Kernel, Arc<ShaderModule>>>,
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
        let saved = file.as_deref().and_then(disk_cache::load).unwrap_or_default();
        let cache = pipeline::cache(&device.device, saved).ok();
        Ok(Pipelines {
            layout: pipeline::layout(&device.device)?,
            device,
            saver: Arc::new(Saver {
                cache: cache.clone(),
                file,
                unsaved: AtomicBool::new(false),
                scheduled: AtomicBool::new(false),
            }),
            cache,
            made: RwLock::default(),
            modules: Mutex::default(),
        })
    }

    /// The pipeline of `kernel` with its specialization constants, and with a required subgroup size unless
    /// that is 0.
    ///
    /// # Errors
    /// When the driver refuses it.
    pub(crate) fn get<C: SpecConstants, P>(
        &self,
        kernel: KernelOf<C, P>,
        constants: &C,
        subgroup_size: u32,
    ) -> Result<PipelineOf<P>> {
        let words = constants.words();
        let pipeline = self.find(kernel.kernel(), words.as_ref(), subgroup_size)?;
        Ok(PipelineOf { pipeline, push: PhantomData })
    }

    /// The same with `constants[i]` as specialization constant `i`.
    fn find(&self, kernel: Kernel, constants: &[u32], subgroup_size: u32) -> Result<Arc<Pipeline>> {
        let key = (kernel, subgroup_size, SmallVec::from_slice(constants));
        if let Some(found) = self.made.read().get(&key) {
            stats::PIPELINE_HITS.add(1);
            return Ok(found.clone());
        }
        let _in_driver = InDriver::new();
        let size = (subgroup_size != 0).then_some(subgroup_size);
        let (layout, cache, name) = (&self.layout, self.cache.as_ref(), kernel.name());
        let made = match kernel.committed() {
            Some(words) => pipeline::create_raw(words, layout, cache, name, constants, size)?,
            None => {
                let module = self.module(kernel)?;
                pipeline::create(&module, layout, cache, name, constants, size)?
            }
        };
        stats::pipeline_created(name);
        self.saver.schedule();
        Ok(self.made.write().entry(key).or_insert_with(|| Arc::new(made)).clone())
    }

    fn module(&self, kernel: Kernel) -> Result<Arc<ShaderModule>> {
        let mut modules = self.modules.lock();
        if let Some(module) = modules.get(&kernel) {
            return Ok(module.clone());
        }
        let module = kernel.load(&self.device.device)?;
        modules.insert(kernel, module.clone());
        Ok(module)
    }

    /// Writes the driver's cache to disk now if pipelines were made since the last time.
    pub(crate) fn save(&self) {
        if self.saver.scheduled.load(Relaxed) {
            self.saver.save();
        }
    }
}
