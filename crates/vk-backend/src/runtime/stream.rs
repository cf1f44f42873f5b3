//! A stream: an encoder, and a clock that is a timeline semaphore.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::*},
        mpsc,
    },
    time::{Duration, Instant},
};

use mlx_vulkan_core::{
    Error, Result,
    backend::Encoded,
    clock::{Clock, Tick},
    foreign::{self, Holding, Job as Callback},
    memory,
    outcome::Failure,
};
use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use crate::runtime::{
    commit::{GLANCE, Handover},
    device::DeviceState,
    encoder::{Blocked, Deferred, Encoder},
    raw::{error, timeline::Timeline},
    trace,
};

/// How long a waiter for a software device polls at most before it sleeps: it computes on the same cores.
const SOFTWARE_SPIN: Duration = Duration::from_micros(50);
/// Pauses of the processor between two polls, a microsecond or two: asking the driver takes
/// locks that a committer needs, too (prompts of 8B on an H200: 13,750 tokens/s without
/// pauses, 14,270 for who sleeps soon).
const PAUSES: u32 = 64;
/// How often a sleeping waiter looks for a lost device.
const NAP: Duration = Duration::from_millis(500);
/// How long an operation without memory waits for work in flight that may hold some. Not forever: that work
/// may itself wait for something that only the waiting thread will do.
const MEMORY_PATIENCE: Duration = Duration::from_secs(10);

/// The clock of a stream: value `n` is reached when its `n`-th submission has finished.
pub(crate) struct Timer {
    /// Index of the stream.
    pub(crate) stream: u16,
    pub(crate) device: Arc<DeviceState>,
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
}

impl Timer {
    fn new(stream: u16, device: &Arc<DeviceState>) -> Result<Self> {
        let timeline =
            Timeline::new(&device.raw.device).map_err(|e| error::validated_error("stream", &e))?;
        Ok(Timer {
            stream,
            device: device.clone(),
            timeline: Arc::new(timeline),
            encoded: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
            handed: AtomicU64::new(0),
            reached: AtomicU64::new(0),
            signals: Mutex::default(),
            fault: OnceCell::new(),
        })
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
    fn failure(&self, value: u64) -> Option<Error> {
        let fault = self.fault.get().filter(|(first, _)| *first <= value);
        let lost = || if self.now() < value { self.device.raw.check().err() } else { None };
        fault.map(|(_, error)| error.clone()).or_else(lost)
    }

    /// # Errors
    /// When the device is lost or work of the stream could not be handed over.
    pub(crate) fn check(&self) -> Result<()> {
        self.device.raw.check()?;
        self.fault.get().map_or(Ok(()), |(_, error)| Err(error.clone()))
    }

    /// Whether the device has work of this stream.
    pub(crate) fn is_busy(&self) -> bool {
        !self.has_reached(self.handed.load(Acquire))
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
                self.device.raw.fail("synchronize", &error);
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
        let traced = trace::is_on(self.device.config).then(trace::now);
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
        let spin = Duration::from_micros(self.device.config.spin_us);
        let software = self.device.capabilities().is_software();
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
            self.nap(value, NAP.min(left))?;
        }
        Ok(true)
    }

    /// Sleeps until `value` is reached or something else that it waits for has happened.
    fn nap(&self, value: u64, patience: Duration) -> Result<()> {
        let handed = self.handed.load(Acquire);
        if handed < value && self.now() >= handed {
            // The committer is about to hand it over.
            std::thread::sleep(GLANCE.min(patience));
            return Ok(());
        }
        let waited = self.timeline.wait(self.signal_of(value.min(handed)), patience);
        waited.map(drop).map_err(|e| self.device.raw.fail("synchronize", &e))
    }
}

/// A stream of a Vulkan device.
pub(crate) struct VkStream {
    timer: Arc<Timer>,
    encoder: Mutex<Encoder>,
    handover: Arc<Handover>,
    /// The thread that runs callbacks; started by the first one.
    waiter: Mutex<Option<mpsc::Sender<(u64, Callback)>>>,
    this: Weak<VkStream>,
}

impl VkStream {
    /// A stream with this index on one of the device's queues, which may put off work as `deferred`.
    pub(crate) fn new(
        device: &Arc<DeviceState>,
        index: u16,
        nth: usize,
        deferred: Option<Box<dyn Deferred>>,
    ) -> Result<Arc<Self>> {
        let timer = Arc::new(Timer::new(index, device)?);
        let queue = device.raw.queues[nth % device.raw.queues.len()].clone();
        let handover = Handover::new(timer.clone(), queue, deferred.is_some());
        let encoder = Encoder::new(timer.clone(), handover.clone(), deferred);
        Ok(Arc::new_cyclic(|this| VkStream {
            timer,
            encoder: Mutex::new(encoder),
            handover,
            waiter: Mutex::default(),
            this: this.clone(),
        }))
    }

    /// Encodes with exclusive use of the stream.
    pub(crate) fn encode<T>(&self, f: impl FnOnce(&mut Encoder) -> T) -> T {
        let _holding = Holding::new();
        let mut encoder = self.encoder.lock();
        f(&mut encoder)
    }

