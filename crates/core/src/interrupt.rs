//! Ends waits of a thread whose user does not want to wait any more.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use crate::{Result, clock::Clock, eval::ahead, foreign};

/// Says with an error that a wait shall end.
pub type Check = fn() -> Result<()>;

/// How long a thread waits before it asks. People take it for at once.
const PATIENCE: Duration = Duration::from_millis(20);

thread_local! {
    /// What this thread asks.
    static ASKED: Cell<Option<Check>> = const { Cell::new(None) };
    /// When it did last, or began to wait.
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs `f` on this thread, whose waits for devices ask `check` some fifty times in a second and end with its
/// error. What was handed to the devices goes on, and can be waited for again.
///
/// `check` may wait for anything: it is not asked while the thread holds what others need.
pub fn interruptible<T>(check: Check, f: impl FnOnce() -> T) -> T {
    struct Before(Option<Check>);
    impl Drop for Before {
        fn drop(&mut self) {
            ASKED.set(self.0);
        }
    }
    let _before = Before(ASKED.replace(Some(check)));
    LAST.set(None);
    f()
}

/// Blocks until `value` is reached or this thread shall not wait any more.
pub(crate) fn wait(clock: &dyn Clock, value: u64) -> Result<()> {
    match clock.now() >= value {
        true => clock.wait(value),
        false => ahead::blocked(|| until(|patience| clock.wait_for(value, patience))),
    }
}

/// Blocks until `is_reached`, which waits for at most the time that it is given, says so, or this thread
/// shall not wait any more.
pub(crate) fn until(mut is_reached: impl FnMut(Duration) -> Result<bool>) -> Result<()> {
    let Some(check) = ASKED.get().filter(|_| !foreign::is_holding()) else {
        while !is_reached(Duration::MAX)? {}
        return Ok(());
    };
    loop {
        let last = LAST.get().unwrap_or_else(Instant::now);
        let asks = last.elapsed() >= PATIENCE;
        if asks {
            check()?;
        }
        LAST.set(Some(if asks { Instant::now() } else { last }));
        if is_reached(PATIENCE)? {
            return Ok(());
        }
    }
}
