//! The kernels: their list (`registry.rs`), what its macro makes of it ([`Kernel`]), and what each
//! takes from the host (`layouts.rs`, which `cargo xtask shaders` writes).

#[macro_use]
mod declare;
#[expect(dead_code, reason = "kernels move to these types family by family")]
pub(crate) mod layouts;
mod registry;
mod typed;

pub use registry::Kernel;
pub(crate) use typed::{KernelOf, SpecConstants};
