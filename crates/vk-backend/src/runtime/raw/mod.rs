//! The one folder that talks to Vulkan: vulkano's objects, and `device.fns()` where vulkano 0.35
//! has no call or an expensive one. All `unsafe` of the crate is below this module.
//!
//! # What keeps it sound
//! - Objects are vulkano's, so they live as long as someone refers to them; recorded commands
//!   refer to memory by address, and the pool keeps memory until the ticks of its users passed.
//! - A kernel's accesses stay within the regions that it declares: the contract of kernel authors,
//!   which no type can check, as with any GPU program.

pub(crate) mod block;
pub(crate) mod calibration;
pub(crate) mod debug;
pub(crate) mod device;
pub(crate) mod ending;
pub(crate) mod error;
mod faults;
pub(crate) mod instance;
pub(crate) mod matrices;
pub(crate) mod module;
pub(crate) mod pipeline;
pub(crate) mod queries;
pub(crate) mod recorder;
#[cfg(feature = "shader-macros")]
pub(crate) mod shader;
pub(crate) mod timeline;
