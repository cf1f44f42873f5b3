//! A stream: an encoder and a clock.

use std::{
    sync::{Arc, Weak, atomic::Ordering::Acquire, mpsc},
    time::Duration,
};

use mlx_vulkan_core::{
    Error, Result,
    backend::Encoded,
    clock::{Clock, Tick},
    foreign::{self, Holding},
    memory,
    outcome::Failure,
    spare::Job as Callback,
};
use parking_lot::Mutex;

use crate::runtime::{
    commit::Handover,
    device::DeviceState,
    encoder::{Blocked, Deferred, Encoder},
    timer::Timer,
};

/// How long an operation without memory waits for work in flight that may hold some. Not forever: that work
/// may itself wait for something that only the waiting thread will do.
const MEMORY_PATIENCE: Duration = Duration::from_secs(10);

/// A stream of a Vulkan device.
pub(crate) struct VkStream {
    device: Arc<DeviceState>,
    timer: Arc<Timer>,
    encoder: Mutex<Encoder>,
    handover: Arc<Handover>,
    /// The thread that runs callbacks; started by the first one.
    waiter: Mutex<Option<mpsc::Sender<(u64, Callback)>>>,
    this: Weak<VkStream>,
}

impl VkStream {
    /// A stream with this index on one of the device's queues, which may put off work as `deferred`.
    pub(crate) fn new(
        device: &Arc<DeviceState>,
        index: u16,
        nth: usize,
        deferred: Option<Box<dyn Deferred>>,
    ) -> Result<Arc<Self>> {
        let timer = Timer::new(index, &device.raw, device.config)?;
        let queue = device.raw.queues[nth % device.raw.queues.len()].clone();
        let handover = Handover::new(device.clone(), timer.clone(), queue, deferred.is_some());
        let encoder = Encoder::new(device.clone(), timer.clone(), handover.clone(), deferred);
        Ok(Arc::new_cyclic(|this| VkStream {
            device: device.clone(),
            timer,
            encoder: Mutex::new(encoder),
            handover,
            waiter: Mutex::default(),
            this: this.clone(),
        }))
    }

    /// Encodes with exclusive use of the stream.
    pub(crate) fn encode<T>(&self, f: impl FnOnce(&mut Encoder) -> T) -> T {
        let _holding = Holding::new();
        let mut encoder = self.encoder.lock();
        f(&mut encoder)
    }

