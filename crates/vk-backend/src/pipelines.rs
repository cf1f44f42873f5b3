//! The pipelines of a device: each is created once, kept for the life of the device, and saved to
//! disk through the driver's cache.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use mlx_core::Result;
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use vulkano::{
    pipeline::{PipelineLayout, cache::PipelineCache},
    shader::ShaderModule,
};

use crate::{
    config::Config,
    disk_cache,
    raw::{device::RawDevice, pipeline},
    shaders::Kernel,
    stats,
};

pub use crate::raw::pipeline::Pipeline;

/// A pipeline's identity: kernel, required subgroup size (0 for any), specialization constants.
type Key = (Kernel, u32, SmallVec<[u32; 8]>);

/// The pipelines of one device.
pub(crate) struct Pipelines {
    device: Arc<RawDevice>,
    layout: Arc<PipelineLayout>,
    cache: Option<Arc<PipelineCache>>,
    file: Option<PathBuf>,
    made: RwLock<FxHashMap<Key, Arc<Pipeline>>>,
    modules: Mutex<FxHashMap<Kernel, Arc<ShaderModule>>>,
    unsaved: AtomicBool,
}

impl Pipelines {
    /// The pipelines of `device`, with the driver's cache from disk.
    pub(crate) fn new(device: Arc<RawDevice>, config: &Config) -> Result<Self> {
        let file = disk_cache::path(&device.device, config);
        let saved = file.as_deref().and_then(disk_cache::load).unwrap_or_default();
        Ok(Pipelines {
            layout: pipeline::layout(&device.device)?,
            cache: pipeline::cache(&device.device, saved).ok(),
            device,
            file,
            made: RwLock::default(),
            modules: Mutex::default(),
            unsaved: AtomicBool::new(false),
        })
    }

    /// The pipeline of `kernel` with `constants[i]` as specialization constant `i`.
    ///
    /// # Errors
    /// When the driver refuses it.
    pub(crate) fn get(&self, kernel: Kernel, constants: &[u32], subgroup_size: u32) -> Result<Arc<Pipeline>> {
        let key = (kernel, subgroup_size, SmallVec::from_slice(constants));
        if let Some(found) = self.made.read().get(&key) {
            stats::PIPELINE_HITS.add(1);
            return Ok(found.clone());
        }
        let module = self.module(kernel)?;
        let size = (subgroup_size != 0).then_some(subgroup_size);
        let cache = self.cache.as_ref();
        let made = pipeline::create(&module, &self.layout, cache, kernel.name(), constants, size)?;
        stats::PIPELINE_CREATIONS.add(1);
        self.unsaved.store(true, Relaxed);
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

    /// Writes the driver's cache to disk if pipelines were created since the last time.
    pub(crate) fn save(&self) {
        if !self.unsaved.swap(false, Relaxed) {
            return;
        }
        let (Some(cache), Some(file)) = (&self.cache, &self.file) else { return };
        match cache.get_data() {
            Ok(data) => disk_cache::save(file, &data),
            Err(error) => tracing::debug!("pipeline cache not read: {error}"),
        }
    }
}
