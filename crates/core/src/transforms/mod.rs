//! Transforms of functions: derivatives, and functions of arrays with one more axis.
//!
//! A transform runs a function once on tracers (`trace`), which gives the graph of what it computes. It
//! walks that graph (`walk`) and asks each primitive for its rule (`rules`).

mod custom;
mod derivative;
mod grad;
mod pieces;
pub(crate) mod rules;
mod support;
pub(crate) mod trace;
pub mod tree;
mod vmap;
pub(crate) mod walk;

pub use custom::{CustomFunction, checkpoint, custom_function};
pub use derivative::{Derived, jvp, vjp, vjp_of};
pub use grad::{Scalar, grad, value_and_grad, value_and_grad_of};
pub use support::Transform;
pub use vmap::vmap;
