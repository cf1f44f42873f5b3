//! The streams that an evaluation encodes on, and what is asked of all of them.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    Result, Stream,
    backend::{self, Backend},
    memory, stream,
};

/// The streams that an evaluation has encoded on.
#[derive(Default)]
pub(super) struct Touched {
    streams: SmallVec<[Used; 2]>,
}

/// A stream that work is for, with the one that it runs on.
struct Used {
    asked: Stream,
    stream: Stream,
    backend: &'static Arc<dyn Backend>,
}

impl Touched {
    /// The streams that work for `asked` runs on.
    pub(super) fn of(asked: impl Iterator<Item = Stream>) -> Result<Touched> {
        let mut touched = Touched::default();
        for stream in asked {
            touched.find(stream)?;
        }
        Ok(touched)
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = Stream> {
        self.streams.iter().map(|used| used.stream)
    }

    /// The stream that work of `asked` runs on, with its backend.
    pub(super) fn find(&mut self, asked: Stream) -> Result<(Stream, &'static Arc<dyn Backend>)> {
        if let Some(used) = self.streams.iter().find(|used| used.asked == asked) {
            return Ok((used.stream, used.backend));
        }
        let stream = stream::usable(asked)?;
        let backend = backend::backend_for(stream.device)?;
        self.streams.push(Used { asked, stream, backend });
        Ok((stream, backend))
    }

    /// Hands all encoded work over.
    pub(super) fn finalize(&self) -> Result<()> {
        let all = self.streams.iter().map(|used| used.backend.finalize(used.stream));
        all.fold(Ok(()), Result::and)
    }

    /// Hands over what is encoded for streams that have at most so many submissions under way; whether one
    /// took it.
    pub(super) fn offer(&self, under_way: usize) -> Result<bool> {
        let mut streams = self.streams.iter();
        streams
            .try_fold(false, |taken, used| Ok(used.backend.offer(used.stream, under_way)? || taken))
    }

    /// Hands over what is encoded on other streams than the one that is waited for: somebody else may wait
    /// for it.
    pub(super) fn hand_over_but(&self, asked: Stream) -> Result<()> {
        let mut others = self.streams.iter().filter(|used| used.asked != asked);
        others.try_for_each(|used| used.backend.finalize(used.stream))
    }

    /// Waits until the work has run while more memory is active than should be.
    pub(super) fn wait_for_memory(&self) -> Result<()> {
        let mut streams = self.streams.iter();
        streams.try_for_each(|Used { stream, backend, .. }| {
            if memory::active_memory() <= memory::memory_limit() {
                return Ok(());
            }
            backend.tick(*stream).wait()
        })
    }
}
