//! What a thread traces.
//!
//! A transform runs the user's function once, on tracers: arrays that stand for its arguments. While it does,
//! the thread has a level, and everything computed from tracers carries the level's mark. An evaluation of a
//! marked array keeps its node, which the transform still needs; the end of the outermost level lets go of
//! what was kept.

use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use smallvec::SmallVec;

use crate::{Array, array::Inner, eval};

/// The level that an array was traced at; levels are numbered over all threads, from 1 on. Seven bytes, which
/// fit beside an array's dtype, with the highest one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark([u8; 7]);

impl Mark {
    /// Of arrays that are computed from no tracer.
    pub(crate) const NONE: Mark = Mark([0; 7]);

    /// Of the level with this number.
    fn of(level: u64) -> Mark {
        let [_, bytes @ ..] = level.to_be_bytes();
        Mark(bytes)
    }
}

struct Level {
    mark: Mark,
    /// For arguments of any sizes.
    shapeless: bool,
}

thread_local! {
    /// Whether there is a level, which every operation asks.
    static TRACING: Cell<bool> = const { Cell::new(false) };
    /// The innermost one is the last.
    static LEVELS: RefCell<Vec<Level>> = const { RefCell::new(Vec::new()) };
    /// Evaluated arrays that kept their nodes, inputs before what is computed from them.
    static RETAINED: RefCell<Vec<Weak<Inner>>> = const { RefCell::new(Vec::new()) };
}

/// A level of this thread, which ends with it.
pub(crate) struct Tracing {
    mark: Mark,
}

impl Tracing {
    /// Begins the innermost level, with the sizes that the arguments have.
    pub(crate) fn new() -> Self {
        Self::level(false)
    }

    /// The same for a function of arguments of any sizes.
    pub(crate) fn shapeless() -> Self {
        Self::level(true)
    }

    fn level(shapeless: bool) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let mark = Mark::of(LAST.fetch_add(1, Relaxed) + 1);
        LEVELS.with_borrow_mut(|levels| levels.push(Level { mark, shapeless }));
        TRACING.set(true);
        Tracing { mark }
    }

    /// What the tracers of this level carry.
    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        let outermost = LEVELS.with_borrow_mut(|levels| {
            levels.pop();
            levels.is_empty()
        });
        if outermost {
            TRACING.set(false);
            let_go(RETAINED.take());
        }
    }
}

/// Takes the nodes of evaluated arrays away.
fn let_go(retained: Vec<Weak<Inner>>) {
    if retained.is_empty() {
        return;
    }
    let arrays: Vec<Array> = retained.iter().filter_map(Weak::upgrade).map(Array).collect();
    let mut turn = eval::turn();
    let nodes: Vec<_> = arrays.iter().map(|array| array.take_node(&mut turn)).collect();
    drop(turn);
    // A node's inputs come before it on the list, so freeing one goes no deeper.
    drop(nodes);
}

/// Whether this thread traces anything.
pub(crate) fn is_tracing() -> bool {
    TRACING.get()
}

/// Whether a level is for arguments of any sizes: what is computed may become a part of its function.
pub(crate) fn is_shapeless() -> bool {
    let any = |levels: &Vec<Level>| levels.iter().any(|level| level.shapeless);
    is_tracing() && LEVELS.with_borrow(any)
}

/// The mark of what is computed from `inputs`: that of the outermost level, which ends last.
pub(crate) fn mark_of(inputs: &[Array]) -> Mark {
    if !is_tracing() {
        return Mark::NONE;
    }
    let marks: SmallVec<[Mark; 4]> = inputs.iter().map(Array::mark).collect();
    let traced = |levels: &Vec<Level>| {
        levels.iter().map(|level| level.mark).find(|mark| marks.contains(mark))
    };
    LEVELS.with_borrow(traced).unwrap_or(Mark::NONE)
}

/// Whether a level of this thread has this mark.
pub(crate) fn is_active(mark: Mark) -> bool {
    let active = |levels: &Vec<Level>| levels.iter().any(|level| level.mark == mark);
    is_tracing() && mark != Mark::NONE && LEVELS.with_borrow(active)
}

/// Remembers that an evaluated array kept its node.
pub(crate) fn retain(array: &Array) {
    RETAINED.with_borrow_mut(|all| all.push(Arc::downgrade(&array.0)));
}
