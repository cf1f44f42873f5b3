//! The end of the process. `exit` tears the driver's libraries down while other threads still run, and
//! a call of the driver that begins or goes on then may use what is gone. So a handler of ours runs
//! before those of the driver: it stops the hand-over of work, waits for what the devices were given,
//! and from then on nobody but the ending thread gets into the driver. Everything that it waits for it
//! waits for a bounded time: a process must end whatever its devices do.

use std::{
    cell::Cell,
    ffi::c_int,
    marker::PhantomData,
    process, ptr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::{
    RawRwLock,
    lock_api::{RawRwLock as _, RawRwLockTimed as _},
};

/// How long the end of the process waits for the devices.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it waits for threads that are in the driver: longer than any of them sleeps there, and than the
/// driver's compiler mostly takes for a pipeline. Where it takes longer, nothing is torn down.
const LEAVE: Duration = Duration::from_secs(5);

/// Shared by the threads that are in the driver; the ending thread takes it for good.
static CALLS: RawRwLock = RawRwLock::INIT;
static IS_ENDING: AtomicBool = AtomicBool::new(false);
static WATCH: OnceLock<Watch> = OnceLock::new();

thread_local! {
    /// The [`InDriver`]s of this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

struct Watch {
    process: u32,
    /// Waits until the devices have done what they were given, but not past an instant.
    finish: fn(Instant),
}

/// One call of the driver, or several. A thread that begins one while the process ends stays there.
pub(crate) struct InDriver(PhantomData<*const ()>);

impl InDriver {
    /// It begins.
    pub(crate) fn new() -> Self {
        if DEPTH.get() == 0 && !ENDS.get() {
            CALLS.lock_shared();
        }
        DEPTH.set(DEPTH.get() + 1);
        InDriver(PhantomData)
    }
}

impl Drop for InDriver {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 && !ENDS.get() {
            // SAFETY: the outermost call of this thread took the lock.
            unsafe { CALLS.unlock_shared() }
        }
    }
}

/// For threads that are about to hand work over, or wait for others to do so: does not return if the
/// process ends.
pub(crate) fn stop_if_ending() {
    if !IS_ENDING.load(SeqCst) || ENDS.get() {
        return;
    }
    if DEPTH.get() > 0 {
        // SAFETY: the outermost call of this thread took the lock, and this thread calls nothing any more.
        unsafe { CALLS.unlock_shared() }
    }
    loop {
        thread::park();
    }
}

/// Lets the end of the process `finish` what the devices were given. Handlers run in the reverse order
/// of their registration, and a driver may register some at any of its calls: those of before now run
/// after ours. Every call adds an entry for good, so callers bound how many they make.
pub(crate) fn watch(finish: fn(Instant)) {
    WATCH.get_or_init(|| Watch { process: process::id(), finish });
    // If there is no room for a handler, exit is as it would be without.
    let _ = register();
}

/// Has the end of the process call [`end`], with the status that it ends with where the C library tells it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn register() -> c_int {
    use std::ffi::c_void;

    unsafe extern "C" {
        fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    }
    extern "C" fn handler(status: c_int, _: *mut c_void) {
        end(Some(status));
    }
    // SAFETY: it is declared as glibc has it, the handler does not unwind, and its argument is not used.
    unsafe { on_exit(handler, ptr::null_mut()) }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn register() -> c_int {
    extern "C" fn handler() {
        end(None);
    }
    // SAFETY: the handler does not unwind.
    unsafe { libc::atexit(handler) }
}

fn end(status: Option<c_int>) {
    // A fork has none of the threads, and its parent's devices are not its own.
    let Some(watch) = WATCH.get().filter(|watch| watch.process == process::id()) else { return };
    // It is registered several times, and a thread may exit from within the driver.
    if DEPTH.get() > 0 || IS_ENDING.swap(true, SeqCst) {
        return;
    }
    let until = Instant::now() + PATIENCE;
    (watch.finish)(until);
    let all_left = CALLS.try_lock_exclusive_for(LEAVE);
    ENDS.set(true);
    // Somebody may have been about to hand work over.
    (watch.finish)(until);
    if let Some(status) = status.filter(|_| !all_left) {
        // A driver's compiler can take longer, and its thread would crash as soon as a later handler unloads
        // it: the process ends without those.
        // SAFETY: without a stream it flushes all; nothing is used behind `_exit`.
        unsafe {
            libc::fflush(ptr::null_mut());
            libc::_exit(status);
        }
    }
}
