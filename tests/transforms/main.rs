//! Transforms: derivatives, mapping over axes.

mod common;
mod compile;
mod derivatives;
mod functions;
mod mapping;
mod norm;
mod random;
mod reduce;
mod scan;
mod softmax;
mod sort;
mod unfinished;
