//! The way of a stream's work from its encoder to the device's queue.
//!
//! The encoder appends to a queue (`queue.rs`); the committer takes over, records and submits
//! (`committer.rs`). It works on a thread of its own while an evaluation goes on, so that the thread
//! that evaluates does not wait for it; the end of a short evaluation is done by that thread itself.

mod committer;
mod queue;
mod work;

use std::sync::{Arc, atomic::Ordering::Acquire};

use mlx_vulkan_core::{Error, Result, foreign};
use parking_lot::{Condvar, MappedMutexGuard, Mutex, MutexGuard};
use vulkano::device::Queue as DeviceQueue;

use crate::runtime::{
    device::DeviceState,
    raw::{ending::InDriver, recorder::Recorder},
    timer::{GLANCE, Timer},
};

use committer::Committer;
pub(crate) use queue::{BufferOffset, Command, Ended, Item, Queue, Transfer, Wait};
pub(crate) use work::{Call, Work, written};

/// Items that the thread which ends an evaluation takes over itself: they cost less than waking up
/// another thread.
const FEW: usize = 32;

/// An encoder's side of the committer.
pub(crate) struct Handover {
    timer: Arc<Timer>,
    queue: Mutex<Queue>,
    /// There is a batch in the queue.
    filled: Condvar,
    /// Whether a thread of its own may record.
    threads: bool,
    /// Whether the stream puts off work to encode it together.
    defers: bool,
    committer: Mutex<Committer>,
    thread: Mutex<Thread>,
}

/// The committer's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thread {
    None,
    Serves,
    /// It ends when there is nothing left to take over.
    Leaves,
}

impl Handover {
    /// The hand-over of a stream, which `defers` work to encode it together or does not.
    pub(crate) fn new(
        device: Arc<DeviceState>,
        timer: Arc<Timer>,
        queue: Arc<DeviceQueue>,
        defers: bool,
    ) -> Arc<Self> {
        Arc::new(Handover {
            threads: device.config.enable_commit_thread,
            committer: Mutex::new(Committer::new(device, timer.clone(), queue)),
            timer,
            queue: Mutex::default(),
            filled: Condvar::new(),
            defers,
            thread: Mutex::new(Thread::None),
        })
    }

    /// What is encoded and not yet taken over.
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// A batch is closed: it is taken over at once, or by the committer's thread.
    ///
    /// # Errors
    /// When the device fails in what this thread takes over; otherwise who waits is told.
    pub(crate) fn notify(self: &Arc<Self>, last: bool) -> Result<()> {
        // A run is few items, and waking the thread for them costs more (0.6B on an H200: 924 tokens/s,
        // and 1,352 without). Without runs nobody waits for the end of an evaluation to be recorded
        // while the device is busy.
        let idle = || self.defers || !self.timer.is_busy();
        let few = !self.threads || last && self.queue.lock().waiting().1 <= FEW && idle();
        // Nobody else may be taking over: the order is that of the queue. And a submission that waits for
        // another stream's must come after it, and one that needs a pipeline after that is made, for which
        // the thread waits.
        if few
            && let Some(mut committer) = self.committer.try_lock()
            && committer.is_ready()
            && self.queue.lock().is_ready()
        {
            return self.take_over(&mut committer);
        }
        self.start();
        self.filled.notify_one();
        Ok(())
    }

    /// Takes everything over on this thread, which waits for the pipelines that it needs.
    ///
    /// # Errors
    /// When the device fails.
    pub(crate) fn settle(&self) -> Result<()> {
        loop {
            {
                let mut committer = self.committer.lock();
                let _in_driver = InDriver::new();
                self.take_over(&mut committer)?;
                committer.reclaim();
            }
            let (missing, left) = {
                let queue = self.queue.lock();
                (queue.missing(), queue.waiting().0)
            };
            match missing {
                Some(missing) => missing.wait(),
                None if left == 0 => return Ok(()),
                // It was made just now.
                None => {}
            }
        }
    }

