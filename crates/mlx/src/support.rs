//! The support table: which primitive runs on which dtype, on which backend.

use mlx_vulkan_core::{
    Result,
    backend::Backend,
    primitives::{Example, Primitive},
    stream::Device,
};

pub use mlx_vulkan_core::backend::Support;

/// One cell of the table.
#[derive(Debug, Clone)]
pub struct Entry {
    /// An example of the primitive, for a dtype.
    pub example: Example,
    /// Name of the backend.
    pub backend: &'static str,
    /// What the backend does with it.
    pub support: Support,
}

/// Every cell of the table, for the installed backends.
///
/// # Errors
/// When no backend is installed.
pub fn table() -> Result<Vec<Entry>> {
    let backends: Vec<&dyn Backend> = [Device::CPU, Device::GPU]
        .into_iter()
        .filter_map(|d| mlx_vulkan_core::backend::backend_for(d).ok())
        .map(|b| &**b)
        .collect();
    let entry = |example: &Example, backend: &dyn Backend| Entry {
        example: example.clone(),
        backend: backend.name(),
        support: backend.support(&example.primitive, example.dtype),
    };
    let row = |example: Example| backends.iter().map(move |backend| entry(&example, *backend));
    Ok(Primitive::examples().into_iter().flat_map(row).collect())
}
