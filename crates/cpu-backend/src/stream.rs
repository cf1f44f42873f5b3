//! A stream: a thread that runs batches of tasks in order.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
};

use mlx_vulkan_core::{
    Array, Error, Result, Stream, backend::Output, buffer::BufferRef, clock::Tick, foreign,
    outcome::Failure,
};
use smallvec::SmallVec;

use crate::clock::CpuClock;

/// One unit of work.
pub(crate) type Task = Box<dyn FnOnce() -> Result<()> + Send>;

/// Tasks in a batch before it is handed over, so that running overlaps encoding.
const BATCH: usize = 64;

/// What an operation reads and writes.
pub(crate) struct Operands {
    reads: SmallVec<[BufferRef; 4]>,
    writes: SmallVec<[BufferRef; 1]>,
    /// When inputs of other streams are there, if they were not.
    arrivals: SmallVec<[Tick; 1]>,
}

impl Operands {
    pub(crate) fn new(stream: Stream, inputs: &[Array], outputs: &[Output]) -> Arc<Self> {
        let inputs = || inputs.iter().map(|input| &input.evaluated().buffer);
        let ticks = inputs().map(|buffer| buffer.written());
        let is_there = |tick: &Tick| tick.reached() && tick.failure().is_none();
        let arrivals = ticks.filter(|tick| tick.stream != stream.index && !is_there(tick));
        let outputs = outputs.iter().filter_map(|output| output.data.as_ref());
        Arc::new(Operands {
            arrivals: arrivals.collect(),
            reads: inputs().map(|buffer| (**buffer).clone()).collect(),
            writes: outputs.map(|data| (*data.buffer).clone()).collect(),
        })
    }

    /// Why the operation cannot give what it should.
    fn failure(&self) -> Option<Arc<Failure>> {
        let failed = self.reads.iter().chain(&self.writes).find_map(|buffer| buffer.failure());
        failed.or_else(|| self.arrivals.iter().find_map(|tick| tick.failure()).map(Failure::new))
    }
}

struct Batch {
    tasks: Vec<(Task, Option<Arc<Operands>>)>,
    value: u64,
}

/// The encoding side of a stream.
pub(crate) struct CpuStream {
    pub(crate) clock: Arc<CpuClock>,
    thread: mpsc::Sender<Batch>,
    tasks: Vec<(Task, Option<Arc<Operands>>)>,
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
    pub(crate) fn push(&mut self, task: Task) {
        self.tasks.push((task, None));
    }

    /// Encodes an operation, which pushes tasks; those fail with its operands, and what they fail in
    /// becomes of its outputs. An operation that cannot be encoded has no tasks.
    pub(crate) fn operation(
        &mut self,
        encode: impl FnOnce(&mut Self) -> Result<Arc<Operands>>,
    ) -> Result<()> {
        let first = self.tasks.len();
        match encode(self) {
            Ok(operands) => {
                for (_, of) in &mut self.tasks[first..] {
                    *of = Some(operands.clone());
                }
                if self.tasks.len() >= BATCH { self.commit() } else { Ok(()) }
            }
            Err(error) => {
                self.tasks.truncate(first);
                Err(error)
            }
        }
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
            .send(Batch { tasks, value: self.committed })
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
    for (task, operands) in batch.tasks {
        let failed = operands.as_ref().and_then(|operands| operands.failure());
        let result = match failed {
            Some(failure) => Err(failure),
            None => attempt(task).map_err(Failure::new),
        };
        if let (Err(failure), Some(operands)) = (result, operands) {
            operands.writes.iter().for_each(|buffer| buffer.fail(&failure));
            clock.note(&failure);
        }
    }
    clock.advance(batch.value);
}

fn attempt(task: Task) -> Result<()> {
    catch_unwind(AssertUnwindSafe(task)).unwrap_or_else(|panic| {
        Err(Error::device("eval", format!("a CPU kernel panicked: {}", message(&*panic))))
    })
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