    /// For benches: the recorder itself, without the hazard tracker.
    pub(crate) fn plain(&self) -> Result<MappedMutexGuard<'_, Recorder>> {
        self.settle()?;
        let mut committer = self.committer.lock();
        committer.open()?;
        MutexGuard::try_map(committer, Committer::recorder)
            .map_err(|_| Error::device("encode", "no command buffer"))
    }

    /// Takes over what is there, up to what needs a pipeline that is not made.
    fn take_over(&self, committer: &mut Committer) -> Result<()> {
        let _in_driver = InDriver::new();
        let mut result = Ok(());
        loop {
            let batch = self.queue.lock().take();
            let Some(mut batch) = batch else { return result };
            let recorded = committer.commit(&mut batch);
            {
                // Before it runs: who sees that it has run finds the memory that it no longer needs.
                let mut queue = self.queue.lock();
                queue.recycle(std::mem::take(&mut batch.items));
                queue.give_back(&mut committer.done);
            }
            let done = recorded.and(committer.committed(&batch));
            if let Err(error) = &done {
                self.timer.fail(batch.value, error.clone());
            }
            result = result.and(done);
        }
    }

    /// Frees what recorded work held.
    pub(crate) fn free(&self) {
        let done = self.queue.lock().done();
        drop(done);
    }

    /// Makes sure that the committer's thread serves.
    fn start(self: &Arc<Self>) {
        let mut thread = self.thread.lock();
        if std::mem::replace(&mut *thread, Thread::Serves) != Thread::None {
            return;
        }
        let this = self.clone();
        let run = move || {
            foreign::serve();
            while !this.may_end() {
                this.serve();
            }
        };
        let name = format!("mlx-vk-commit-{}", self.timer.stream);
        if let Err(error) = std::thread::Builder::new().name(name).spawn(run) {
            *thread = Thread::None;
            let error = Error::device("encode", format!("no thread to record: {error}"));
            self.timer.fail(self.timer.handed.load(Acquire) + 1, error);
        }
    }

    /// For the committer's thread: whether it is to end.
    fn may_end(&self) -> bool {
        let mut thread = self.thread.lock();
        if *thread != Thread::Leaves || self.queue.lock().waiting().0 > 0 {
            return false;
        }
        let ends = !self.committer.lock().is_behind();
        if ends {
            *thread = Thread::None;
        }
        ends
    }

    /// Lets the committer's thread end when it has nothing to do, and gives up command buffers. Everything
    /// that was handed over has run.
    pub(crate) fn rest(&self) {
        let mut thread = self.thread.lock();
        if *thread == Thread::Serves {
            *thread = Thread::Leaves;
        }
        drop(thread);
        self.committer.lock().rest();
        self.free();
        // Under the lock under which the thread falls asleep: it is asleep, or has not looked yet.
        let _queue = self.queue.lock();
        self.filled.notify_one();
    }

    /// Takes over what is there and waits for more, or for a pipeline that it needs.
    fn serve(&self) {
        let (behind, missing) = {
            let mut committer = self.committer.lock();
            let _in_driver = InDriver::new();
            // The error is the stream's now: everybody who waits for it is told.
            let taken = self.take_over(&mut committer);
            let missing = self.queue.lock().missing();
            let next = self.timer.handed.load(Acquire) + 1;
            // What is there goes to the device while a pipeline is made.
            if taken.is_ok()
                && (missing.is_some() || committer.is_wanted())
                && let Err(error) = committer.submit()
            {
                self.timer.fail(next, error);
            }
            self.queue.lock().give_back(&mut committer.done);
            (committer.is_behind(), missing)
        };
        if let Some(missing) = missing {
            return missing.wait();
        }
        let mut queue = self.queue.lock();
        if queue.waiting().0 == 0 {
            if !behind && *self.thread.lock() == Thread::Leaves {
                return;
            }
            if behind {
                self.filled.wait_for(&mut queue, GLANCE);
            } else {
                self.filled.wait(&mut queue);
            }
        }
    }
}
