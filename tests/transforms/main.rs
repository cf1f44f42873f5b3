//! Transforms: derivatives, mapping over axes.

mod attention;
mod common;
mod compile;
mod convolution;
mod custom;
mod derivatives;
mod fft;
mod functions;
mod hadamard;
mod indexing;
mod linalg;
mod mapping;
mod memory;
mod norm;
mod pieces;
mod products;
mod quantized;
mod random;
mod reduce;
mod rope;
mod scan;
mod softmax;
mod sort;
mod tree;