    /// Encodes an operation, or undoes what it did if it fails. What it gave, if it is encoded, and what the
    /// evaluation does then; waits for nothing.
    pub(crate) fn work<T>(
        self: &'static Arc<Self>,
        f: impl FnOnce(&mut Encoder) -> Result<T>,
    ) -> Result<(Option<T>, Encoded)> {
        let (result, blocked, overdue) = self.encode(|encoder| {
            encoder.may_wait = true;
            let result = f(encoder);
            encoder.may_wait = false;
            let blocked = if result.is_err() { encoder.undo_op() } else { None };
            let ended = encoder.end_op();
            (result.and_then(|done| ended.map(|()| done)), blocked, encoder.overdue())
        });
        match (result, blocked) {
            (Ok(done), _) => Ok((
                Some(done),
                match overdue {
                    Some(value) => Encoded::Full(Box::new(move || self.timer.block(value))),
                    None => Encoded::Done,
                },
            )),
            (Err(_), Some(Blocked::Until(tick))) => {
                Ok((None, Encoded::Later(Box::new(move || tick.wait()))))
            }
            (Err(_), Some(Blocked::Pipeline(missing))) => {
                let wait = move || {
                    missing.wait();
                    Ok(())
                };
                Ok((None, Encoded::Later(Box::new(wait))))
            }
            (Err(error), Some(Blocked::Memory)) => {
                Ok((None, Encoded::NoMemory(Box::new(move || self.make_room()), Box::new(error))))
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Waits for work in flight, which may hold memory, and frees what can be freed.
    fn make_room(&self) -> Result<()> {
        match self.commit() {
            // What was put off needs memory as well, and is tried again with the operation.
            Err(Error::OutOfMemory { .. }) => {}
            committed => committed?,
        }
        self.timer.block_for(self.timer.submitted.load(Acquire), MEMORY_PATIENCE)?;
        self.handover.settle()?;
        self.handover.free();
        self.device().check_guards();
        memory::make_room();
        Ok(())
    }

    /// Hands everything over and waits for it.
    pub(crate) fn drain(&self) -> Result<()> {
        self.commit()?;
        self.timer.block(self.timer.submitted.load(Acquire))?;
        self.handover.settle()
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<DeviceState> {
        &self.device
    }

    /// The stream's clock, which other streams wait for.
    pub(crate) fn timer(&self) -> &Arc<Timer> {
        &self.timer
    }

    /// The tick of everything encoded so far.
    pub(crate) fn tick(&self) -> Tick {
        self.timer.tick()
    }

    /// Hands over what is encoded.
    pub(crate) fn commit(&self) -> Result<()> {
        self.encode(Encoder::commit)
    }

    /// Looks at guards, where there are some, of what has run.
    ///
    /// # Errors
    /// When the device fails.
    fn look_at_guards(&self) -> Result<()> {
        if self.device().guards.is_none() {
            return Ok(());
        }
        // Memory of work that has just run retires once its committer has let go of it.
        self.handover.settle()?;
        self.handover.free();
        self.device().check_guards();
        Ok(())
    }

    /// What was found broken that concerns the results of a batch.
    fn broken_guard(&self, value: u64) -> Option<Arc<Failure>> {
        let tick = Tick { stream: self.timer.stream, value };
        self.device().guards.as_ref()?.failure(tick)
    }

    /// Why the results of a batch that has run are not what they should be.
    fn flaw(&self, value: u64) -> Option<Arc<Failure>> {
        self.timer.lacks.failure(value).or_else(|| self.broken_guard(value))
    }

    /// Hands over work up to `value` if it still is in the encoder.
    pub(crate) fn commit_up_to(&self, value: u64) -> Result<()> {
        if value > self.timer.submitted.load(Acquire) { self.commit() } else { Ok(()) }
    }

    /// Gives up what the stream keeps for later work, if everything has run; whether it has. What comes later
    /// makes it anew.
    pub(crate) fn rest(&self) -> bool {
        let rests = self.encode(Encoder::rest);
        if rests {
            self.handover.rest();
            // Its thread ends with the callbacks that it has.
            *self.waiter.lock() = None;
        }
        rests
    }

    fn waiter(&self) -> mpsc::Sender<(u64, Callback)> {
        let mut waiter = self.waiter.lock();
        let start = || {
            let (sender, receiver) = mpsc::channel::<(u64, Callback)>();
            let timer = self.timer.clone();
            let run = move || {
                foreign::serve();
                for (value, then) in receiver {
                    // A failed stream runs its callbacks too: those who wait must not hang.
                    if let Err(error) = timer.block(value) {
                        tracing::error!("{error}");
                    }
                    then();
                }
            };
            let name = format!("mlx-vk-{}", self.timer.stream);
            let started = std::thread::Builder::new().name(name).spawn(run);
            if let Err(error) = started {
                tracing::error!("no thread for callbacks: {error}");
            }
            sender
        };
        waiter.get_or_insert_with(start).clone()
    }
}

impl Clock for VkStream {
    fn now(&self) -> u64 {
        self.timer.now()
    }

    fn wait_for(&self, value: u64, patience: Duration) -> Result<bool> {
        self.commit_up_to(value)?;
        if value > self.timer.submitted.load(Acquire) {
            self.timer.check()?;
            return Err(Error::device("synchronize", "waiting for work that was never encoded"));
        }
        if !self.timer.block_for(value, patience)? {
            return Ok(false);
        }
        self.handover.free();
        self.timer.failure(value).map_or(Ok(()), Err)?;
        self.look_at_guards()?;
        self.flaw(value).map_or(Ok(true), |flaw| Err(flaw.tell()))
    }

    fn failure(&self, value: u64) -> Option<Error> {
        self.timer.failure(value).or_else(|| self.flaw(value).map(|flaw| flaw.tell()))
    }

    fn untold(&self) -> Option<Error> {
        let guards = || self.device().guards.as_ref()?.untold(Some(self.timer.stream));
        self.timer.lacks.untold().or_else(guards)
    }

    fn on_reach(&self, value: u64, then: Callback) {
        if let Err(error) = self.commit_up_to(value) {
            tracing::error!("{error}");
        }
        if self.now() >= value {
            return then();
        }
        if let Err(mpsc::SendError((_, then))) = self.waiter().send((value, then)) {
            // No thread: wait here rather than never.
            let _ = self.this.upgrade().map(|s| s.timer.block(value));
            then();
        }
    }
}
