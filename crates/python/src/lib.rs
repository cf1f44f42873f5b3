//! The extension module behind `mlx.core`.
//!
//! Each function takes Python's arguments apart ([`arguments`]), calls the operation of the same name in
//! [`mlx::ops`] on the stream that was asked for, and wraps what it returns ([`array::PyArray`]). Nothing is
//! decided here that Rust users would have to decide again.
//!
//! The interpreter's lock (GIL) is never held while something blocks: evaluating and reading release it.

mod arguments;
mod array;
mod compile;
mod cuda;
mod custom_kernel;
mod device;
mod distributed;
mod dtype;
mod error;
mod eval;
mod export;
mod fast;
mod fft;
mod function;
mod index;
mod io;
mod linalg;
mod lock;
mod memory;
mod metal;
mod ops;
mod printing;
mod random;
mod raw;
mod stream;
mod transforms;
mod trees;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pyo3::{prelude::*, types::PyModule};

#[global_allocator]
static ALLOCATOR: mlx_vulkan_alloc::Magazines = mlx_vulkan_alloc::Magazines;

/// The version of MLX whose behaviour this module has.
const VERSION: &str = "0.32.4";

/// Adds functions to a module.
macro_rules! functions {
    ($module:ident: $($function:ident)*) => {$(
        #[allow(clippy::unsafe_removed_from_name, reason = "PyO3's own name for what it makes")]
        $module.add_function(pyo3::wrap_pyfunction!($function, $module)?)?;
    )*};
}
pub(crate) use functions;

/// `_native.core` becomes `mlx.core`: functions and classes have to carry that name, and this module cannot.
#[pymodule]
fn _native(native: &Bound<'_, PyModule>) -> PyResult<()> {
    mlx::init();
    mlx::begin_while_building(true);
    let core = PyModule::new(native.py(), "mlx.core")?;
    core.add("__version__", VERSION)?;
    error::register(&core)?;
    dtype::register(&core)?;
    device::register(&core)?;
    stream::register(&core)?;
    memory::register(&core)?;
    array::register(&core)?;
    ops::register(&core)?;
    function::register(&core)?;
    eval::register(&core)?;
    transforms::register(&core)?;
    compile::register(&core)?;
    export::register(&core)?;
    io::register(&core)?;
    printing::register(&core)?;
    random::register(&core)?;
    fast::register(&core)?;
    fft::register(&core)?;
    linalg::register(&core)?;
    // The array API's name, in the main module.
    core.add("matrix_norm", core.getattr("linalg")?.getattr("norm")?)?;
    distributed::register(&core)?;
    metal::register(&core)?;
    cuda::register(&core)?;
    let ending = Bound::new(native.py(), Ending { is_called: AtomicBool::new(false) })?;
    native.py().import("atexit")?.call_method1("register", (ending,))?;
    native.add("core", core)
}

// Functions that were registered before this one are called after it, and may wait for threads that evaluate.
// Python lets go of all of them when the last one has returned.
/// Waits for what is in flight and saves what the next process can use, when the interpreter ends.
#[pyclass(frozen)]
struct Ending {
    is_called: AtomicBool,
}

#[pymethods]
impl Ending {
    fn __call__(&self) {
        self.is_called.store(true, Relaxed);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if *self.is_called.get_mut() {
            Python::attach(|py| lock::at_the_end(py, mlx::shutdown));
        }
    }
}
