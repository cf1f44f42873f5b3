//! Threads for what must not hold up others: callbacks, destructors of users, evaluations that nobody waits
//! for.

use std::{
    hint,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use once_cell::sync::Lazy;
use parking_lot::Mutex;

use crate::notice;

/// Something to be run.
pub type Job = Box<dyn FnOnce() + Send>;

/// How long a thread looks for another job before it sleeps. A decode loop has one every millisecond. Waking
/// a virtual machine's core costs who sends the job about 100 µs, and the job begins as much later.
const LOOKS: Duration = Duration::from_millis(1);

/// Pauses between two looks.
const PAUSES: usize = 16;

/// Whether threads look at all: on few cores, others need the one that a thread would look with.
static MAY_LOOK: Lazy<bool> =
    Lazy::new(|| thread::available_parallelism().is_ok_and(|cores| cores.get() >= 4));

/// Whether a thread looks. One does at a time: evaluations follow each other.
static LOOKING: AtomicBool = AtomicBool::new(false);

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
            next = wait(&jobs);
        }
    };
    let started = thread::Builder::new().name("mlx-spare".into()).spawn(serve);
    if let Err(error) = started {
        notice::warn(format_args!("no thread for a callback or an evaluation: {error}"));
    }
}

/// The next job of a thread.
fn wait(jobs: &Receiver<Job>) -> Option<Job> {
    if *MAY_LOOK && !LOOKING.swap(true, Relaxed) {
        let found = look(jobs);
        LOOKING.store(false, Relaxed);
        if found.is_some() {
            return found;
        }
    }
    jobs.recv().ok()
}

/// The same, if a job comes soon.
fn look(jobs: &Receiver<Job>) -> Option<Job> {
    let start = Instant::now();
    while start.elapsed() < LOOKS {
        if let Ok(job) = jobs.try_recv() {
            return Some(job);
        }
        (0..PAUSES).for_each(|_| hint::spin_loop());
    }
    None
}
