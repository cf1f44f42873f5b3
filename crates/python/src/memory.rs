//! The memory functions.

use mlx::memory;
use pyo3::{
    prelude::*,
    types::{PyModule, PyTuple},
};

use crate::{error::released, functions, trees};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    functions!(module: get_active_memory get_peak_memory reset_peak_memory get_cache_memory
        get_array_buffer_size
        get_memory_limit set_memory_limit set_cache_limit set_wired_limit clear_cache);
    Ok(())
}

/// What `look` sees of memory, or makes of it, once all that was to be evaluated has its own.
fn settled<T: Send>(py: Python<'_>, look: impl FnOnce() -> T + Send) -> PyResult<T> {
    released(py, || mlx::settle().map(|()| look()))
}

/// Bytes that living arrays hold.
#[pyfunction]
pub(crate) fn get_active_memory(py: Python<'_>) -> PyResult<usize> {
    settled(py, memory::active_memory)
}

/// The most bytes that were active since the start or :func:`reset_peak_memory`.
#[pyfunction]
pub(crate) fn get_peak_memory(py: Python<'_>) -> PyResult<usize> {
    settled(py, memory::peak_memory)
}

/// Bytes of the memory blocks that arrays lie in, each counted once: views share one, and a block may be
/// larger than its elements.
///
/// Args:
///     *args (arrays or trees of arrays): Evaluated by this.
///
/// Example:
///     >>> a = mx.zeros((4,))
///     >>> mx.get_array_buffer_size(a, a[:2]) == mx.get_array_buffer_size(a)
///     True
#[pyfunction]
#[pyo3(signature = (*args))]
fn get_array_buffer_size(py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<usize> {
    let arrays = trees::arrays(args, false)?;
    released(py, || mlx::eval(&arrays.iter().collect::<Vec<_>>()))?;
    let mut buffers: Vec<_> = arrays.iter().map(|array| &array.evaluated().buffer).collect();
    buffers.sort_unstable_by_key(|buffer| buffer.id());
    buffers.dedup_by_key(|buffer| buffer.id());
    Ok(buffers.iter().map(|buffer| buffer.nbytes()).sum())
}

/// Sets the peak to zero.
#[pyfunction]
pub(crate) fn reset_peak_memory(py: Python<'_>) -> PyResult<()> {
    settled(py, memory::reset_peak_memory)
}

/// Bytes that are kept for reuse.
#[pyfunction]
pub(crate) fn get_cache_memory(py: Python<'_>) -> PyResult<usize> {
    settled(py, memory::cache_memory)
}

/// The limit on active memory in bytes.
#[pyfunction]
pub(crate) fn get_memory_limit() -> usize {
    memory::memory_limit()
}

/// Sets the limit on active memory, in bytes, and returns the one before. Evaluation waits for running work
/// when it is exceeded.
#[pyfunction]
pub(crate) fn set_memory_limit(py: Python<'_>, limit: usize) -> PyResult<usize> {
    settled(py, || memory::set_memory_limit(limit))
}

/// Sets how many bytes are kept for reuse, and returns the limit before. 0 keeps none.
#[pyfunction]
pub(crate) fn set_cache_limit(py: Python<'_>, limit: usize) -> PyResult<usize> {
    settled(py, || memory::set_cache_limit(limit))
}

/// Takes a limit on wired memory and returns the one before, which is 0: only Metal has such memory.
#[pyfunction]
pub(crate) fn set_wired_limit(limit: usize) -> usize {
    let _ = limit;
    0
}

/// Frees what is kept for reuse.
#[pyfunction]
pub(crate) fn clear_cache(py: Python<'_>) -> PyResult<()> {
    settled(py, memory::clear_cache)
}
