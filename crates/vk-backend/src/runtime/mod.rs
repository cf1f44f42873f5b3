//! The runtime: devices and their memory, streams and their encoders, pipelines, and what is seen of them.
//! It knows no kernel.

pub mod capabilities;
pub(crate) mod commit;
pub mod config;
pub(crate) mod device;
pub(crate) mod disk_cache;
pub mod encoder;
pub mod hazards;
pub(crate) mod memory;
pub(crate) mod observe;
pub mod pipelines;
pub mod profile;
pub(crate) mod raw;
pub mod select;
pub mod stats;
pub(crate) mod stream;
pub mod trace;
pub(crate) mod transfer;
