//! A stream: batches of tasks that a thread runs in order.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
};

use mlx_vulkan_core::{
    Array, Error, Result, Stream, backend::Output, buffer::BufferRef, clock::Tick, outcome::Failure,
};
use smallvec::SmallVec;

use crate::{
    clock::CpuClock,
    workers::{self, Job},
};

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
    pub(crate) fn new<'a>(
        stream: Stream,
        inputs: impl Iterator<Item = &'a Array> + Clone,
        outputs: &[Output],
    ) -> Arc<Self> {
        let inputs = || inputs.clone().map(|input| &input.evaluated().buffer);
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
    /// Batches on their way to a thread, while the stream has one.
    thread: Option<mpsc::Sender<Batch>>,
    /// Closed when the last thread is done with what it was given.
    last: mpsc::Receiver<()>,
    tasks: Vec<(Task, Option<Arc<Operands>>)>,
    /// Value of the last batch handed over.
    committed: u64,
}

impl CpuStream {
    /// A stream without a thread; it gets one with its first batch.
    pub(crate) fn new() -> Self {
        CpuStream {
            clock: Arc::default(),
            thread: None,
            last: mpsc::channel().1,
            tasks: Vec::new(),
            committed: 0,
        }
    }

    /// The way to the stream's thread, which serves it until it rests.
    fn thread(&mut self) -> Result<&mpsc::Sender<Batch>> {
        let thread = match self.thread.take() {
            Some(thread) => thread,
            None => self.start(workers::give)?,
        };
        Ok(self.thread.insert(thread))
    }

    /// Asks for a thread, which `give` may fail to find: then the last one is still the last.
    fn start(&mut self, give: impl FnOnce(Job) -> Result<()>) -> Result<mpsc::Sender<Batch>> {
        let (sender, batches) = mpsc::channel::<Batch>();
        let (done, last) = mpsc::channel();
        let (before, befores) = mpsc::channel::<mpsc::Receiver<()>>();
        let clock = self.clock.clone();
        give(Box::new(move || {
            // Batches run in the order that they were handed over, also from one thread to the next.
            let _ = befores.recv().map(|before| before.recv());
            batches.into_iter().for_each(|batch| run(batch, &clock));
            drop(done);
        }))?;
        let _ = before.send(std::mem::replace(&mut self.last, last));
        Ok(sender)
    }

    /// Hands the open batch over, and lets the thread go when it has run.
    pub(crate) fn rest(&mut self) -> Result<()> {
        let committed = self.commit();
        self.thread = None;
        self.tasks = Vec::new();
        committed
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
        // First: without a thread tasks stay here, and run once there is one.
        let thread = self.thread()?.clone();
        self.committed += 1;
        let tasks = std::mem::replace(&mut self.tasks, Vec::with_capacity(BATCH));
        let batch = Batch { tasks, value: self.committed };
        thread.send(batch).map_err(|_| Error::device("eval", "the CPU stream's thread has ended"))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_thread_stays_the_last_when_there_is_no_other() {
        let mut stream = CpuStream::new();
        let (go, wait) = mpsc::channel::<()>();
        stream.push(Box::new(move || {
            let _ = wait.recv();
            Ok(())
        }));
        stream.rest().unwrap();
        stream.start(|_job| Err(Error::device("test", "no thread"))).unwrap_err();
        assert_eq!(stream.last.try_recv(), Err(mpsc::TryRecvError::Empty), "it has not ended");
        drop(go);
        assert!(stream.last.recv().is_err(), "it has");
    }
}