    /// Encodes an operation, or undoes what it did if it fails. What it gave, if it is encoded, and what the
    /// evaluation does then; waits for nothing.
    pub(crate) fn work<T>(
        self: &'static Arc<Self>,
        f: impl FnOnce(&mut Encoder) -> Result<T>,
    ) -> Result<(Option<T>, Encoded)> {
        let (result, blocked, overdue) = self.encode(|encoder| {
            let result = f(encoder);
            let blocked = if result.is_err() { encoder.undo_op() } else { None };
            let ended = encoder.end_op();
            (result.and_then(|done| ended.map(|()| done)), blocked, encoder.overdue())
        });
        match (result, blocked) {
            (Ok(done), _) => Ok((
                Some(done),
                match overdue {
                    Some(value) => Encoded::Full(Box::new(move || self.timer.block(value))),
                    None => Encoded::Done,
                },
            )),
            (Err(_), Some(Blocked::Until(tick))) => {
                Ok((None, Encoded::Later(Box::new(move || tick.wait()))))
            }
            (Err(error), Some(Blocked::Memory)) => {
                Ok((None, Encoded::NoMemory(Box::new(move || self.make_room()), Box::new(error))))
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Waits for work in flight, which may hold memory, and frees what can be freed.
    fn make_room(&self) -> Result<()> {
        self.commit()?;
        self.timer.block_for(self.timer.submitted.load(Acquire), MEMORY_PATIENCE)?;
        self.handover.settle()?;
        self.handover.free();
        self.device().check_guards();
        memory::clear_cache();
        Ok(())
    }

    /// Hands everything over and waits for it.
    pub(crate) fn drain(&self) -> Result<()> {
        self.commit()?;
        self.timer.block(self.timer.submitted.load(Acquire))?;
        self.handover.settle()
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<DeviceState> {
        &self.timer.device
    }

    /// Whether everything handed over has finished.
    pub(crate) fn is_idle(&self) -> bool {
        self.timer.now() >= self.timer.submitted.load(Acquire)
    }

    /// The stream's clock, which other streams wait for.
    pub(crate) fn timer(&self) -> &Arc<Timer> {
        &self.timer
    }

    /// The tick of everything encoded so far.
    pub(crate) fn tick(&self) -> Tick {
        self.timer.tick()
    }

    /// Hands over what is encoded.
    pub(crate) fn commit(&self) -> Result<()> {
        self.encode(Encoder::commit)
    }

    /// Looks at guards, where there are some, once `value` is reached.
    ///
    /// # Errors
    /// What is found, or was, that concerns the results of that batch.
    fn look_at_guards(&self, value: u64) -> Result<()> {
        if self.device().guards.is_none() {
            return Ok(());
        }
        // Memory of work that has just run retires once its committer has let go of it.
        self.handover.settle()?;
        self.handover.free();
        self.device().check_guards();
        self.broken_guard(value).map_or(Ok(()), |broken| Err(broken.tell()))
    }

    /// What was found broken that concerns the results of a batch.
    fn broken_guard(&self, value: u64) -> Option<Arc<Failure>> {
        let tick = Tick { stream: self.timer.stream, value };
        self.device().guards.as_ref()?.failure(tick)
    }

    /// Hands over work up to `value` if it still is in the encoder.
    pub(crate) fn commit_up_to(&self, value: u64) -> Result<()> {
        if value > self.timer.submitted.load(Acquire) { self.commit() } else { Ok(()) }
    }

    /// Gives up what the stream keeps for later work, if everything has run; whether it has. What comes later
    /// makes it anew.
    pub(crate) fn rest(&self) -> bool {
        let rests = self.encode(Encoder::rest);
        if rests {
            self.handover.rest();
            // Its thread ends with the callbacks that it has.
            *self.waiter.lock() = None;
        }
        rests
    }

    fn waiter(&self) -> mpsc::Sender<(u64, Callback)> {
        let mut waiter = self.waiter.lock();
        let start = || {
            let (sender, receiver) = mpsc::channel::<(u64, Callback)>();
            let timer = self.timer.clone();
            let run = move || {
                foreign::serve();
                for (value, then) in receiver {
                    // A failed stream runs its callbacks too: those who wait must not hang.
                    if let Err(error) = timer.block(value) {
                        tracing::error!("{error}");
                    }
                    then();
                }
            };
            let name = format!("mlx-vk-{}", self.timer.stream);
            let started = std::thread::Builder::new().name(name).spawn(run);
            if let Err(error) = started {
                tracing::error!("no thread for callbacks: {error}");
            }
            sender
        };
        waiter.get_or_insert_with(start).clone()
    }
}

impl Clock for VkStream {
    fn now(&self) -> u64 {
        self.timer.now()
    }

    fn wait(&self, value: u64) -> Result<()> {
        self.commit_up_to(value)?;
        if value > self.timer.submitted.load(Acquire) {
            self.timer.check()?;
            return Err(Error::device("synchronize", "waiting for work that was never encoded"));
        }
        self.timer.block(value)?;
        self.handover.free();
        self.timer.failure(value).map_or(Ok(()), Err)?;
        self.look_at_guards(value)
    }

    fn failure(&self, value: u64) -> Option<Error> {
        self.timer.failure(value).or_else(|| self.broken_guard(value).map(|broken| broken.tell()))
    }

    fn untold(&self) -> Option<Error> {
        self.device().guards.as_ref()?.untold(Some(self.timer.stream))
    }

    fn on_reach(&self, value: u64, then: Callback) {
        if let Err(error) = self.commit_up_to(value) {
            tracing::error!("{error}");
        }
        if self.now() >= value {
            return then();
        }
        if let Err(mpsc::SendError((_, then))) = self.waiter().send((value, then)) {
            // No thread: wait here rather than never.
            let _ = self.this.upgrade().map(|s| s.timer.block(value));
            then();
        }
    }
}
