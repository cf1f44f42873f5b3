//! Every operation, dtype and layout against a float64 oracle, on both devices.

mod arange;
mod attention;
mod binary;
mod convolution;
mod copy;
mod fast;
mod fft;
mod fp_quantized;
mod gathered;
mod gathered_quantized;
mod hadamard;
mod indexing;
mod linalg;
mod matmul;
mod norm;
mod products;
mod quantized;
mod random;
mod reduce;
mod rope;
mod scan;
mod shape;
mod softmax;
mod sort;
mod unary;
