//! `MLX_VK_TRACE=file`: what the host encodes, submits and waits for, and what the device runs, on
//! one time axis, in Chrome's JSON format that Perfetto (<https://ui.perfetto.dev>) opens.
//!
//! | process | track | slices |
//! | --- | --- | --- |
//! | CPU | thread | operations being encoded, with submissions inside them; waits; pipelines being made |
//! | CPU | evaluations of stream | from the first operation to the hand-over |
//! | GPU | stream | submissions, with their kernels inside them |
//!
//! Spans of the `tracing` crate would carry only part of this: encoding and waits begin and end on one
//! thread, but evaluations end on another thread than they begin on, submissions refer to work of a
//! third, and kernels have times of the device that are known much later and are moved to the host's
//! axis when the file is written. `tracing` knows no events with times of their own, so a layer would
//! need this log and this writer all the same.
//!
//! An arrow leads from each submission on the host to the one on the device. As for the profile,
//! kernels run one after the other, so that each one's time is its own.

mod axis;
mod write;

use std::{
    cell::OnceCell,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Instant,
};

use once_cell::sync::Lazy;
use parking_lot::Mutex;
use vulkano::device::Device;

use crate::runtime::{config::Config, raw::calibration};
use axis::Axis;

pub(crate) use write::write;

/// Slices that are kept; the trace says how many more there were.
const MOST: usize = 4 << 20;
/// Nanoseconds between two calibrations.
const CALIBRATE_EVERY: u64 = 50_000_000;
/// Readings of both clocks for one calibration.
const READINGS: usize = 8;

static EPOCH: Lazy<Instant> = Lazy::new(Instant::now);
static LOG: Lazy<Mutex<Log>> = Lazy::new(Mutex::default);

/// What a slice shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An operation being encoded.
    Encode,
    /// A submission being handed over: its number, dispatches and barriers.
    Submit(u64, u64, u64),
    /// The host waiting for a submission.
    Wait(u64),
    /// From the first operation of an evaluation to its hand-over: its operations.
    Eval(u64),
    /// A pipeline being made.
    Build,
}

/// Where a slice of the host is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    Thread(u32),
    Evals(u16),
}

/// A slice of the host, in nanoseconds.
struct HostSlice {
    track: Track,
    name: &'static str,
    stream: u16,
    kind: Kind,
    start: u64,
    end: u64,
}

