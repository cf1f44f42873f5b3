//! Threads for what must not hold up others: callbacks, destructors of users, evaluations that nobody waits
//! for.

use std::{
    sync::mpsc::{self, Sender},
    thread,
};

use parking_lot::Mutex;

use crate::notice;

/// Something to be run.
pub type Job = Box<dyn FnOnce() + Send>;

/// Runs `job` on a thread that it has to itself, so that it may wait for other jobs.
pub(crate) fn run(job: Job) {
    /// Threads that have nothing to do.
    static IDLE: Mutex<Vec<Sender<Job>>> = Mutex::new(Vec::new());
    let idle = IDLE.lock().pop();
    let job = match idle {
        Some(thread) => match thread.send(job) {
            Ok(()) => return,
            Err(mpsc::SendError(job)) => job,
        },
        None => job,
    };
    let (sender, jobs) = mpsc::channel::<Job>();
    let serve = move || {
        let mut next = Some(job);
        while let Some(job) = next {
            // What panics has said so.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            IDLE.lock().push(sender.clone());
            next = jobs.recv().ok();
        }
    };
    let started = thread::Builder::new().name("mlx-spare".into()).spawn(serve);
    if let Err(error) = started {
        notice::warn(format_args!("no thread for a callback or an evaluation: {error}"));
    }
}
