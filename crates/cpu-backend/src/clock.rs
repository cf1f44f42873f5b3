//! The clock of a CPU stream.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering::*},
    thread::{self, ThreadId},
};

use mlx_vulkan_core::{Error, Result, clock::Clock};
use parking_lot::{Condvar, Mutex};

type Callback = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    callbacks: Vec<(u64, Callback)>,
    /// The last batches that failed.
    failures: VecDeque<Failure>,
    /// The values of the last batches, and who handed them over.
    owners: VecDeque<(u64, ThreadId)>,
}

/// A batch that failed.
struct Failure {
    /// The value that it reached.
    value: u64,
    /// Who handed it over.
    owner: ThreadId,
    error: Error,
    told: bool,
}

/// Failures and batches that are remembered.
const MOST_FAILURES: usize = 16;
const MOST_OWNERS: usize = 64;

/// Appends to a list of the last ones.
fn remember<T>(list: &mut VecDeque<T>, most: usize, new: T) {
    if list.len() == most {
        list.pop_front();
    }
    list.push_back(new);
}

impl State {
    /// What somebody is told who has waited for `value`: a failure of that very batch, or one before it
    /// that nobody was told of yet, of this thread or of who handed over that batch. Threads that share a
    /// stream are not told of each other's.
    fn failure(&mut self, value: u64) -> Option<Error> {
        if self.failures.is_empty() {
            return None;
        }
        let owner = self.owners.iter().find(|(reached, _)| *reached == value).map(|o| o.1);
        let theirs = [Some(thread::current().id()), owner];
        let concerns = |f: &&mut Failure| {
            let before = f.value < value && !f.told && theirs.contains(&Some(f.owner));
            f.value == value || before
        };
        let failure = self.failures.iter_mut().find(concerns)?;
        failure.told = true;
        Some(failure.error.clone())
    }
}

/// Counts the batches that a stream's thread has finished.
#[derive(Default)]
pub(crate) struct CpuClock {
    now: AtomicU64,
    state: Mutex<State>,
    advanced: Condvar,
}

impl CpuClock {
    /// Sets the clock to `value` after a batch that `owner` handed over, and wakes who waits for it.
    pub(crate) fn advance(&self, value: u64, owner: ThreadId, result: Result<()>) {
        let mut state = self.state.lock();
        remember(&mut state.owners, MOST_OWNERS, (value, owner));
        if let Err(error) = result {
            let failure = Failure { value, owner, error, told: false };
            remember(&mut state.failures, MOST_FAILURES, failure);
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

    fn wait(&self, value: u64) -> Result<()> {
        self.spin(value);
        let mut state = self.state.lock();
        while self.now() < value {
            self.advanced.wait(&mut state);
        }
        state.failure(value).map_or(Ok(()), Err)
    }

    fn on_reach(&self, value: u64, then: Callback) {
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
    fn failures_are_told_to_those_whose_they_are() {
        let clock = CpuClock::default();
        let stranger = thread::scope(|s| s.spawn(|| thread::current().id()).join().unwrap());
        let error = || Err(Error::invalid("inv", "singular"));
        clock.advance(1, stranger, error());
        clock.advance(2, thread::current().id(), Ok(()));
        // Not this thread's, unless it waits for that very batch, however often.
        assert!(clock.wait(2).is_ok());
        assert!(clock.wait(1).is_err() && clock.wait(1).is_err());
        clock.advance(3, thread::current().id(), error());
        clock.advance(4, thread::current().id(), Ok(()));
        // This thread's, who hears of it once when it waits past it.
        assert!(clock.wait(2).is_ok());
        assert!(clock.wait(4).is_err());
        assert!(clock.wait(4).is_ok());
        // A later batch of who made the one that failed may need what it should have made.
        clock.advance(5, stranger, error());
        clock.advance(6, thread::current().id(), Ok(()));
        clock.advance(7, stranger, Ok(()));
        assert!(clock.wait(6).is_ok() && clock.wait(7).is_err());
        for value in 8..200 {
            clock.advance(value, stranger, error());
        }
        assert!(clock.wait(199).is_err() && clock.wait(8).is_ok());
        assert_eq!(clock.state.lock().failures.len(), MOST_FAILURES);
    }
}
