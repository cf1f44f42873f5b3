//! The turn to evaluate, which one evaluation of the process has at a time.

use std::ops;

use once_cell::sync::Lazy;
use parking_lot::{Mutex, MutexGuard};

use crate::{foreign::Holding, graph::Turn};

static TURN: Lazy<Mutex<Turn>> = Lazy::new(|| Mutex::new(Turn::new()));

/// The turn to evaluate.
pub(crate) struct TurnGuard {
    pub(super) guard: MutexGuard<'static, Turn>,
    /// Dropped after the lock is released.
    pub(super) holding: Holding,
}

/// Waits until nobody evaluates.
pub(crate) fn turn() -> TurnGuard {
    let holding = Holding::new();
    TurnGuard { guard: TURN.lock(), holding }
}

/// The turn to evaluate, if nobody has it.
pub(super) fn turn_at_once() -> Option<TurnGuard> {
    let holding = Holding::new();
    TURN.try_lock().map(|guard| TurnGuard { guard, holding })
}

impl TurnGuard {
    /// Gives the turn back while `f` runs.
    pub(super) fn without<T>(&mut self, f: impl FnOnce() -> T) -> T {
        let TurnGuard { guard, holding } = self;
        MutexGuard::unlocked(guard, || holding.without(f))
    }
}

impl ops::Deref for TurnGuard {
    type Target = Turn;

    fn deref(&self) -> &Turn {
        &self.guard
    }
}

impl ops::DerefMut for TurnGuard {
    fn deref_mut(&mut self) -> &mut Turn {
        &mut self.guard
    }
}
