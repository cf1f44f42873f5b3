//! `MLX_VK_PROFILE=1`: GPU time per kernel from timestamps. Kernels run one after the other while
//! it is on, so that each one's time is its own. The trace ([`crate::runtime::trace`]) takes them from here.

use std::{collections::BTreeMap, sync::Arc};

use once_cell::sync::Lazy;
use parking_lot::Mutex;

use crate::runtime::{
    device::DeviceState,
    raw::{queries::Queries, recorder::Recorder},
    trace::Clock,
};

/// Dispatches of one command buffer that are timed; more are not.
const MOST: u32 = 2048;

#[derive(Debug, Clone, Copy, Default)]
struct Total {
    count: u64,
    nanoseconds: f64,
    bytes: u64,
}

static TOTALS: Lazy<Mutex<BTreeMap<&'static str, Total>>> = Lazy::new(Mutex::default);

/// The timestamps of one command buffer.
pub(crate) struct Marks {
    queries: Queries,
    period: f64,
    labels: Vec<(&'static str, u64)>,
    /// The device's clock if a trace is written.
    clock: Option<Arc<Clock>>,
    /// Number of the submission, and when it was handed over.
    submission: (u64, u64),
}

impl Marks {
    /// Timestamps, if they are asked for and the device has them.
    pub(crate) fn new(device: &DeviceState) -> Option<Self> {
        let period = f64::from(device.capabilities().timestamp_period);
        let clock = device.clock.clone();
        if !(device.config.profile || clock.is_some()) || period == 0.0 {
            return None;
        }
        let queries = Queries::new(&device.raw.device, MOST * 2).ok()?;
        Some(Marks { queries, period, labels: Vec::new(), clock, submission: (0, 0) })
    }

    /// The recording is handed over as submission `value`, from `start` on.
    pub(crate) fn submitted(&mut self, value: u64, start: u64) {
        self.submission = (value, start);
    }

    /// A new recording begins.
    pub(crate) fn begin(&mut self, recorder: &mut Recorder) {
        self.labels.clear();
        recorder.reset_queries(&self.queries);
    }

    fn index(&self) -> Option<u32> {
        let index = self.labels.len() as u32;
        (index < MOST).then_some(index * 2)
    }

    /// A dispatch that touches `bytes` follows.
    pub(crate) fn before(&mut self, recorder: &mut Recorder, name: &'static str, bytes: u64) {
        if let Some(index) = self.index() {
            recorder.timestamp(&self.queries, index);
            self.labels.push((name, bytes));
        }
    }

    /// A dispatch was recorded.
    pub(crate) fn after(&mut self, recorder: &mut Recorder) {
        let index = self.labels.len() as u32 * 2 - 1;
        if index < MOST * 2 {
            recorder.timestamp(&self.queries, index);
        }
    }

    /// The command buffer of `stream` has run: adds its times to the totals and the trace.
    pub(crate) fn collect(&mut self, stream: u16) {
        let times = self.queries.read(self.labels.len() as u32 * 2);
        let mut totals = TOTALS.lock();
        for (&(name, bytes), pair) in self.labels.iter().zip(times.chunks_exact(2)) {
            let nanoseconds = pair[1].saturating_sub(pair[0]) as f64 * self.period;
            let total = totals.entry(name).or_default();
            total.count += 1;
            total.nanoseconds += nanoseconds;
            total.bytes += bytes;
        }
        drop(totals);
        if let Some(clock) = &self.clock {
            let labels = self.labels.iter().zip(times.chunks_exact(2));
            let kernels = labels.map(|(&(name, _), t)| (name, t[0], t[1].max(t[0]))).collect();
            clock.ran(stream, self.submission, kernels);
        }
        self.labels.clear();
    }
}

/// GPU time per kernel so far, largest first; empty when nothing was profiled.
pub(crate) fn report() -> String {
    let totals = TOTALS.lock();
    let mut rows: Vec<_> = totals.iter().collect();
    rows.sort_by(|a, b| b.1.nanoseconds.total_cmp(&a.1.nanoseconds));
    let all: f64 = rows.iter().map(|r| r.1.nanoseconds).sum();
    let mut text = String::new();
    if !rows.is_empty() {
        text += &format!("mlx vulkan: {:.3} ms of GPU time\n", all / 1e6);
        text += "      share        ms     count  us each     GB/s kernel\n";
    }
    for (name, t) in rows {
        text += &format!(
            "  {:>8.1}% {:>9.3} {:>9} {:>8.2} {:>8.1} {name}\n",
            100.0 * t.nanoseconds / all.max(1.0),
            t.nanoseconds / 1e6,
            t.count,
            t.nanoseconds / 1e3 / t.count as f64,
            t.bytes as f64 / t.nanoseconds.max(1.0),
        );
    }
    text
}
