//! # mlx-cpu-backend
//!
//! MLX's primitives on the CPU: the `cpu` device, and the oracle of the Vulkan backend.
//!
//! Each stream is a thread that runs batches of tasks in order ([`stream`]). Evaluating a
//! primitive allocates its outputs and records a task; the task runs when its batch was handed
//! over. Large tasks spread over all cores.
//!
//! One module per family of primitives, with the names of core's.

mod clock;
mod encoder;
mod eval;
mod stream;

mod arange;
mod attention;
mod binary;
mod copy;
mod elementwise;
mod indexing;
mod matmul;
mod norm;
mod quantized;
mod random;
mod reduce;
mod rope;
mod scan;
mod shape;
mod softmax;
mod sort;
mod ternary;
mod unary;

pub use eval::{CpuBackend, install};
