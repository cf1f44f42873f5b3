//! # mlx-vulkan
//!
//! MLX for every GPU: lazy arrays with the semantics of Apple's MLX, on Vulkan and on the CPU.
//!
//! ```no_run
//! use mlx_vulkan::{Array, ops};
//!
//! fn main() -> mlx_vulkan::Result<()> {
//!     mlx_vulkan::init();
//!     let a = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
//!     let b = ops::matmul(&a, &ops::transpose(&a, &[])?)?;
//!     println!("{b} on {}", mlx_vulkan::default_device());
//!     Ok(())
//! }
//! ```
//!
//! Functions have gradients, over any [`trait@Tree`] of arrays:
//!
//! ```
//! use mlx_vulkan::{Array, Device, Result, Tree, ops, transforms};
//!
//! #[derive(Tree)]
//! #[tree(crate = mlx_vulkan)] // not needed where the crate is called `mlx`
//! struct Line {
//!     slope: Array,
//!     offset: Array,
//! }
//!
//! fn at(line: &Line, x: f32) -> Result<Array> {
//!     ops::add(&ops::multiply(&line.slope, x)?, &line.offset)
//! }
//!
//! fn main() -> Result<()> {
//!     mlx_vulkan::init();
//!     mlx_vulkan::with_device(Device::CPU, || {
//!         let line = Line { slope: Array::scalar(2.0f32)?, offset: Array::scalar(1.0f32)? };
//!         let gradient = transforms::grad(|line| ops::square(&at(line, 3.0)?), &line)?;
//!         assert_eq!(gradient.slope.item::<f32>()?, 2.0 * 7.0 * 3.0);
//!         assert_eq!(gradient.offset.item::<f32>()?, 2.0 * 7.0);
//!         Ok(())
//!     })?
//! }
//! ```
//!
//! This crate is what users link: it re-exports [`mlx_vulkan_core`] and installs both backends.

// What a program prints is its own; core's `notice` has the exceptions.
#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::sync::Once;

pub use mlx_vulkan_core::*;
/// The CPU backend.
pub use mlx_vulkan_cpu as cpu;
/// The Vulkan backend: device choice, gates and statistics.
pub use mlx_vulkan_vk as vulkan;

pub mod support;

/// Installs both backends. Call it before the first operation; later calls do nothing.
///
/// Vulkan itself is loaded when a GPU is first asked for. Without a usable device everything runs
/// on the CPU, and one warning says why.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        mlx_vulkan_cpu::install();
        mlx_vulkan_vk::install();
    });
}

/// Waits for all streams, saves the pipeline cache and prints the statistics that were asked for.
/// Programs call it once before they end.
pub fn shutdown() {
    // Who interrupts this wants the end.
    let _ = settle();
    mlx_vulkan_vk::shutdown();
}
