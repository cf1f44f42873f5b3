//! The clock of a CPU stream.

use std::sync::atomic::{AtomicU64, Ordering::*};

use mlx_core::{Error, Result, clock::Clock};
use parking_lot::{Condvar, Mutex};

type Callback = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    callbacks: Vec<(u64, Callback)>,
    /// The first failure that nobody has been told of, and the value it happened before.
    failure: Option<(u64, Error)>,
}

/// Counts the batches that a stream's thread has finished.
#[derive(Default)]
pub(crate) struct CpuClock {
    now: AtomicU64,
    state: Mutex<State>,
    advanced: Condvar,
}

impl CpuClock {
    /// Sets the clock to `value` after a batch, and wakes who waits for it.
    pub(crate) fn advance(&self, value: u64, result: Result<()>) {
        let mut state = self.state.lock();
        if let Err(error) = result {
            state.failure.get_or_insert((value, error));
        }
        self.now.store(value, Release);
        let due: Vec<Callback> =
            state.callbacks.extract_if(.., |(v, _)| *v <= value).map(|(_, f)| f).collect();
        drop(state);
        self.advanced.notify_all();
        due.into_iter().for_each(|f| f());
    }

    /// Waits shortly without sleeping: most batches are shorter than a wake-up.
    fn spin(&self, value: u64) -> bool {
        (0..200).any(|_| {
            std::hint::spin_loop();
            self.now() >= value
        })
    }
}

impl Clock for CpuClock {
    fn now(&self) -> u64 {
        self.now.load(Acquire)
    }

    /// Tells a failure to the first who waits past it.
    fn wait(&self, value: u64) -> Result<()> {
        self.spin(value);
        let mut state = self.state.lock();
        while self.now() < value {
            self.advanced.wait(&mut state);
        }
        match state.failure.take_if(|(at, _)| *at <= value) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    fn when_reached(&self, value: u64, then: Callback) {
        let mut state = self.state.lock();
        if self.now() < value {
            state.callbacks.push((value, then));
            return;
        }
        drop(state);
        then();
    }
}
