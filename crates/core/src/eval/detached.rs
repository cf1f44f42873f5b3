//! Evaluations that go on by themselves.
//!
//! From Python it takes about as long to build the graph of a model's step as to encode the one before. So
//! who does not wait for an evaluation hands it to another thread once its tape is made, and builds on. The
//! turn goes along: nobody ever gets between the two threads. What concerns the caller (traced arrays,
//! streams of other threads) was looked at before. The evaluations of one thread still come one after the
//! other: the next one begins when the last one is encoded.

use std::{cell::RefCell, sync::Arc};

use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;

use super::{Touched, TurnGuard};
use crate::{Result, Stream, foreign::Holding, interrupt, spare};

/// The evaluations that have not ended.
static UNDER_WAY: Mutex<Vec<Arc<State>>> = Mutex::new(Vec::new());

thread_local! {
    /// The last evaluation that this thread handed over.
    static LAST: RefCell<Option<Arc<State>>> = const { RefCell::new(None) };
}

struct State {
    /// The streams that it has work for.
    streams: SmallVec<[Stream; 2]>,
    has_ended: Mutex<bool>,
    end: Condvar,
}

impl State {
    fn wait(&self) -> Result<()> {
        interrupt::until(|patience| {
            let mut has_ended = self.has_ended.lock();
            let waited = self.end.wait_while_for(&mut has_ended, |has_ended| !*has_ended, patience);
            Ok(!waited.timed_out())
        })
    }
}

/// Ends an evaluation for who waits for it, when it is dropped.
pub(super) struct End(Arc<State>);

impl Drop for End {
    fn drop(&mut self) {
        UNDER_WAY.lock().retain(|state| !Arc::ptr_eq(state, &self.0));
        *self.0.has_ended.lock() = true;
        self.0.end.notify_all();
    }
}

/// Hands the turn to a thread that calls `evaluate` with it. If there can be no such thread, the turn is
/// given back, and nothing is evaluated until somebody waits for it.
pub(super) fn go_on(
    turn: TurnGuard,
    touched: Touched,
    evaluate: impl FnOnce(TurnGuard, Touched, End) + Send + 'static,
) {
    let TurnGuard { guard, holding } = turn;
    let streams = touched.streams.iter().map(|used| used.stream).collect();
    let state = Arc::new(State { streams, has_ended: Mutex::new(false), end: Condvar::new() });
    UNDER_WAY.lock().push(state.clone());
    LAST.set(Some(state.clone()));
    let end = End(state);
    spare::run(Box::new(move || {
        evaluate(TurnGuard { guard, holding: Holding::new() }, touched, end);
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
        state.wait()?;
        LAST.set(None);
    }
    Ok(())
}

/// Waits until all that was handed over for streams that are `meant` is encoded. Not for who has the turn.
///
/// # Errors
/// When this thread shall not wait any more.
pub(crate) fn settle(meant: impl Fn(Stream) -> bool) -> Result<()> {
    let touches = |state: &&Arc<State>| state.streams.iter().any(|stream| meant(*stream));
    let under_way: Vec<_> = UNDER_WAY.lock().iter().filter(touches).cloned().collect();
    under_way.iter().try_for_each(|state| state.wait())
}
