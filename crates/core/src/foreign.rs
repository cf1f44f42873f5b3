//! Code of others: destructors of what users handed over, and their callbacks.
//!
//! It may evaluate, and wait for anything. So it never runs while its thread holds what others need (the
//! turn to evaluate, a stream's encoder), nor on a thread that others wait for (a stream's own): a thread
//! that is [`Holding`] something puts it off until it holds nothing, and threads of the runtime hand it to
//! threads that are there for nothing else.

use std::{cell::Cell, marker::PhantomData, mem::ManuallyDrop};

use crate::spare;

thread_local! {
    static HOLDS: Cell<usize> = const { Cell::new(0) };
    static SERVES: Cell<bool> = const { Cell::new(false) };
    /// What is dropped once this thread holds nothing. It is emptied then, so nothing has to drop the list
    /// itself.
    static PUT_OFF: Cell<ManuallyDrop<Vec<Box<dyn Send>>>> =
        const { Cell::new(ManuallyDrop::new(Vec::new())) };
}

/// This thread holds what others need, as long as one of these exists. It is made before the lock is taken,
/// and dropped after it is released.
pub struct Holding(PhantomData<*const ()>);

impl Holding {
    /// From now on.
    #[expect(clippy::new_without_default, reason = "it is made for what it does")]
    pub fn new() -> Self {
        HOLDS.set(HOLDS.get() + 1);
        Holding(PhantomData)
    }

    /// It does not while `f` runs.
    pub(crate) fn without<T>(&mut self, f: impl FnOnce() -> T) -> T {
        struct Again;
        impl Drop for Again {
            fn drop(&mut self) {
                HOLDS.set(HOLDS.get() + 1);
            }
        }
        let _again = Again;
        let_go();
        f()
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let_go();
    }
}

/// One thing less is held; drops what was put off if that was the last one.
fn let_go() {
    HOLDS.set(HOLDS.get() - 1);
    if HOLDS.get() == 0 {
        let put_off = ManuallyDrop::into_inner(PUT_OFF.take());
        put_off.into_iter().for_each(release);
    }
}

/// Whether this thread holds what others need.
pub(crate) fn is_holding() -> bool {
    HOLDS.get() > 0
}

/// This thread is one of the runtime's: others wait for what it does.
pub fn serve() {
    SERVES.set(true);
}

/// Drops something of a user's, here and now if nobody waits for this thread.
pub(crate) fn release(theirs: impl Send + 'static) {
    if is_holding() {
        let mut list = PUT_OFF.take();
        list.push(Box::new(theirs));
        PUT_OFF.set(list);
    } else if SERVES.get() {
        spare::run(Box::new(move || drop(theirs)));
    } else {
        drop(theirs);
    }
}
