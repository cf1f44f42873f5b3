//! Each stream has a clock: a counter that only grows. Events, fences, reuse of memory and
//! `synchronize` are all values on it.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::*},
    },
    time::Duration,
};

use crate::{
    Error, Result, Stream, interrupt,
    spare::{self, Job},
};

/// The counter of one stream, advanced by its backend when a batch of work has finished.
pub trait Clock: Send + Sync {
    /// The largest value reached so far. Does not block.
    fn now(&self) -> u64;

    /// Blocks until `value` is reached.
    ///
    /// # Errors
    /// What keeps the stream from reaching it. Results that failed alone have their own errors.
    fn wait(&self, value: u64) -> Result<()> {
        self.wait_for(value, Duration::MAX).map(drop)
    }

    /// The same for at most about `patience`; whether `value` is reached.
    ///
    /// # Errors
    /// As [`Clock::wait`].
    fn wait_for(&self, value: u64, patience: Duration) -> Result<bool>;

    /// What keeps the stream from ever reaching `value` as it should. Does not block, and tells nothing
    /// of results that failed alone ([`BufferRef::failure`](crate::buffer::BufferRef::failure)).
    fn failure(&self, _value: u64) -> Option<Error> {
        None
    }

    /// The failure of a result of this stream of which nobody was told; now somebody is.
    fn untold(&self) -> Option<Error> {
        None
    }

    /// For backends: runs `then`, which is short and waits for nothing, once `value` is reached (or the
    /// stream has failed): on this thread if it already is, else on the thread that reaches it.
    fn on_reach(&self, value: u64, then: Job);

    /// Runs `then` once `value` is reached (or the stream has failed), on a thread where it may evaluate
    /// and wait.
    fn when_reached(&self, value: u64, then: Job) {
        self.on_reach(value, Box::new(move || spare::run(then)));
    }
}

/// A point on a stream's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// Index of the stream. When the stream is given back, another one goes on with index and clock.
    pub stream: u16,
    /// Value on its clock; 48 bits.
    pub value: u64,
}

/// Clocks with neighbouring indices.
type Shelf = [OnceLock<Arc<dyn Clock>>; 256];

/// The clocks of all indices. They stay where they are, so that looking at one, as whoever reads an array
/// does, takes no lock.
static CLOCKS: [OnceLock<Box<Shelf>>; 256] = [const { OnceLock::new() }; 256];

/// Files the clock of an index, which stays when its stream is given back: another one goes on with it.
/// Indices begin in their order.
pub(crate) fn register(stream: Stream, clock: Arc<dyn Clock>) {
    let [shelf, place] = stream.index.to_be_bytes().map(usize::from);
    let shelf = CLOCKS[shelf].get_or_init(|| Box::new(std::array::from_fn(|_| OnceLock::new())));
    let is_new = shelf[place].set(clock).is_ok();
    debug_assert!(is_new, "stream {} has a clock", stream.index);
}

/// The clock of a stream.
///
/// # Panics
/// When there never was a stream of this index.
#[inline]
pub fn clock(stream: u16) -> &'static Arc<dyn Clock> {
    let [shelf, place] = stream.to_be_bytes().map(usize::from);
    let clock = CLOCKS[shelf].get().and_then(|shelf| shelf[place].get());
    clock.expect("every tick is of a stream")
}

impl Tick {
    /// Before any work: always reached.
    pub const START: Tick = Tick { stream: 0, value: 0 };

    /// Stream in the upper 16 bits, value in the lower 48.
    fn pack(self) -> u64 {
        (self.stream as u64) << 48 | self.value
    }

    /// Undoes [`Tick::pack`].
    fn unpack(bits: u64) -> Tick {
        Tick { stream: (bits >> 48) as u16, value: bits & ((1 << 48) - 1) }
    }

    /// Whether the work up to this point has finished.
    pub fn reached(self) -> bool {
        self.value == 0 || clock(self.stream).now() >= self.value
    }

    /// What keeps the stream from ever getting here. Does not block.
    pub fn failure(self) -> Option<Error> {
        if self.value == 0 { None } else { clock(self.stream).failure(self.value) }
    }

    /// Blocks until the work up to this point has finished.
    ///
    /// # Errors
    /// What keeps the stream from getting there; that of [`interrupt::interruptible`].
    pub fn wait(self) -> Result<()> {
        if self.value == 0 {
            return Ok(());
        }
        interrupt::wait(&**clock(self.stream), self.value)
    }
}

/// A tick that threads share without a lock. It begins as [`Tick::START`].
#[derive(Debug, Default)]
pub struct AtomicTick(AtomicU64);

impl AtomicTick {
    /// The tick.
    pub fn load(&self) -> Tick {
        Tick::unpack(self.0.load(Acquire))
    }

    /// Replaces it.
    pub fn store(&self, tick: Tick) {
        self.0.store(tick.pack(), Release);
    }

    /// Replaces [`Tick::START`]; whether it still was that.
    pub fn claim(&self, tick: Tick) -> bool {
        self.0.compare_exchange(Tick::START.pack(), tick.pack(), AcqRel, Acquire).is_ok()
    }
}
