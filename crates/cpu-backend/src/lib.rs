//! # mlx-vulkan-cpu
//!
//! MLX's primitives on the CPU: the `cpu` device, and the oracle of the Vulkan backend.
//!
//! Each stream has a thread that runs batches of tasks in order (`stream.rs`). Evaluating a
//! primitive allocates its outputs and records a task; the task runs when its batch was handed
//! over. Large tasks spread over all cores.
//!
//! One module per family of primitives, with the names of core's.

// What a program prints is its own; core's `notice` has the exceptions.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod clock;
mod encoder;
mod eval;
mod machine;
mod stream;
mod workers;

mod along_axis;
mod arange;
mod attention;
mod binary;
mod cast;
mod chains;
mod complex;
mod convolution;
mod copy;
mod delta;
mod elementwise;
mod fft;
mod float;
mod gathered;
mod hadamard;
mod halves;
mod indexing;
mod linalg;
mod math;
mod matmul;
mod monoid;
mod norm;
mod number;
mod quantized;
mod random;
mod reduce;
mod rope;
mod rows;
mod scan;
mod scatter;
mod shape;
mod simd;
mod softmax;
mod sort;
mod strided;
mod ternary;
mod transpose;
mod unary;

pub use eval::{CpuBackend, install};
