//! The kernels: their list (`registry.rs`) and what its macro makes of it ([`Kernel`]).

#[macro_use]
mod declare;
mod registry;

pub use registry::Kernel;
