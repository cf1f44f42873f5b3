//! # mlx
//!
//! MLX for every GPU: lazy arrays with the semantics of Apple's MLX, on Vulkan and on the CPU.
//!
//! ```no_run
//! use mlx::{Array, ops};
//!
//! fn main() -> mlx::Result<()> {
//!     mlx::init();
//!     let a = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
//!     let b = ops::matmul(&a, &ops::transpose(&a, &[])?)?;
//!     println!("{b} on {}", mlx::default_device());
//!     Ok(())
//! }
//! ```
//!
//! This crate is what users link: it re-exports [`mlx_core`] and installs both backends.

use std::sync::Once;

pub use mlx_core::*;
/// The CPU backend.
pub use mlx_cpu_backend as cpu;
/// The Vulkan backend: device choice, gates and statistics.
pub use mlx_vk_backend as vulkan;

pub mod support;

/// Installs both backends. Call it before the first operation; later calls do nothing.
///
/// Vulkan itself is loaded when a GPU is first asked for. Without a usable device everything runs
/// on the CPU, and one warning says why.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        mlx_cpu_backend::install();
        mlx_vk_backend::install();
    });
}

/// Waits for all streams, saves the pipeline cache and prints the statistics that were asked for.
/// Programs call it once before they end.
pub fn shutdown() {
    mlx_vk_backend::shutdown();
}
