//! Builders: threads that make pipelines, so that nobody else waits for a driver's compiler.
//!
//! A pipeline is promised at once and made later: what is encoded with it needs only its name, and who
//! records it waits. Several are made at the same time, those first that somebody's work is encoded with. Who
//! waits for one that nobody has begun makes it itself, so no order of the queue can hold it up.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use mlx_vulkan_core::{Error, Result, foreign};
use parking_lot::{Condvar, Mutex};

use crate::runtime::{
    raw::{
        ending::{self, InDriver},
        pipeline::Pipeline as RawPipeline,
    },
    stats, timer,
};

/// Builders at most. A driver's compiler takes a core for itself.
const MOST: usize = 8;

/// How soon a pipeline is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Somebody's work is encoded with it.
    Now,
    /// It is only expected to be needed.
    Later,
}

/// What makes a pipeline.
type Recipe = Box<dyn FnOnce() -> Result<RawPipeline> + Send>;

/// A pipeline that is made, or will be.
pub(crate) struct Pipeline {
    name: &'static str,
    made: OnceLock<Result<RawPipeline>>,
    /// Until somebody begins.
    recipe: Mutex<Option<Recipe>>,
    /// It was ordered for somebody's work.
    urgent: AtomicBool,
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pipeline({})", self.name)
    }
}

/// Promises what `make` gives, and orders it.
pub(crate) fn promise(
    name: &'static str,
    urgency: Urgency,
    make: impl FnOnce() -> Result<RawPipeline> + Send + 'static,
) -> Arc<Pipeline> {
    let promised = Pipeline::new(name, make);
    order(&promised, urgency);
    promised
}

impl Pipeline {
    /// What `make` gives once somebody asks for it or a builder has it [`order`]ed.
    pub(crate) fn new(
        name: &'static str,
        make: impl FnOnce() -> Result<RawPipeline> + Send + 'static,
    ) -> Arc<Self> {
        let recipe: Recipe = Box::new(make);
        Arc::new(Pipeline {
            name,
            made: OnceLock::new(),
            recipe: Mutex::new(Some(recipe)),
            urgent: AtomicBool::new(false),
        })
    }

    /// The kernel's name, for profiles.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Whether nobody has to wait for it, even if it could not be made. Does not wait.
    pub(crate) fn is_made(&self) -> bool {
        self.made.get().is_some()
    }

