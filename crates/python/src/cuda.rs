//! `mlx.core.cuda`: there is no CUDA.

use pyo3::{prelude::*, types::PyModule};

use crate::functions;

pub(crate) fn register(core: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = &PyModule::new(core.py(), "mlx.core.cuda")?;
    functions!(module: is_available);
    core.add("cuda", module)
}

/// Whether there is CUDA: no.
#[pyfunction]
fn is_available() -> bool {
    false
}
