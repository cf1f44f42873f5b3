//! Every operation, dtype and layout against a float64 oracle, on both devices.

mod arange;
mod arrange;
mod attention;
mod binary;
mod composed;
mod copy;
mod diagonal;
mod index;
mod indexing;
mod matmul;
mod norm;
mod pad;
mod quantized;
mod random;
mod reduce;
mod rope;
mod scan;
mod scatter;
mod shape;
mod softmax;
mod sort;
mod unary;
mod unique;
mod windows;
