//! Planners: from shapes, dtypes, layouts, capabilities and gates to a kernel variant.
//!
//! Pure functions, tested without a GPU. A variant that is gated off or that the device cannot run
//! falls to the next one that it can.

pub mod attention;
pub mod convolution;
pub mod fft;
pub mod interpreter;
pub mod matmul;
pub mod matrix;
pub mod matvec;
pub mod prefill;
pub mod quantized;
pub mod team;
