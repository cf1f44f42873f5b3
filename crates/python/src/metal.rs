//! `mlx.core.metal`: there is no Metal, and old names of the memory functions.

use pyo3::{prelude::*, types::PyModule};

use crate::{
    functions,
    memory::{
        clear_cache, get_active_memory, get_cache_memory, get_peak_memory, reset_peak_memory,
        set_cache_limit, set_memory_limit, set_wired_limit,
    },
};

pub(crate) fn register(core: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = &PyModule::new(core.py(), "mlx.core.metal")?;
    functions!(module: is_available device_info start_capture stop_capture get_active_memory get_peak_memory
        reset_peak_memory get_cache_memory set_memory_limit set_cache_limit set_wired_limit clear_cache);
    core.add("metal", module)
}

/// Whether there is Metal: no.
#[pyfunction]
fn is_available() -> bool {
    false
}

/// What is known of the default device, as :func:`mlx.core.device_info` says.
#[pyfunction]
fn device_info(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("mlx.core")?.call_method0("device_info")
}

/// Starts a capture: does nothing, as there is no Metal.
///
/// Args:
///     path (str): Where the capture would be.
#[pyfunction]
fn start_capture(path: &str) {
    let _ = path;
}

/// Stops a capture: does nothing, as there is no Metal.
#[pyfunction]
fn stop_capture() {}
