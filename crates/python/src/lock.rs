//! The interpreter's lock: giving it back while something waits, and taking it again.
//!
//! Once the interpreter ends, Python 3.13 and older end a thread that asks for the lock by unwinding it, also
//! through frames of ours, for which there is no rule and which crashes. So threads that come back stay
//! where they are when the interpreter is about to end; those that are on their way get the lock before.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use pyo3::prelude::*;

/// How long the end waits for threads that are about to have the lock.
const PATIENCE: Duration = Duration::from_secs(1);

/// The thread that ends the interpreter, as soon as it does.
static ENDS: OnceLock<ThreadId> = OnceLock::new();
/// Threads that ask for the lock.
static ASKING: AtomicUsize = AtomicUsize::new(0);

/// Runs `f` without the lock.
pub(crate) fn without<T: Send>(py: Python<'_>, f: impl FnOnce() -> T + Send) -> T {
    let result = py.detach(|| {
        let result = f();
        ask();
        result
    });
    ASKING.fetch_sub(1, SeqCst);
    result
}

/// Runs `f` with the lock, on a thread that may have given it back.
pub(crate) fn with<T>(f: impl FnOnce(Python<'_>) -> T) -> T {
    ask();
    Python::attach(|py| {
        ASKING.fetch_sub(1, SeqCst);
        f(py)
    })
}

/// Goes on to ask for the lock, unless another thread ends the interpreter.
fn ask() {
    ASKING.fetch_add(1, SeqCst);
    if ENDS.get().is_some_and(|thread| *thread != thread::current().id()) {
        ASKING.fetch_sub(1, SeqCst);
        loop {
            thread::park();
        }
    }
}

/// Runs `f` at the interpreter's end, without the lock.
pub(crate) fn at_the_end(py: Python<'_>, f: impl FnOnce() + Send) {
    let _ = ENDS.set(thread::current().id());
    without(py, || {
        f();
        let until = Instant::now() + PATIENCE;
        while ASKING.load(SeqCst) > 0 && Instant::now() < until {
            thread::yield_now();
        }
    });
}
