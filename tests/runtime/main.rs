//! Streams, clocks, donation and the order of evaluation.

mod donation;
mod evaluation;
mod streams;
