//! # mlx-vulkan-vk
//!
//! MLX's primitives on Vulkan through vulkano, in four layers of which each uses only those before it:
//!
//! - [`runtime`]: devices, memory, streams, the command encoder, pipelines, statistics;
//! - [`kernels`]: a module per family of primitives, with its planner;
//! - [`graph`]: what several operations become together: groups and runs;
//! - [`backend`]: what core calls.
//!
//! [`backend::install`] makes it core's GPU backend; `unsafe` lives in `runtime/raw` only.

// What a program prints is its own; core's `notice` has the exceptions.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod backend;
pub mod bench;
pub mod graph;
pub mod kernels;
pub mod provoke;
pub mod runtime;
pub mod shaders;
#[cfg(test)]
mod sources;
pub mod tuning;

pub use backend::{VulkanBackend, install, shutdown};
pub use runtime::{
    capabilities,
    config::{self, Config},
    profile, stats, trace,
};
