//! Results that devices begin before somebody asks for them.
//!
//! A training step that nobody compiled takes a gradient, builds the graph of an optimizer's update, and
//! evaluates both. Python takes milliseconds for the update, in which a device would wait. Who took gradients
//! of a function, built on, and then evaluated all of them will do so the next time: from the third time on
//! they are evaluated as soon as their graph is there, by another thread. They are the same; nobody waits.
//!
//! An array whose graph is fused with what reads it might have had no memory of its own. So this is for
//! functions whose results are worth it: derivatives by a model's parameters, which are stored anyway.

use std::{
    cell::RefCell,
    env,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use once_cell::sync::Lazy;
use parking_lot::Mutex;

use super::{begin, detached};
use crate::{Array, Result, array::Inner, transforms::trace};

/// Times that all results were evaluated, one after the other, until they are begun early.
const SEEN: u32 = 3;

/// Times one after the other that they were not, from which on nobody looks any more.
const MISSED: u32 = 16;

/// Of so many times one is looked at again.
const AGAIN: u32 = 64;

/// What has to lie between results and their evaluation: another thread takes a part of that to begin.
const BUILDS: Duration = Duration::from_micros(200);

static IS_ON: Lazy<bool> = Lazy::new(|| env::var_os("MLX_DISABLE_EARLY_GRADIENTS").is_none());

thread_local! {
    /// The results of this thread that were looked at last, until they are evaluated.
    static WATCHED: RefCell<Option<Watch>> = const { RefCell::new(None) };
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
    /// Takes the lazy results of a call, whose caller goes on with them: they are begun if those of the calls
    /// before were evaluated later. Arrays that a transform traces are left alone.
    ///
    /// # Errors
    /// When this thread shall not wait any more for what it asked for before. What goes wrong with the results
    /// is told to who reads them.
    pub fn take(&self, results: &[Array]) -> Result<()> {
        if trace::is_tracing() || !*IS_ON {
            return Ok(());
        }
        if let Some(watch) = WATCHED.take() {
            watch.counts.lock().count(false);
        }
        let lazy = || results.iter().filter(|result| result.data().is_none());
        let next = self.0.lock().next();
        match next {
            Next::Begin => {
                detached::settle_own()?;
                // What cannot be evaluated stays lazy.
                let _ = begin(&lazy().collect::<Vec<_>>());
            }
            Next::Watch => WATCHED.set(Some(Watch {
                results: lazy().map(|result| Arc::downgrade(&result.0)).collect(),
                since: Instant::now(),
                counts: self.0.clone(),
            })),
            Next::Nothing => {}
        }
        Ok(())
    }
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
