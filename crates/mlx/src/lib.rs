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

/// Installs the CPU backend, and the Vulkan backend where a device is usable. Call it before the
/// first operation; later calls do nothing.
///
/// Without a usable Vulkan device everything runs on the CPU, and one warning says why.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        mlx_cpu_backend::install();
        if let Err(error) = mlx_vk_backend::install() {
            tracing::warn!("no Vulkan device, everything runs on the CPU: {error}");
        }
    });
}
