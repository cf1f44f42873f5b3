//! # mlx-vulkan-vk
//!
//! MLX's primitives on Vulkan through vulkano: the runtime (devices, memory, streams, the command
//! encoder) and the kernels. [`backend::install`] makes it core's GPU backend; `unsafe` lives in
//! the private module `raw` only.

pub mod backend;
pub mod bench;
pub mod capabilities;
mod commit;
pub mod config;
mod device;
mod disk_cache;
pub mod encoder;
mod fusion;
pub mod hazards;
mod interpreter;
pub mod kernels;
mod memory;
mod observe;
pub mod pipelines;
pub mod planners;
pub mod profile;
pub mod provoke;
mod raw;
pub mod select;
pub mod shaders;
pub mod stats;
mod stream;
pub mod trace;
mod transfer;
pub mod tuning;

pub use backend::{VulkanBackend, install, shutdown};
pub use config::Config;
