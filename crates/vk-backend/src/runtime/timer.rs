//! The clocks of streams: timeline semaphores.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::*},
    },
    time::{Duration, Instant},
};

use mlx_vulkan_core::{Error, Result, clock::Tick};
use once_cell::sync::OnceCell;
use parking_lot::{Mutex, RwLock};

use crate::runtime::{
    config::Config,
    lacks::Lacks,
    raw::{device::RawDevice, error, timeline::Timeline},
    trace,
};

/// How long a waiter for a software device polls at most before it sleeps: it computes on the same cores.
const SOFTWARE_SPIN: Duration = Duration::from_micros(50);
/// Pauses of the processor between two polls, a microsecond or two: asking the driver takes
/// locks that a committer needs, too (prompts of 8B on an H200: 13,750 tokens/s without
/// pauses, 14,270 for who sleeps soon).
const PAUSES: u32 = 64;
/// How often a sleeping waiter looks for a lost device.
pub(crate) const NAP: Duration = Duration::from_millis(500);
/// How often a committer with recorded work looks whether the device is still busy.
pub(crate) const GLANCE: Duration = Duration::from_micros(50);
/// The same, for work that was not handed over for long: the committer may wait for a driver's compiler.
const LONG_GLANCE: Duration = Duration::from_millis(1);

/// The clocks of all streams so far. They live as long as the process.
static TIMERS: RwLock<Vec<Arc<Timer>>> = RwLock::new(Vec::new());

/// Adds the clock of a stream.
pub(crate) fn add(timer: Arc<Timer>) {
    TIMERS.write().push(timer);
}

/// The clock of the stream with core's index, if it is a Vulkan stream.
pub(crate) fn of(stream: u16) -> Option<Arc<Timer>> {
    TIMERS.read().iter().find(|timer| timer.stream == stream).cloned()
}

/// Whether no stream has work in flight.
pub(crate) fn are_idle() -> bool {
    TIMERS.read().iter().all(|timer| timer.is_idle())
}

/// What other streams than `stream` have handed to their committers, and these not yet to a queue.
pub(crate) fn under_way(stream: u16) -> Vec<(Arc<Timer>, u64)> {
    let timers = TIMERS.read();
    let others = timers.iter().filter(|timer| timer.stream != stream);
    let last = others.map(|timer| (timer.clone(), timer.submitted.load(Acquire)));
    last.filter(|(timer, value)| timer.handed.load(Acquire) < *value).collect()
}

/// Waits until the devices have done what they were given, but not past `until`.
pub(crate) fn finish(until: Instant) {
    // A thread that does not go on any more may have the lock, and another one wait to write.
    let timers = TIMERS.read_recursive().clone();
    timers.into_iter().for_each(|timer| timer.finish(until));
}

/// The clock of a stream: value `n` is reached when its `n`-th submission has finished.
pub(crate) struct Timer {
    /// Index of the stream.
    pub(crate) stream: u16,
    pub(crate) raw: Arc<RawDevice>,
    config: &'static Config,
    pub(crate) timeline: Arc<Timeline>,
    /// The value that work was last encoded towards. Only the encoder writes it.
    pub(crate) encoded: AtomicU64,
    /// The last value that was handed over to the committer.
    pub(crate) submitted: AtomicU64,
    /// The last value that is in the device's queue.
    pub(crate) handed: AtomicU64,
    reached: AtomicU64,
    /// What submissions in flight will raise the timeline to: each reaches several values at once.
    signals: Mutex<VecDeque<u64>>,
    /// What went wrong after work was handed over, and the first value whose results are not there.
    fault: OnceCell<(u64, Error)>,
    /// Batches that ran without some of their dispatches.
    pub(crate) lacks: Lacks,
}

impl Timer {
    /// The clock of the stream with core's index.
    pub(crate) fn new(
        stream: u16,
        raw: &Arc<RawDevice>,
        config: &'static Config,
    ) -> Result<Arc<Self>> {
        let timeline =
            Timeline::new(&raw.device).map_err(|e| error::validated_error("stream", &e))?;
        Ok(Arc::new(Timer {
            stream,
            raw: raw.clone(),
            config,
            timeline: Arc::new(timeline),
            encoded: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
            handed: AtomicU64::new(0),
            reached: AtomicU64::new(0),
            signals: Mutex::default(),
            fault: OnceCell::new(),
            lacks: Lacks::default(),
        }))
    }

    /// The tick of everything encoded so far.
    pub(crate) fn tick(&self) -> Tick {
        Tick { stream: self.stream, value: self.encoded.load(Acquire) }
    }

    /// Notes that work towards `value` could not be handed over: whoever waits for it or what comes
    /// later is told.
    pub(crate) fn fail(&self, value: u64, error: Error) {
        let _ = self.fault.set((value, error));
    }

