//! Threads that serve streams, one at a time. One that is done waits for the next stream: a program whose
//! threads come and go, each with a stream, has as many of them as it ever had streams at once.

use std::{sync::mpsc, thread};

use mlx_vulkan_core::{Error, Result, foreign};
use parking_lot::Mutex;

/// The serving of a stream.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Threads that have no stream.
static IDLE: Mutex<Vec<mpsc::Sender<Job>>> = Mutex::new(Vec::new());

/// Runs `job` on a thread that has nothing to do, or a new one.
///
/// # Errors
/// When there can be no more threads.
pub(crate) fn give(mut job: Job) -> Result<()> {
    let idle = IDLE.lock().pop();
    if let Some(thread) = idle {
        match thread.send(job) {
            Ok(()) => return Ok(()),
            Err(mpsc::SendError(back)) => job = back,
        }
    }
    let serve = move || {
        foreign::serve();
        let _pool = join_pool();
        let (sender, jobs) = mpsc::channel::<Job>();
        let mut next = Some(job);
        while let Some(job) = next {
            job();
            IDLE.lock().push(sender.clone());
            next = jobs.recv().ok();
        }
    };
    let started = thread::Builder::new().name("mlx-cpu".into()).spawn(serve);
    started
        .map(drop)
        .map_err(|e| Error::device("new_stream", format!("cannot start a thread: {e}")))
}

/// Makes this thread a member of a pool of its own with all cores, so that a task's parallel loops
/// start on the thread itself: handing each one to another pool and waiting for it was measured at
/// 20 µs, several times what a small task takes.
fn join_pool() -> Option<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new()
        .use_current_thread()
        .thread_name(|i| format!("mlx-cpu-worker-{i}"))
        .build();
    // Without it loops run in the global pool.
    pool.inspect_err(|e| tracing::warn!("a thread of CPU streams has no others beside it: {e}"))
        .ok()
}