    /// Why it could not be made, as far as that is known. Does not wait.
    ///
    /// # Errors
    /// That of [`made`](Self::made).
    pub(crate) fn check(&self) -> Result<()> {
        match self.made.get() {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// The pipeline. Waits until it is made.
    ///
    /// # Errors
    /// When the driver refuses it, now and ever after.
    pub(crate) fn made(&self) -> Result<&RawPipeline> {
        if !self.is_made() {
            stats::PIPELINE_WAITS.add(1);
            self.build();
        }
        self.made.wait().as_ref().map_err(Clone::clone)
    }

    /// Waits until it is made, or cannot be: who uses it is told.
    pub(crate) fn wait(&self) {
        let _ = self.made();
    }

    /// Makes it, unless somebody has begun to.
    fn build(&self) {
        ending::stop_if_ending();
        let Some(make) = self.recipe.lock().take() else { return };
        let made = {
            let _in_driver = InDriver::new();
            catch_unwind(AssertUnwindSafe(make))
        };
        // The driver loads its compiler when it needs it. Handlers that this registers have to run after
        // ours, which waits for builders, and whoever waits for this pipeline may end the process next.
        ending::watch(timer::finish);
        let panicked =
            || Error::device("pipeline", format!("kernel {}: making it panicked", self.name));
        let _ = self.made.set(made.unwrap_or_else(|_| Err(panicked())));
    }
}

/// Pipelines that builders are to make.
struct Orders {
    now: VecDeque<Arc<Pipeline>>,
    later: VecDeque<Arc<Pipeline>>,
    /// Builders, and those of them that have nothing to do.
    builders: usize,
    idle: usize,
}

static ORDERS: Mutex<Orders> =
    Mutex::new(Orders { now: VecDeque::new(), later: VecDeque::new(), builders: 0, idle: 0 });
/// There is an order.
static ORDERED: Condvar = Condvar::new();

impl Orders {
    fn next(&mut self) -> Option<Arc<Pipeline>> {
        self.now.pop_front().or_else(|| self.later.pop_front())
    }

    /// Whether one more builder is worth its while; then it counts as one.
    fn hire(&mut self) -> bool {
        let wanted = self.now.len() + self.later.len();
        let more = wanted > self.idle && self.builders < most();
        self.builders += usize::from(more);
        more
    }
}

/// As many builders as the machine runs at the same time.
fn most() -> usize {
    thread::available_parallelism().map_or(1, |n| n.get()).min(MOST)
}

/// Lets builders make a pipeline. What was ordered for later may be ordered once more; it is made once.
pub(crate) fn order(pipeline: &Arc<Pipeline>, urgency: Urgency) {
    let urgent = urgency == Urgency::Now;
    if pipeline.is_made()
        || pipeline.urgent.load(Relaxed)
        || urgent && pipeline.urgent.swap(true, Relaxed)
    {
        return;
    }
    let mut orders = ORDERS.lock();
    if urgent { &mut orders.now } else { &mut orders.later }.push_back(pipeline.clone());
    let hired = orders.hire();
    drop(orders);
    if !hired {
        ORDERED.notify_one();
        return;
    }
    // A process may end before it submits anything.
    ending::watch(timer::finish);
    if thread::Builder::new().name("mlx-vk-build".into()).spawn(build_all).is_err() {
        // Who needs a pipeline makes it.
        ORDERS.lock().builders -= 1;
    }
}

/// Whether everything that was ordered is made.
pub fn builders_are_idle() -> bool {
    let orders = ORDERS.lock();
    orders.now.is_empty() && orders.later.is_empty() && orders.idle == orders.builders
}

/// What a builder does.
fn build_all() {
    foreign::serve();
    let mut orders = ORDERS.lock();
    loop {
        match orders.next() {
            Some(next) => {
                drop(orders);
                next.build();
                drop(next);
                orders = ORDERS.lock();
            }
            None => {
                orders.idle += 1;
                ORDERED.wait(&mut orders);
                orders.idle -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Result<RawPipeline> {
        Err(Error::device("pipeline", "refused"))
    }

    #[test]
    fn who_waits_for_what_nobody_began_makes_it_itself() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let promised = Pipeline::new("mine", move || {
            sender.send(thread::current().id()).unwrap();
            refused()
        });
        assert!(!promised.is_made() && promised.check().is_ok());
        assert!(promised.made().is_err());
        assert_eq!(receiver.recv(), Ok(thread::current().id()));
        assert!(promised.is_made() && promised.check().is_err());
        assert!(receiver.recv().is_err(), "it is made once");
    }

    #[test]
    fn whoever_waits_is_told_what_went_wrong() {
        let promised: Vec<_> = [Urgency::Later, Urgency::Now]
            .into_iter()
            .cycle()
            .take(50)
            .map(|urgency| promise("refused", urgency, refused))
            .collect();
        thread::scope(|scope| {
            for pipeline in promised.iter().chain(&promised) {
                scope.spawn(|| {
                    let told = pipeline.made().err().map(|error| error.to_string());
                    assert_eq!(told.as_deref(), Some("[pipeline] refused"));
                });
            }
        });
    }

    #[test]
    fn a_panic_is_an_error() {
        let promised = promise("broken", Urgency::Now, || panic!("on purpose"));
        let told = promised.made().err().map(|error| error.to_string());
        assert_eq!(told.as_deref(), Some("[pipeline] kernel broken: making it panicked"));
        // Builders go on.
        assert!(promise("next", Urgency::Later, refused).made().is_err());
    }

    #[test]
    fn what_is_expected_may_become_urgent() {
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let promised = promise("gated", Urgency::Later, move || {
            let _ = gate.recv();
            refused()
        });
        order(&promised, Urgency::Now);
        order(&promised, Urgency::Later);
        drop(open);
        assert!(promised.made().is_err());
        order(&promised, Urgency::Now);
    }
}
