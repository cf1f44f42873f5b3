//! The kernels: their list (`registry.rs`), what its macro makes of it ([`Kernel`]), and what each
//! takes from the host (`layouts.rs`, which `cargo xtask shaders` writes), and what is left of one with its
//! constants (`specialize`).

#[macro_use]
mod declare;
#[expect(
    dead_code,
    unused_imports,
    reason = "it says all that modules take, and the host does not name all of it"
)]
pub(crate) mod layouts;
mod numbers;
mod registry;
pub(crate) mod specialize;
mod typed;

pub use registry::Kernel;
pub(crate) use typed::{KernelOf, SpecConstants};
