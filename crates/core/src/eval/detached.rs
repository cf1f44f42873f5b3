//! Evaluations that go on by themselves.
//!
//! From Python it takes about as long to build the graph of a model's step as to encode the one before. So
//! who does not wait for an evaluation hands it to another thread once it is known to be large, and builds
//! on. The turn goes along: nobody ever gets between the two threads. What concerns the caller (traced
//! arrays, streams of other threads) was looked at before, streams as far as the graph was walked; the other
//! thread may use the caller's. The evaluations of one thread still come one after the other: the next one
//! begins when the last one is encoded.

use std::{cell::RefCell, sync::Arc};

use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;

use super::TurnGuard;
use crate::{Result, Stream, foreign::Holding, interrupt, spare, stream};

/// The evaluations that have not ended.
static UNDER_WAY: Mutex<Vec<Arc<State>>> = Mutex::new(Vec::new());

thread_local! {
    /// The last evaluation that this thread handed over.
    static LAST: RefCell<Option<Arc<State>>> = const { RefCell::new(None) };
}

struct State {
    progress: Mutex<Progress>,
    went_on: Condvar,
}

/// How far an evaluation is.
enum Progress {
    /// Its graph is walked.
    Finds,
    /// It has work for these streams.
    Encodes(SmallVec<[Stream; 2]>),
    Ended,
}

impl State {
    /// Waits until the evaluation has no more work for streams that are `meant`.
    fn wait(&self, meant: impl Fn(Stream) -> bool) -> Result<()> {
        let may_touch = |progress: &mut Progress| match progress {
            Progress::Finds => true,
            Progress::Encodes(streams) => streams.iter().any(|stream| meant(*stream)),
            Progress::Ended => false,
        };
        interrupt::until(|patience| {
            let mut progress = self.progress.lock();
            let waited = self.went_on.wait_while_for(&mut progress, may_touch, patience);
            Ok(!waited.timed_out())
        })
    }

    fn go_on_to(&self, progress: Progress) {
        *self.progress.lock() = progress;
        self.went_on.notify_all();
    }
}

/// Ends an evaluation for who waits for it, when it is dropped.
pub(super) struct End(Arc<State>);

impl End {
    /// The evaluation has work for `streams` and no others.
    pub(super) fn encodes_on(&self, streams: impl Iterator<Item = Stream>) {
        self.0.go_on_to(Progress::Encodes(streams.collect()));
    }
}

impl Drop for End {
    fn drop(&mut self) {
        UNDER_WAY.lock().retain(|state| !Arc::ptr_eq(state, &self.0));
        self.0.go_on_to(Progress::Ended);
    }
}

/// Hands the turn to a thread that calls `evaluate` with it. If there can be no such thread, the turn is
/// given back, and nothing is evaluated until somebody waits for it.
pub(super) fn go_on(turn: TurnGuard, evaluate: impl FnOnce(TurnGuard, End) + Send + 'static) {
    let TurnGuard { guard, holding } = turn;
    let state = Arc::new(State { progress: Mutex::new(Progress::Finds), went_on: Condvar::new() });
    UNDER_WAY.lock().push(state.clone());
    LAST.set(Some(state.clone()));
    let (end, lent) = (End(state), stream::lend());
    spare::run(Box::new(move || {
        lent.with(|| evaluate(TurnGuard { guard, holding: Holding::new() }, end));
    }));
    // What was put off may evaluate, so it runs when the turn is elsewhere.
    drop(holding);
}

/// Waits until what this thread handed over is encoded.
///
/// # Errors
/// When this thread shall not wait any more.
pub(super) fn settle_own() -> Result<()> {
    if let Some(state) = LAST.with_borrow(Option::clone) {
        state.wait(|_| true)?;
        LAST.set(None);
    }
    Ok(())
}

/// Whether what this thread handed over is encoded.
pub(super) fn is_settled() -> bool {
    let has_ended = |state: &Arc<State>| matches!(*state.progress.lock(), Progress::Ended);
    LAST.with_borrow(|last| last.as_ref().is_none_or(has_ended))
}

/// Waits until all that was handed over for streams that are `meant` is encoded. Not for who has the turn.
///
/// # Errors
/// When this thread shall not wait any more.
pub(crate) fn settle(meant: impl Fn(Stream) -> bool) -> Result<()> {
    let under_way = UNDER_WAY.lock().clone();
    under_way.iter().try_for_each(|state| state.wait(&meant))
}
