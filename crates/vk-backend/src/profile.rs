//! `MLX_VK_PROFILE=1`: GPU time per kernel from timestamps. Kernels run one after the other while
//! it is on, so that each one's time is its own. `MLX_VK_TRACE=file` writes the same as a trace.

use std::{collections::BTreeMap, io::Write};

use once_cell::sync::Lazy;
use parking_lot::Mutex;

use crate::{
    config::Config,
    raw::{device::RawDevice, queries::Queries, recorder::Recorder},
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
/// Name, start and duration in microseconds.
/// A kernel's name, start and length in microseconds.
type Span = (&'static str, f64, f64);

static TRACE: Lazy<Mutex<Vec<Span>>> = Lazy::new(Mutex::default);

/// The timestamps of one command buffer.
pub(crate) struct Marks {
    queries: Queries,
    period: f64,
    labels: Vec<(&'static str, u64)>,
    trace: bool,
}

impl Marks {
    /// Timestamps, if they are asked for and the device has them.
    pub(crate) fn new(device: &RawDevice, config: &Config) -> Option<Self> {
        let period = f64::from(device.capabilities.timestamp_period);
        let trace = config.trace.is_some();
        if !(config.profile || trace) || period == 0.0 {
            return None;
        }
        let queries = Queries::new(&device.device, MOST * 2).ok()?;
        Some(Marks { queries, period, labels: Vec::new(), trace })
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

    /// The command buffer has run: adds its times to the totals.
    pub(crate) fn collect(&mut self) {
        let times = self.queries.read(self.labels.len() as u32 * 2);
        let mut totals = TOTALS.lock();
        for (&(name, bytes), pair) in self.labels.iter().zip(times.chunks_exact(2)) {
            let nanoseconds = pair[1].saturating_sub(pair[0]) as f64 * self.period;
            let total = totals.entry(name).or_default();
            total.count += 1;
            total.nanoseconds += nanoseconds;
            total.bytes += bytes;
            if self.trace {
                TRACE.lock().push((name, pair[0] as f64 * self.period / 1e3, nanoseconds / 1e3));
            }
        }
        self.labels.clear();
    }
}

/// GPU time per kernel so far, largest first; empty when nothing was profiled.
pub fn report() -> String {
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

/// Writes the trace in Chrome's JSON format, which Perfetto opens.
///
/// # Errors
/// When the file cannot be written.
pub fn write_trace(path: &str) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    file.write_all(b"[")?;
    for (i, (name, start, duration)) in TRACE.lock().iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        write!(
            file,
            "{comma}\n{{\"name\":\"{name}\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":{start:.3},\"dur\":{duration:.3}}}"
        )?;
    }
    file.write_all(b"\n]\n")?;
    file.flush()
}
