//! Batches of a stream whose results are not what they should be, because a kernel that they need could not
//! be made. The stream goes on.
//!
//! From the first dispatch on that is left out, all are, up to what was encoded when that was noticed: they
//! may read what is not there. What is encoded afterwards is asked what it reads.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::*},
};

use mlx_vulkan_core::{Error, outcome::Failure};
use parking_lot::Mutex;

/// Batches in a row, and why they lack something.
struct Lack {
    first: u64,
    /// All that follow as long as the encoder has not noticed.
    last: u64,
    failure: Arc<Failure>,
}

/// What batches of one stream lack.
#[derive(Default)]
pub(crate) struct Lacks {
    any: AtomicBool,
    /// The encoder has not noticed the last of them.
    unnoticed: AtomicBool,
    list: Mutex<Vec<Lack>>,
}

impl Lacks {
    /// For the committer: dispatches of the batch `first` and of those that follow are left out.
    pub(crate) fn add(&self, first: u64, error: Error) {
        if self.concerns(first) {
            return;
        }
        self.list.lock().push(Lack { first, last: u64::MAX, failure: Failure::new(error) });
        self.any.store(true, Release);
        self.unnoticed.store(true, Release);
    }

    /// For the encoder, which has encoded up to the batch `last` and begins something new.
    pub(crate) fn notice(&self, last: u64) {
        if self.unnoticed.load(Acquire) && self.unnoticed.swap(false, AcqRel) {
            let mut list = self.list.lock();
            list.iter_mut().filter(|lack| lack.last == u64::MAX).for_each(|lack| lack.last = last);
        }
    }

    /// Whether a batch lacks something.
    pub(crate) fn concerns(&self, value: u64) -> bool {
        self.failure(value).is_some()
    }

    /// Why a batch lacks something, if it does.
    pub(crate) fn failure(&self, value: u64) -> Option<Arc<Failure>> {
        if !self.any.load(Acquire) {
            return None;
        }
        let list = self.list.lock();
        let found = list.iter().find(|lack| (lack.first..=lack.last).contains(&value));
        found.map(|lack| lack.failure.clone())
    }

    /// A failure of which nobody was told; now somebody is.
    pub(crate) fn untold(&self) -> Option<Error> {
        if !self.any.load(Acquire) {
            return None;
        }
        let list = self.list.lock();
        let found = list.iter().find(|lack| !lack.failure.was_told());
        found.map(|lack| lack.failure.tell())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_lack_something_until_the_encoder_notices() {
        let lacks = Lacks::default();
        lacks.notice(3);
        assert!(!lacks.concerns(3) && lacks.untold().is_none());
        lacks.add(5, Error::device("pipeline", "refused"));
        lacks.add(6, Error::device("pipeline", "refused once more"));
        assert_eq!([4, 5, 6, 700].map(|value| lacks.concerns(value)), [false, true, true, true]);
        lacks.notice(7);
        lacks.notice(9);
        assert_eq!([4, 5, 7, 8].map(|value| lacks.concerns(value)), [false, true, true, false]);
        lacks.add(11, Error::device("pipeline", "refused"));
        assert_eq!([8, 10, 11, 12].map(|value| lacks.concerns(value)), [false, false, true, true]);
        assert!(lacks.failure(5).unwrap().tell().to_string().ends_with("refused"));
        assert!(lacks.untold().is_some() && lacks.untold().is_none());
    }
}
