//! Counters of what the runtime does: always on, read by tests, printed at exit when asked.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use once_cell::sync::Lazy;
use parking_lot::Mutex;

use crate::runtime::config::Config;

pub(crate) mod uses;

pub use uses::{Uses, uses};
pub(crate) use uses::{reject, row_bucket};

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
    FUSED, fused: "operations that became part of another's kernel";
    CHAINED, chained: "chains of elementwise operations in one kernel";
    INTERPRETED, interpreted: "kernels that became steps of a run";
    REPEATED, repeated: "failures of runs, after which there are none";
    PIPELINE_HITS, pipeline_hits: "pipeline cache hits";
    PIPELINE_CREATIONS, pipeline_creations: "pipelines created";
    PIPELINE_WAITS, pipeline_waits: "waits for pipelines that were not made yet";
    DRIVER_ALLOCATIONS, driver_allocations: "driver allocations";
    BYTES_UPLOADED, bytes_uploaded: "bytes uploaded";
    BYTES_READ_BACK, bytes_read_back: "bytes read back";
    CACHE_REUSES, cache_reuses: "allocations served from the cache";
    EVALS, evals: "evaluations handed over";
    GUARDS_CHECKED, guards_checked: "guards looked at";
    GUARDS_BROKEN, guards_broken: "guards found overwritten";
}

/// Dispatches and barriers of one evaluation, from its first operation to its hand-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Evaluation {
    /// Operations that were encoded.
    pub operations: u64,
    /// Dispatches.
    pub dispatches: u64,
    /// Barriers between them.
    pub barriers: u64,
}

/// Sums over all evaluations, and the largest.
static EVALUATIONS: Mutex<(Evaluation, Evaluation)> =
    Mutex::new((Evaluation::NONE, Evaluation::NONE));

impl Evaluation {
    const NONE: Evaluation = Evaluation { operations: 0, dispatches: 0, barriers: 0 };

    /// Combines each count.
    fn with(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Evaluation {
            operations: f(self.operations, other.operations),
            dispatches: f(self.dispatches, other.dispatches),
            barriers: f(self.barriers, other.barriers),
        }
    }
}

/// Counts an evaluation.
pub(crate) fn evaluated(evaluation: Evaluation) {
    EVALS.add(1);
    let mut all = EVALUATIONS.lock();
    all.0 = all.0.with(evaluation, |a, b| a + b);
    all.1 = all.1.with(evaluation, u64::max);
}

/// The sums over all evaluations so far, and the largest of each count.
pub fn evaluations() -> (Evaluation, Evaluation) {
    *EVALUATIONS.lock()
}

fn evaluations_report() -> String {
    let (evals, (sum, most)) = (EVALS.get(), evaluations());
    let rows = [
        ("operations", sum.operations, most.operations),
        ("dispatches", sum.dispatches, most.dispatches),
        ("barriers", sum.barriers, most.barriers),
    ];
    let each = rows.map(|(what, sum, most)| {
        format!("{:.1} {what} (most {most})", sum as f64 / evals.max(1) as f64)
    });
    format!("mlx vulkan: per evaluation: {}\n", each.join(", "))
}

/// Pipelines created, by kernel.
static CREATED: Lazy<Mutex<BTreeMap<&'static str, u64>>> = Lazy::new(Mutex::default);

/// Counts a pipeline of `kernel` that was not in the cache.
pub(crate) fn pipeline_created(kernel: &'static str) {
    PIPELINE_CREATIONS.add(1);
    *CREATED.lock().entry(kernel).or_default() += 1;
}

/// The pipelines created so far, by kernel.
pub fn pipelines_created() -> BTreeMap<&'static str, u64> {
    CREATED.lock().clone()
}

/// Hits by family (`qmm`, `sdpa`), then by kernel and shape.
type Hits = BTreeMap<&'static str, BTreeMap<String, u64>>;
static HITS: Lazy<Mutex<Hits>> = Lazy::new(Mutex::default);

/// Counts that `family` used the plan that `key` describes, if its statistics are on
/// (`MLX_VK_QMM_STATS`, `MLX_VK_SDPA_STATS`, `MLX_VK_STATS`).
pub fn hit(config: &Config, family: &'static str, key: impl FnOnce() -> String) {
    if uses::is_counted(family, config) {
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
        text += &evaluations_report();
    }
    if config.stats || config.algo_stats {
        let (hits, made) = (snapshot.pipeline_hits, snapshot.pipeline_creations);
        let share = 100.0 * hits as f64 / (hits + made).max(1) as f64;
        let waits = snapshot.pipeline_waits;
        text += &format!(
            "mlx vulkan: pipelines: {hits} hits ({share:.1}%), {made} created, {waits} waits\n"
        );
    }
    if config.algo_stats {
        for (kernel, count) in pipelines_created() {
            text += &format!("  {count:>14} {kernel}\n");
        }
    }
    text += &uses::report();
    for (family, rows) in hits() {
        let total: u64 = rows.iter().map(|r| r.1).sum();
        text += &format!("mlx vulkan: {family} plans: {total}\n");
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
        CACHE_REUSES.add(3);
        assert!(snapshot().since(&before).cache_reuses >= 3);
        assert!(snapshot().rows().iter().any(|r| r.0 == "dispatches"));
    }
}
