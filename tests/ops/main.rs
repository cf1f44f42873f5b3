//! Every operation, dtype and layout against a float64 oracle, on both devices.

mod arange;
mod attention;
mod binary;
mod copy;
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
mod unary;
