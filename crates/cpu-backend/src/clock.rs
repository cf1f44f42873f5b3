//! The clock of a CPU stream.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::*},
    },
    time::Duration,
};

use mlx_vulkan_core::{Error, Result, clock::Clock, outcome::Failure, spare::Job};
use parking_lot::{Condvar, Mutex};

/// Failures of which nobody was told that are remembered: whoever is told of one knows that the stream
/// has failed.
const MOST_UNTOLD: usize = 16;

#[derive(Default)]
struct State {
    callbacks: Vec<(u64, Job)>,
    /// The oldest failures that nobody was told of.
    untold: Vec<Arc<Failure>>,
}

/// Counts the batches that a stream's thread has finished.
#[derive(Default)]
pub(crate) struct CpuClock {
    now: AtomicU64,
    state: Mutex<State>,
    advanced: Condvar,
}

impl CpuClock {
    /// Remembers a failure, which its results have, until somebody is told of it.
    pub(crate) fn note(&self, failure: &Arc<Failure>) {
        let mut state = self.state.lock();
        state.untold.retain(|known| !known.was_told());
        let known = state.untold.iter().any(|known| Arc::ptr_eq(known, failure));
        if !known && state.untold.len() < MOST_UNTOLD {
            state.untold.push(failure.clone());
        }
    }

    /// Sets the clock to `value`, and wakes who waits for it.
    pub(crate) fn advance(&self, value: u64) {
        let mut state = self.state.lock();
        self.now.store(value, Release);
        let due: Vec<Job> =
            state.callbacks.extract_if(.., |(v, _)| *v <= value).map(|(_, f)| f).collect();
        drop(state);
        self.advanced.notify_all();
        due.into_iter().for_each(|f| f());
    }

    /// Waits shortly without sleeping: most batches are shorter than a wake-up.
    fn spin(&self, value: u64) -> bool {
        (0..200).any(|round| {
            if round > 0 {
                std::hint::spin_loop();
            }
            self.now() >= value
        })
    }
}

impl Clock for CpuClock {
    fn now(&self) -> u64 {
        self.now.load(Acquire)
    }

    fn wait_for(&self, value: u64, patience: Duration) -> Result<bool> {
        if self.spin(value) {
            return Ok(true);
        }
        let mut state = self.state.lock();
        let waits = |_: &mut State| self.now() < value;
        Ok(!self.advanced.wait_while_for(&mut state, waits, patience).timed_out())
    }

    fn untold(&self) -> Option<Error> {
        let untold = std::mem::take(&mut self.state.lock().untold);
        untold.iter().find(|failure| !failure.was_told()).map(|failure| failure.tell())
    }

    fn on_reach(&self, value: u64, then: Job) {
        let mut state = self.state.lock();
        if self.now() < value {
            state.callbacks.push((value, then));
            return;
        }
        drop(state);
        then();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_that_nobody_was_told_of_are_told_once() {
        let clock = CpuClock::default();
        let failures: Vec<_> = ["first", "second", "third"]
            .map(|text| Failure::new(Error::invalid("inv", text)))
            .into();
        failures.iter().for_each(|failure| clock.note(failure));
        clock.advance(1);
        assert!(clock.wait(1).is_ok(), "results have their errors");
        failures[0].tell();
        assert_eq!(clock.untold().unwrap().to_string(), "[inv] second");
        assert!(clock.untold().is_none());
        (0..200).for_each(|_| clock.note(&Failure::new(Error::invalid("inv", "again"))));
        assert_eq!(clock.state.lock().untold.len(), MOST_UNTOLD);
    }
}