/// A submission on the device, in ticks.
struct Batch {
    device: usize,
    stream: u16,
    value: u64,
    kernels: Vec<(&'static str, u64, u64)>,
}

#[derive(Default)]
struct Log {
    host: Vec<HostSlice>,
    batches: Vec<Batch>,
    threads: Vec<(u32, String)>,
    devices: Vec<Arc<Clock>>,
    slices: usize,
    dropped: u64,
}

impl Log {
    fn room(&mut self, slices: usize) -> bool {
        if self.slices + slices > MOST {
            self.dropped += slices as u64;
            return false;
        }
        self.slices += slices;
        true
    }
}

/// Whether a trace is written.
pub(crate) fn is_on(config: &Config) -> bool {
    config.trace.is_some()
}

/// Nanoseconds on the trace's axis.
pub(crate) fn now() -> u64 {
    EPOCH.elapsed().as_nanos() as u64
}

/// This thread's number in the trace.
fn thread() -> u32 {
    thread_local!(static NUMBER: OnceCell<u32> = const { OnceCell::new() });
    NUMBER.with(|number| {
        *number.get_or_init(|| {
            static NEXT: AtomicU32 = AtomicU32::new(1);
            let number = NEXT.fetch_add(1, Relaxed);
            let name = std::thread::current().name().unwrap_or("thread").to_owned();
            LOG.lock().threads.push((number, name));
            number
        })
    })
}

fn push(track: Track, name: &'static str, stream: u16, kind: Kind, start: u64) {
    let end = now();
    let mut log = LOG.lock();
    if log.room(1) {
        log.host.push(HostSlice { track, name, stream, kind, start, end });
    }
}

/// Runs `encode` and notes how long operation `name` took to encode. Only called where [`is_on`].
pub(crate) fn encoding<T>(name: &'static str, stream: u16, encode: impl FnOnce() -> T) -> T {
    let (start, thread) = (now(), thread());
    let result = encode();
    push(Track::Thread(thread), name, stream, Kind::Encode, start);
    result
}

/// Notes a submission that was begun at `start`.
pub(crate) fn submitted(stream: u16, value: u64, dispatches: u64, barriers: u64, start: u64) {
    let kind = Kind::Submit(value, dispatches, barriers);
    push(Track::Thread(thread()), "submit", stream, kind, start);
}

/// Notes a wait for a submission that was begun at `start`.
pub(crate) fn waited(stream: u16, value: u64, start: u64) {
    push(Track::Thread(thread()), "wait", stream, Kind::Wait(value), start);
}

/// Notes a pipeline of `kernel` that this thread began to make at `start`.
pub(crate) fn built(kernel: &'static str, start: u64) {
    push(Track::Thread(thread()), kernel, 0, Kind::Build, start);
}

/// Notes an evaluation whose first operation was begun at `start`.
pub(crate) fn evaluated(stream: u16, operations: u64, start: u64) {
    push(Track::Evals(stream), "eval", stream, Kind::Eval(operations), start);
}

/// The clock of a device in the trace.
pub(crate) struct Clock {
    index: usize,
    name: String,
    device: Arc<Device>,
    calibrated: bool,
    state: Mutex<(Axis, Option<u64>)>,
}

impl Clock {
    /// A clock of a device whose timestamps tick every `period` nanoseconds.
    pub(crate) fn new(device: &Arc<Device>, name: &str, period: f64) -> Arc<Self> {
        let enabled = device.enabled_extensions().ext_calibrated_timestamps;
        let mut log = LOG.lock();
        let clock = Arc::new(Clock {
            index: log.devices.len(),
            name: name.to_owned(),
            device: device.clone(),
            calibrated: enabled && calibration::is_supported(device.physical_device()),
            state: Mutex::new((Axis::new(period), None)),
        });
        log.devices.push(clock.clone());
        drop(log);
        clock.calibrate();
        clock
    }

    /// Reads both clocks, unless that was done a moment ago.
    ///
    /// The host's reading is of CLOCK_MONOTONIC, from which [`Instant`] differs by a constant that
    /// Rust does not tell: readings just before and after bound it, the tightest counts.
    fn calibrate(&self) {
        let mut state = self.state.lock();
        let (axis, last) = &mut *state;
        if !self.calibrated || last.is_some_and(|last| now() < last + CALIBRATE_EVERY) {
            return;
        }
        let readings = (0..READINGS).filter_map(|_| {
            let before = now();
            let reading = calibration::read(&self.device)?;
            Some((before, reading, now()))
        });
        let Some((before, reading, after)) = readings.min_by_key(|(b, r, a)| a - b + r.deviation)
        else {
            return;
        };
        let half = (after - before) as f64 / 2.0;
        axis.calibrate(reading.device, before as f64 + half, half + reading.deviation as f64);
        *last = Some(after);
    }

    /// Its axis now.
    fn axis(&self) -> Axis {
        self.calibrate();
        self.state.lock().0.clone()
    }

    /// Adds a submission that has run: when it was handed over, and its kernels with their first
    /// and last ticks.
    pub(crate) fn ran(
        &self,
        stream: u16,
        (value, submitted): (u64, u64),
        kernels: Vec<(&'static str, u64, u64)>,
    ) {
        let (Some(first), Some(last)) = (kernels.first(), kernels.last()) else { return };
        let seen = now() as f64;
        self.state.lock().0.submission(submitted as f64, first.1, last.2, seen);
        self.calibrate();
        let mut log = LOG.lock();
        if log.room(kernels.len() + 1) {
            log.batches.push(Batch { device: self.index, stream, value, kernels });
        }
    }
}
