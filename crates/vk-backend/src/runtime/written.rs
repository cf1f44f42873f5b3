//! Pipelines of kernels that users write.
//!
//! Who needs one compiles the source, which takes a few milliseconds, and goes on; a builder makes the
//! pipeline. What is wrong with the source is an error of what the kernel was to make.

use std::sync::Arc;

use mlx_vulkan_core::{Error, Result};
use mlx_vulkan_metal::{Options, Simd, compile};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::runtime::{
    builders::{Pipeline, Urgency, order, promise},
    capabilities::Capabilities,
    pipelines::{Maker, PipelineOf, Pipelines},
};

const OP: &str = "metal_kernel";
/// What profiles call such kernels.
const NAME: &str = "custom_kernel";
/// Threads of a simdgroup, which kernels take for granted.
const SIMDGROUP: u32 = 32;

/// A kernel of a program, for groups of some size.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Written {
    /// The whole program.
    pub(crate) source: String,
    /// The kernel's name in it.
    pub(crate) name: String,
    /// Threads of a group along three axes.
    pub(crate) threadgroup: [u32; 3],
    /// Threads that groups have elsewhere in the grid.
    pub(crate) dispatched: [u32; 3],
}

/// The pipelines of users' kernels on a device, or what is wrong with their sources.
#[derive(Default)]
pub(crate) struct WrittenPipelines {
    known: Mutex<FxHashMap<Written, Result<Arc<Pipeline>>>>,
}

impl WrittenPipelines {
    /// The pipeline of a kernel, whose push constants are `P`; it may not be made yet.
    ///
    /// # Errors
    /// What is wrong with the source; what the device does not have.
    pub(crate) fn get<P>(&self, pipelines: &Pipelines, written: Written) -> Result<PipelineOf<P>> {
        let known = self.known.lock().get(&written).cloned();
        let pipeline = match known {
            Some(known) => known?,
            None => {
                let new = promised(pipelines.maker(), &written);
                // Another thread may have compiled it, too.
                self.known.lock().entry(written).or_insert(new).clone()?
            }
        };
        order(&pipeline, Urgency::Now);
        Ok(PipelineOf::new(pipeline))
    }
}

/// Compiles a kernel; a builder makes its pipeline.
fn promised(maker: Arc<Maker>, written: &Written) -> Result<Arc<Pipeline>> {
    let capabilities = maker.capabilities();
    let simd = if has_simdgroups(capabilities) { Simd::Native } else { Simd::Emulated };
    let Written { source, name, threadgroup, dispatched } = written;
    let options = Options { threadgroup: *threadgroup, dispatched: *dispatched, simd };
    let kernel = compile(source, name, &options).map_err(|error| {
        let line = source.lines().nth(error.line.saturating_sub(1) as usize).unwrap_or_default();
        Error::runtime(OP, format!("kernel \"{name}\", {error}\n    {}", line.trim()))
    })?;
    if kernel.shared > capabilities.shared_memory.into() {
        let (asked, most) = (kernel.shared, capabilities.shared_memory);
        let what =
            format!("kernel \"{name}\" shares {asked} bytes in a group, the device has {most}");
        return Err(Error::runtime(OP, what));
    }
    let size = (simd == Simd::Native && capabilities.subgroup_sizes != [SIMDGROUP; 2])
        .then_some(SIMDGROUP);
    let make = move || maker.written(NAME, &kernel.words, size);
    Ok(promise(NAME, Urgency::Now, make))
}

/// Whether subgroups can be what kernels take simdgroups for.
fn has_simdgroups(capabilities: &Capabilities) -> bool {
    let [least, most] = capabilities.subgroup_sizes;
    let ops = &capabilities.subgroup_ops;
    (least..=most).contains(&SIMDGROUP) && ops.arithmetic && ops.shuffle
}
