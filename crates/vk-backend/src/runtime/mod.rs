//! The runtime: devices and their memory, streams and their encoders, pipelines, and what is seen of them.
//! It knows no kernel.

pub(crate) mod builders;
pub(crate) mod capabilities;
pub(crate) mod commit;
pub mod config;
pub(crate) mod device;
pub(crate) mod disk_cache;
pub(crate) mod encoder;
pub(crate) mod hazards;
pub(crate) mod lacks;
pub(crate) mod linked;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod observe;
pub(crate) mod pipelines;
pub(crate) mod profile;
pub(crate) mod raw;
pub(crate) mod select;
pub mod stats;
pub(crate) mod stream;
pub(crate) mod streams;
pub(crate) mod tile_costs;
pub(crate) mod timer;
pub(crate) mod trace;
pub(crate) mod transfer;
pub(crate) mod written;

/// So many cases of a property, the same ones in every run.
#[cfg(test)]
pub(crate) fn cases(cases: u32) -> proptest::test_runner::Config {
    use proptest::test_runner::{Config, RngSeed};
    Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..Config::default() }
}
