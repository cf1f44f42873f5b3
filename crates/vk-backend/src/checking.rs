//! What a device's driver makes of the kernels: for machines that nobody has tried.

use std::collections::BTreeMap;

use mlx_vulkan_core::{Error, Result};

use crate::{
    runtime::{machine, pipelines::Pipelines},
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

/// Lets the driver of GPU `index` compile every kernel once, several at the same time, with the constants
/// that stand in its source. Nothing runs, and the file of pipelines is left alone.
///
/// # Errors
/// When there is no such device, or it fails.
pub fn check(index: u32) -> Result<Checked> {
    let opened = machine::open(index)?;
    let pipelines = Pipelines::unsaved(opened.raw.clone(), opened.config)?;
    let (mut checked, mut promised) = (Checked::default(), Vec::new());
    for &kernel in Kernel::ALL {
        match pipelines.lacks(kernel)? {
            Some(lacked) => *checked.lacking.entry(format!("{lacked:?}")).or_default() += 1,
            None => promised.push(pipelines.plain(kernel, WORKGROUP)),
        }
    }
    for pipeline in promised {
        match pipeline.made() {
            Ok(_) => checked.compiled += 1,
            Err(error) => checked.refused.push((pipeline.name(), error)),
        }
    }
    Ok(checked)
}
