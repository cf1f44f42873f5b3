//! What the example programs compute, apart from how they show it: tests run it too.
//!
//! A model is a struct of arrays with `#[derive(Tree)]`; gradients and the optimizer's state are trees of the
//! same kind.

mod adamw;
pub mod digits;
pub mod lora;

pub use adamw::AdamW;
