//! Streams, clocks, donation, memory and the order of evaluation.

mod donation;
mod evaluation;
mod memory;
mod streams;

/// Memory counters belong to the process: tests that read them run one at a time.
static COUNTERS: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Takes the counters for a test.
fn counters() -> std::sync::MutexGuard<'static, ()> {
    COUNTERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
