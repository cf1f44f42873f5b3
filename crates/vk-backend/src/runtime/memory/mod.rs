//! Device memory: pools over large blocks, MLX's cache-reuse rule, and rings for what the host
//! hands to the device.

pub(crate) mod allocation;
pub(crate) mod guard;
mod guard_copies;
pub(crate) mod guards;
pub(crate) mod pool;
mod ranges;
pub(crate) mod ring;