    /// What keeps `value` from being reached with all its results.
    pub(crate) fn failure(&self, value: u64) -> Option<Error> {
        let fault = self.fault.get().filter(|(first, _)| *first <= value);
        let lost = || if self.now() < value { self.raw.check().err() } else { None };
        fault.map(|(_, error)| error.clone()).or_else(lost)
    }

    /// # Errors
    /// When the device is lost or work of the stream could not be handed over.
    pub(crate) fn check(&self) -> Result<()> {
        self.raw.check()?;
        self.fault.get().map_or(Ok(()), |(_, error)| Err(error.clone()))
    }

    /// Whether the device has work of this stream.
    pub(crate) fn is_busy(&self) -> bool {
        !self.has_reached(self.handed.load(Acquire))
    }

    /// How many submissions the device has.
    pub(crate) fn under_way(&self) -> usize {
        let now = self.now();
        self.signals.lock().iter().filter(|signal| **signal > now).count()
    }

    /// Whether everything handed over has finished.
    fn is_idle(&self) -> bool {
        self.now() >= self.submitted.load(Acquire)
    }

    /// Whether submission `value` has finished; asks the driver only when that is not known yet.
    pub(crate) fn has_reached(&self, value: u64) -> bool {
        self.reached.load(Acquire) >= value || self.now() >= value
    }

    /// Everything up to `value` is in the device's queue, in one submission after those before, or never will
    /// be because of an error that [`check`](Self::check) tells.
    pub(crate) fn hand_over(&self, value: u64) {
        let now = self.now();
        let mut signals = self.signals.lock();
        while signals.front().is_some_and(|signal| *signal <= now) {
            signals.pop_front();
        }
        signals.push_back(value);
        self.handed.store(value, Release);
    }

    /// What the timeline is raised to when `value`, which is handed over, is reached. A timeline may be
    /// waited for at any value, but validation layers (1.3.239 and 1.3.275) lose those waits whose
    /// value is not itself the signal of a submission.
    pub(crate) fn signal_of(&self, value: u64) -> u64 {
        let signals = self.signals.lock();
        let reached = self.reached.load(Acquire);
        let nth = signals.partition_point(|signal| *signal < value);
        match signals.get(nth) {
            Some(signal) if value > reached => *signal,
            // What was reached may be forgotten already.
            _ => reached.max(value),
        }
    }

    /// The last finished submission. Asks the driver only when something is in flight.
    pub(crate) fn now(&self) -> u64 {
        let known = self.reached.load(Acquire);
        if known >= self.submitted.load(Acquire) {
            return known;
        }
        match self.timeline.value() {
            Ok(value) => self.reached.fetch_max(value, AcqRel).max(value),
            Err(error) => {
                self.raw.fail("synchronize", &error);
                known
            }
        }
    }

    /// Blocks until submission `value`, which was handed over, has finished.
    pub(crate) fn block(&self, value: u64) -> Result<()> {
        self.block_for(value, Duration::MAX).map(drop)
    }

    /// The same for at most about `patience`; whether the submission has finished.
    pub(crate) fn block_for(&self, value: u64, patience: Duration) -> Result<bool> {
        let traced = trace::is_on(self.config).then(trace::now);
        let done = self.now() >= value;
        let result = if done { Ok(true) } else { self.sleep_for(value, patience) };
        if let Some(start) = traced {
            trace::waited(self.stream, value, start);
        }
        result
    }

    /// Waits until the device has done what it was given, or failed, but not past `until`.
    pub(crate) fn finish(&self, until: Instant) {
        let handed = self.handed.load(Acquire);
        while !self.has_reached(handed) && self.failure(handed).is_none() {
            let left = until.saturating_duration_since(Instant::now()).min(NAP);
            if left.is_zero() || self.timeline.wait(self.signal_of(handed), left).is_err() {
                return;
            }
        }
    }

    fn sleep_for(&self, value: u64, patience: Duration) -> Result<bool> {
        let start = Instant::now();
        let spin = Duration::from_micros(self.config.spin_us);
        let software = self.raw.capabilities.is_software();
        let spin = if software { spin.min(SOFTWARE_SPIN) } else { spin };
        while start.elapsed() < spin {
            if self.now() >= value {
                return Ok(true);
            }
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
        while self.now() < value {
            self.failure(value).map_or(Ok(()), Err)?;
            let left = patience.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            self.nap(value, start, NAP.min(left))?;
        }
        Ok(true)
    }

    /// Sleeps until `value` is reached or something else that it waits for since `start` has happened.
    fn nap(&self, value: u64, start: Instant, patience: Duration) -> Result<()> {
        let handed = self.handed.load(Acquire);
        if handed < value && self.now() >= handed {
            // The committer is about to hand it over, or waits for a pipeline.
            let glance = (start.elapsed() / 32).clamp(GLANCE, LONG_GLANCE);
            std::thread::sleep(glance.min(patience));
            return Ok(());
        }
        let waited = self.timeline.wait(self.signal_of(value.min(handed)), patience);
        waited.map(drop).map_err(|e| self.raw.fail("synchronize", &e))
    }
}
