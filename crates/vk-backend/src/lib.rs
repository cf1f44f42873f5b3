//! # mlx-vulkan-vk
//!
//! MLX's primitives on Vulkan through vulkano, in four layers of which each uses only those before it:
//!
//! - `runtime`: devices, memory, streams, the command encoder, pipelines, statistics;
//! - `kernels`: a module per family of primitives, with its planner;
//! - `graph`: what several operations become together: groups and runs;
//! - `backend`: what core calls.
//!
//! [`install`] makes it core's GPU backend; `unsafe` lives in `runtime/raw` only.

// What a program prints is its own; core's `notice` has the exceptions.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod backend;
mod bench;
mod checking;
mod graph;
mod kernels;
mod provoke;
mod runtime;
mod shaders;
#[cfg(test)]
mod sources;
mod tuning;

pub use backend::{
    VulkanBackend, capabilities, check_guards, devices, install, save_pipelines, shutdown,
};
pub use checking::{Checked, check};
pub use runtime::{
    capabilities::{Capabilities, DeviceKind},
    config::{self, Config},
    select::Candidate,
    stats,
};
pub use tuning::tune;

/// What tests and benches of the workspace reach into; nothing of it is promised to anybody.
#[doc(hidden)]
pub mod internals {
    pub use crate::{
        backend::validation_errors, bench::encode, graph::fusion::programs::enable_chains,
        runtime::builders::builders_are_idle, shaders::Kernel,
    };

    /// Faults that nothing but a test wants.
    pub mod provoke {
        pub use crate::provoke::*;
    }
}
