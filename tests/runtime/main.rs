//! Streams, clocks, donation, the order of evaluation, who waits for whom, devices that fail, and what the
//! runtime tells of itself.

mod ahead;
mod detached;
mod donation;
mod errors;
mod evaluation;
mod exiting;
mod failing;
mod knobs;
mod loaded;
mod pipelines;
mod statistics;
mod streams;
mod threads;
mod trace;
mod waiting;
