//! Transforms: derivatives, mapping over axes.

mod common;
mod compile;
mod custom;
mod derivatives;
mod functions;
mod indexing;
mod mapping;
mod memory;
mod norm;
mod pieces;
mod products;
mod quantized;
mod random;
mod reduce;
mod scan;
mod softmax;
mod sort;
mod tree;
mod unfinished;
