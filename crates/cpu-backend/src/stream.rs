//! A stream: a thread that runs batches of tasks in order.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread::{self, ThreadId},
};

use mlx_vulkan_core::{Error, Result, Stream, foreign};

use crate::clock::CpuClock;

/// One unit of work.
pub(crate) type Task = Box<dyn FnOnce() -> Result<()> + Send>;

/// Tasks in a batch before it is handed over, so that running overlaps encoding.
const BATCH: usize = 64;

struct Batch {
    tasks: Vec<Task>,
    value: u64,
    /// Who handed it over.
    owner: ThreadId,
}

/// The encoding side of a stream.
pub(crate) struct CpuStream {
    pub(crate) clock: Arc<CpuClock>,
    thread: mpsc::Sender<Batch>,
    tasks: Vec<Task>,
    /// Value of the last batch handed over.
    committed: u64,
}

impl CpuStream {
    /// Starts the stream's thread. It ends when the stream is dropped.
    pub(crate) fn new(stream: Stream) -> Result<Self> {
        let clock = Arc::new(CpuClock::default());
        let (sender, batches) = mpsc::channel::<Batch>();
        let thread_clock = clock.clone();
        thread::Builder::new()
            .name(format!("mlx-cpu-{}", stream.index))
            .spawn(move || {
                foreign::serve();
                let _pool = join_pool();
                batches.into_iter().for_each(|b| run(b, &thread_clock));
            })
            .map_err(|e| Error::device("new_stream", format!("cannot start a thread: {e}")))?;
        Ok(CpuStream { clock, thread: sender, tasks: Vec::new(), committed: 0 })
    }

    /// Appends a task.
    pub(crate) fn push(&mut self, task: Task) -> Result<()> {
        self.tasks.push(task);
        if self.tasks.len() >= BATCH { self.commit() } else { Ok(()) }
    }

    /// The value that is reached when all tasks so far have run.
    pub(crate) fn pending_value(&self) -> u64 {
        self.committed + !self.tasks.is_empty() as u64
    }

    /// Hands the open batch over.
    pub(crate) fn commit(&mut self) -> Result<()> {
        if self.tasks.is_empty() {
            return Ok(());
        }
        self.committed += 1;
        let tasks = std::mem::replace(&mut self.tasks, Vec::with_capacity(BATCH));
        self.thread
            .send(Batch { tasks, value: self.committed, owner: thread::current().id() })
            .map_err(|_| Error::device("eval", "the CPU stream's thread has ended"))
    }
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
    pool.inspect_err(|e| tracing::warn!("a CPU stream has no threads of its own: {e}")).ok()
}

fn run(batch: Batch, clock: &CpuClock) {
    let mut result = Ok(());
    for task in batch.tasks {
        let outcome = catch_unwind(AssertUnwindSafe(task)).unwrap_or_else(|panic| {
            Err(Error::device("eval", format!("a CPU kernel panicked: {}", message(&*panic))))
        });
        result = result.and(outcome);
    }
    clock.advance(batch.value, batch.owner, result);
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
