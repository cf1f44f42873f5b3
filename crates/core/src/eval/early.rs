//! Gradients that devices begin before somebody asks for them.
//!
//! A training step that nobody compiled takes a gradient, builds the graph of an optimizer's update, and
//! evaluates both. Python takes milliseconds for the update, in which a device would wait. Gradients of a
//! function that were evaluated as a whole in three calls, each by [`crate::eval()`] and after something was
//! built of them, are handed to another thread from the fourth call on, as soon as their graph is there. They
//! are the same, and who took them goes on at once.
//!
//! An array whose graph is fused with what reads it might have had no memory of its own. So this is for
//! functions whose results are worth it: derivatives by a model's parameters, which are stored anyway.

use std::{
    cell::{Cell, RefCell},
    env,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use once_cell::sync::Lazy;
use parking_lot::Mutex;

use super::{begin, detached};
use crate::{
    Array,
    array::Inner,
    stream::{self, DeviceType},
    transforms::trace,
};

/// Calls one after the other whose results were all evaluated, until they are begun.
const SEEN: u32 = 3;

/// Calls one after the other of which only some were, or at once, from which on nobody looks any more.
const MISSED: u32 = 16;

/// Of so many calls one is looked at again.
const AGAIN: u32 = 64;

/// What has to lie between results and the encoding of what needs them: another thread takes a part of that
/// to begin.
const BUILDS: Duration = Duration::from_micros(200);

static IS_ON: Lazy<bool> = Lazy::new(|| env::var_os("MLX_DISABLE_EARLY_GRADIENTS").is_none());

thread_local! {
    /// The results of this thread that were looked at last, until they are evaluated.
    static WATCHED: RefCell<Option<Watch>> = const { RefCell::new(None) };
    /// Whether the last long evaluation of this thread is one of results that were begun.
    static BEGUN: Cell<bool> = const { Cell::new(false) };
}

/// What became of the results of one function, which is called again and again.
#[derive(Debug, Default)]
pub struct Early(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    seen: u32,
    missed: u32,
    begun: u32,
}

/// What is done with the results of a call.
#[derive(PartialEq, Eq)]
enum Next {
    Begin,
    Watch,
    Nothing,
}

impl Counts {
    fn next(&mut self) -> Next {
        if self.missed >= MISSED {
            return Next::Nothing;
        }
        if self.seen < SEEN {
            return Next::Watch;
        }
        self.begun += 1;
        if self.begun.is_multiple_of(AGAIN) { Next::Watch } else { Next::Begin }
    }

    fn count(&mut self, evaluated: bool) {
        let Counts { seen, missed, .. } = self;
        (*seen, *missed) = if evaluated { (*seen + 1, 0) } else { (0, *missed + 1) };
    }
}

impl Early {
    /// Looks at the lazy results of a call, whose caller goes on with them. Whether they shall be begun,
    /// because those of the calls before were evaluated later. Arrays that a transform traces are left alone,
    /// and a CPU's, and what comes while this thread's last evaluation is still being encoded.
    pub fn see(&self, results: &[Array]) -> bool {
        if trace::is_tracing() || !*IS_ON || !is_on_gpu() || !detached::is_settled() {
            return false;
        }
        let next = self.0.lock().next();
        let watch = || Watch {
            results: lazy(results).map(|result| Arc::downgrade(&result.0)).collect(),
            since: Instant::now(),
            counts: self.0.clone(),
        };
        // Of results that come before others were evaluated nothing is known.
        WATCHED.set((next == Next::Watch).then(watch));
        next == Next::Begin
    }

    /// Begins such results, if their graph is large. What goes wrong with them is told to who reads them.
    pub fn begin(results: &[Array]) {
        // What cannot be evaluated stays lazy.
        let _ = begin(&lazy(results).collect::<Vec<_>>());
    }
}

fn lazy(results: &[Array]) -> impl Iterator<Item = &Array> {
    results.iter().filter(|result| result.data().is_none())
}

/// Whether this thread works on a GPU. A CPU has the interpreter to run meanwhile, and what is encoded for it
/// takes memory.
pub(super) fn is_on_gpu() -> bool {
    stream::current_stream().is_ok_and(|stream| stream.device.kind == DeviceType::Gpu)
}

/// Notes whether a long evaluation is one of results that are begun. Whether the one before was.
pub(super) fn note(begins: bool) -> bool {
    BEGUN.replace(begins)
}

/// Results of which it is to be seen whether somebody evaluates them.
struct Watch {
    results: Vec<Weak<Inner>>,
    since: Instant,
    counts: Arc<Mutex<Counts>>,
}

impl Watch {
    /// How many are neither evaluated nor gone.
    fn lazy(&self) -> usize {
        let is_lazy = |result: &&Weak<Inner>| {
            result.upgrade().is_some_and(|inner| Array(inner).data().is_none())
        };
        self.results.iter().filter(is_lazy).count()
    }
}

/// Calls `evaluate`, and looks at what becomes of the watched results.
pub(super) fn watching<T>(evaluate: impl FnOnce() -> T) -> T {
    let Some(watch) = WATCHED.take() else { return evaluate() };
    let (before, after_while) = (watch.lazy(), watch.since.elapsed() >= BUILDS);
    let evaluated = evaluate();
    let left = watch.lazy();
    if before == watch.results.len() && left == before {
        // It was something else.
        WATCHED.set(Some(watch));
    } else {
        let all = before == watch.results.len() && left == 0;
        watch.counts.lock().count(all && after_while);
    }
    evaluated
}
