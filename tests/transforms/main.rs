//! Transforms: derivatives, mapping over axes.

mod derivatives;
mod functions;
mod mapping;
mod unfinished;
