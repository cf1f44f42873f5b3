//! Transforms: derivatives, mapping over axes.

mod compile;
mod derivatives;
mod functions;
mod mapping;
mod unfinished;
