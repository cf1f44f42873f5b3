//! Threads for what must not hold up others: callbacks, destructors of users, evaluations that nobody waits
//! for.

use std::{
    hint,
    sync::mpsc::{self, Receiver, Sender, TryRecvError},
    thread,
    time::{Duration, Instant},
};

use once_cell::sync::Lazy;
use parking_lot::Mutex;

use crate::notice;

/// Something to be run.
pub type Job = Box<dyn FnOnce() + Send>;

/// How long a thread looks for another job before it sleeps. A decode loop has one every millisecond, and to
/// wake a core of a virtual machine takes who has the job 100 µs, and the job as long to begin.
const LOOKS: Duration = Duration::from_millis(1);

/// Pauses between two looks.
const PAUSES: usize = 16;

/// Whether threads look at all: on few cores, others need the one that a thread would look with.
static MAY_LOOK: Lazy<bool> =
    Lazy::new(|| thread::available_parallelism().is_ok_and(|cores| cores.get() >= 4));

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
    let start = Instant::now();
    while *MAY_LOOK && start.elapsed() < LOOKS {
        match jobs.try_recv() {
            Err(TryRecvError::Empty) => (0..PAUSES).for_each(|_| hint::spin_loop()),
            got => return got.ok(),
        }
    }
    jobs.recv().ok()
}
