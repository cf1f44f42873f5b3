//! What a device's driver makes of the kernels: for machines that nobody has tried.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use mlx_vulkan_core::{Error, Result};

use crate::{
    runtime::{machine, pipelines::Pipelines, raw::ending::InDriver},
    shaders::Kernel,
};

/// Threads of the workgroups: as many as most plans choose.
const WORKGROUP: u32 = 256;

/// What a device's driver made of the kernels.
#[derive(Debug, Default)]
pub struct Checked {
    /// How many it compiled.
    pub compiled: usize,
    /// How many were not tried, by what the device lacks for them, a capability of SPIR-V. Others serve.
    pub lacking: BTreeMap<String, usize>,
    /// Those that it refused, and what it said.
    pub refused: Vec<(&'static str, Error)>,
}

impl Checked {
    fn add(&mut self, other: Checked) {
        self.compiled += other.compiled;
        for (lacked, kernels) in other.lacking {
            *self.lacking.entry(lacked).or_default() += kernels;
        }
        self.refused.extend(other.refused);
    }
}

/// Lets the driver of GPU `index` compile every kernel once, on all cores, with the constants that stand in
/// its source. Nothing runs, and the file of pipelines is left alone.
///
/// # Errors
/// When there is no such device.
pub fn check(index: u32) -> Result<Checked> {
    let opened = machine::open(index)?;
    let pipelines = Pipelines::unsaved(opened.raw.clone(), opened.config)?;
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut all = Checked::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..cores).map(|_| scope.spawn(|| check_from(&next, &pipelines))).collect();
        for thread in threads {
            all.add(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    Ok(all)
}

/// One kernel after the other, from a list that several threads walk.
fn check_from(next: &AtomicUsize, pipelines: &Pipelines) -> Checked {
    let mut found = Checked::default();
    while let Some(&kernel) = Kernel::ALL.get(next.fetch_add(1, Relaxed)) {
        let _in_driver = InDriver::new();
        match pipelines.try_kernel(kernel, WORKGROUP) {
            Ok(None) => found.compiled += 1,
            Ok(Some(lacked)) => *found.lacking.entry(format!("{lacked:?}")).or_default() += 1,
            Err(error) => found.refused.push((kernel.name(), error)),
        }
    }
    found
}
