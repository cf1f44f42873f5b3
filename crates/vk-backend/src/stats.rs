//! Counters of what the runtime does: always on, read by tests, printed at exit when asked.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use once_cell::sync::Lazy;
use parking_lot::Mutex;

use crate::config::Config;

/// A counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    /// Counts `n` more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counters {
    ($($name:ident, $field:ident: $meaning:literal;)*) => {
        $(#[doc = concat!("Counter: ", $meaning, ".")] pub static $name: Counter = Counter::new();)*

        /// All counters at one moment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Snapshot {
            $(#[doc = concat!("Number of ", $meaning, ".")] pub $field: u64,)*
        }

        impl Snapshot {
            /// What was counted between `earlier` and this snapshot.
            pub fn since(&self, earlier: &Snapshot) -> Snapshot {
                Snapshot { $($field: self.$field - earlier.$field,)* }
            }

            /// Name and value of every counter.
            pub fn rows(&self) -> Vec<(&'static str, u64)> {
                vec![$(($meaning, self.$field),)*]
            }
        }

        /// The counters now.
        pub fn snapshot() -> Snapshot {
            Snapshot { $($field: $name.get(),)* }
        }
    };
}

counters! {
    DISPATCHES, dispatches: "dispatches";
    BARRIERS, barriers: "barriers";
    SUBMITS, submits: "submissions";
    PIPELINE_HITS, pipeline_hits: "pipeline cache hits";
    PIPELINE_CREATIONS, pipeline_creations: "pipelines created";
    DRIVER_ALLOCATIONS, driver_allocations: "driver allocations";
    DESCRIPTOR_SETS, descriptor_sets: "descriptor sets";
    FALLBACKS, fallbacks: "fallbacks to the CPU";
    BYTES_UPLOADED, bytes_uploaded: "bytes uploaded";
    BYTES_READ_BACK, bytes_read_back: "bytes read back";
    CACHE_REUSES, cache_reuses: "allocations served from the cache";
}

/// Hits by family (`qmm`, `sdpa`), then by kernel and shape.
type Hits = BTreeMap<&'static str, BTreeMap<String, u64>>;
static HITS: Lazy<Mutex<Hits>> = Lazy::new(Mutex::default);

/// Counts that `family` used the kernel and shape that `key` describes, if its statistics are on
/// (`MLX_VK_QMM_STATS`, `MLX_VK_SDPA_STATS`, `MLX_VK_STATS`).
pub fn hit(family: &'static str, key: impl FnOnce() -> String) {
    let config = Config::get();
    let on = match family {
        "qmm" => config.qmm_stats,
        "sdpa" => config.sdpa_stats,
        _ => false,
    };
    if on || config.stats {
        *HITS.lock().entry(family).or_default().entry(key()).or_default() += 1;
    }
}

/// The hits counted so far, by family, as (key, count).
pub fn hits() -> BTreeMap<&'static str, Vec<(String, u64)>> {
    HITS.lock()
        .iter()
        .map(|(f, m)| (*f, m.iter().map(|(k, n)| (k.clone(), *n)).collect()))
        .collect()
}

/// The report for the end of the process; empty when nothing was asked for.
pub fn report(config: &Config) -> String {
    let mut text = String::new();
    let snapshot = snapshot();
    if config.stats {
        text += "mlx vulkan: counters\n";
        for (name, value) in snapshot.rows() {
            text += &format!("  {value:>14} {name}\n");
        }
    } else if config.algo_stats {
        let (hits, made) = (snapshot.pipeline_hits, snapshot.pipeline_creations);
        text += &format!("mlx vulkan: pipelines: {hits} hits, {made} created\n");
    }
    for (family, rows) in hits() {
        let total: u64 = rows.iter().map(|r| r.1).sum();
        text += &format!("mlx vulkan: {family} hits: {total}\n");
        for (key, count) in rows {
            text += &format!("  {count:>14} {key}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_subtract() {
        let before = snapshot();
        FALLBACKS.add(3);
        assert!(snapshot().since(&before).fallbacks >= 3);
        assert!(snapshot().rows().iter().any(|r| r.0 == "dispatches"));
    }
}
