//! Evaluations that begin while their graph is built.
//!
//! A program that builds the same graph again and again, as one that generates text does for each token,
//! takes about as long to build it as a device takes to run it, and from Python longer. So a thread counts
//! the nodes that it adds, and hashes what they are. Graphs of which two had the same count and hash are
//! taken to come again. In the first of them it was looked for nodes at which the graph falls into two parts
//! ([`ends`]), such as the end of a model's layer. When a thread comes to the same count and hash again, it
//! has another thread evaluate what is there, and builds on.
//!
//! A part is planned by itself, and would have other groups than the whole graph if the program still held
//! an array that a group swallows there, so results could have other bits. So a part is evaluated only if it
//! has the groups that it had in the whole; else everything stays as lazy as it was.
//!
//! Whoever waits for results gains all that is done before the graph is whole. Who goes on with the next
//! graph (as [`super::async_eval_detached`] has it) gains only where it waits for devices now and then: the
//! two threads take time from each other.

mod ends;

use std::{
    cell::{Cell, RefCell},
    env,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use ends::End;
pub(super) use ends::Look;
use once_cell::sync::Lazy;

use super::{begin_part, detached, early, turn_at_once};
use crate::{
    Array, array::Inner, fusion::Groups, primitives::Primitive, tape::Tape, transforms::trace,
};

/// Nodes of a graph that is worth it.
const LARGE: usize = 384;

/// Nodes that are remembered of a graph. Evaluations plan more of them in pieces.
const REMEMBERED: usize = super::PLANNED;

/// Nodes between an end and the time when what lies before it is handed over: by then a program has left the
/// function that made the end, whose variables keep arrays.
const LATER: usize = 6;

/// Graphs that a thread knows at once: first and further prompts, first and further tokens, of two models.
const KNOWN: usize = 8;

/// Parts of a graph that had other groups than in the whole, until no more of it is begun.
const MISSED: u32 = 3;

/// One of so many parts of the time between two evaluations has a thread to wait for devices, so that
/// something is begun which nobody waits for yet.
const WAITS: u32 = 16;

static IS_ON: AtomicBool = AtomicBool::new(false);

static IS_ALLOWED: Lazy<bool> =
    Lazy::new(|| env::var_os("MLX_DISABLE_EARLY_EVALUATIONS").is_none());

thread_local! {
    static BUILT: RefCell<Built> = const { RefCell::new(Built::new()) };
    /// How long this thread waited for devices since its last large evaluation.
    static WAITED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Whether large evaluations on GPUs begin while their graph is built, if the thread that builds it has
/// built and evaluated the same twice before. They do not at first: who builds a graph in a tenth of the time
/// that it takes to run gains nothing. `MLX_DISABLE_EARLY_EVALUATIONS` in the environment keeps them off.
pub fn begin_while_building(on: bool) {
    IS_ON.store(on && *IS_ALLOWED, Relaxed);
}

/// What a thread has added to its graph since its last evaluation.
struct Built {
    nodes: usize,
    hash: u64,
    /// The number of nodes at which there is something to do.
    next: usize,
    /// The first nodes, with the hash up to each.
    seen: Vec<Seen>,
    /// The end of a part that is about to be begun.
    waiting: Option<Waiting>,
    /// What of the groups' sum is in parts that were begun.
    begun: Sum,
    /// Graphs that may come again, the last one first.
    known: Vec<Recurring>,
    /// When the last large evaluation began.
    since: Option<Instant>,
}

/// A node that was added.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    /// Of its only output.
    array: usize,
    /// Of all nodes up to this one.
    hash: u64,
}

/// A part of a graph that is begun when the program has let go of what lies inside.
struct Waiting {
    end: Weak<Inner>,
    part: Part,
}

/// A graph that may come again.
struct Recurring {
    nodes: usize,
    hash: u64,
    /// Whether it was evaluated by somebody who waited for the results.
    is_awaited: bool,
    /// How often it came.
    times: u32,
    /// Which part of the time up to its evaluation this thread waited for devices, lately.
    waits: f32,
    parts: Arc<Parts>,
}

/// What is known of the parts of a graph; whoever evaluates it finds out.
#[derive(Default)]
struct Parts {
    ends: OnceLock<Vec<End>>,
    missed: AtomicU32,
}

/// Groups, as a sum that does not depend on their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sum {
    groups: usize,
    hash: u64,
}

/// A part that is evaluated before its graph is whole.
pub(super) struct Part {
    /// The sum of its groups in the whole graph.
    expected: Sum,
    /// The sum up to its end.
    up_to: Sum,
    parts: Arc<Parts>,
}

impl Sum {
    fn of(groups: &Groups, tape: &Tape) -> Sum {
        let mut sum = Sum::default();
        groups.all().for_each(|group| sum.add(group.members.iter().copied(), tape));
        sum
    }

    /// Adds a group with these members.
    fn add(&mut self, members: impl Iterator<Item = usize>, tape: &Tape) {
        let hash = members.fold(0, |hash, place| mix(hash, word(&tape.node(place).primitive)));
        self.groups += 1;
        self.hash = self.hash.wrapping_add(mix(hash, 0));
    }

    /// What is left without a part of it.
    fn without(self, part: Sum) -> Sum {
        let Sum { groups, hash } = self;
        Sum { groups: groups.wrapping_sub(part.groups), hash: hash.wrapping_sub(part.hash) }
    }
}

impl Part {
    /// Whether the part is planned as it was in the whole graph.
    pub(super) fn fits(&self, groups: &Groups, tape: &Tape) -> bool {
        let fits = Sum::of(groups, tape) == self.expected;
        if !fits {
            self.parts.missed.fetch_add(1, Relaxed);
        }
        fits
    }
}

impl Recurring {
    /// Whether a part of it is worth beginning.
    fn is_worth_it(&self) -> bool {
        self.times >= 2
            && self.parts.missed.load(Relaxed) < MISSED
            && (self.is_awaited || self.waits * WAITS as f32 >= 1.0)
    }

    fn ends(&self) -> &[End] {
        self.parts.ends.get().map_or(&[], Vec::as_slice)
    }
}

impl Built {
    const fn new() -> Self {
        Built {
            nodes: 0,
            hash: 0,
            next: usize::MAX,
            seen: Vec::new(),
            waiting: None,
            begun: Sum { groups: 0, hash: 0 },
            known: Vec::new(),
            since: None,
        }
    }

    /// Counts a node; a part whose time has come.
    #[inline]
    fn add(&mut self, primitive: u64, array: &Array) -> Option<(Array, Part)> {
        self.nodes += 1;
        self.hash = mix(self.hash, primitive ^ kind(array));
        if self.nodes <= REMEMBERED {
            self.seen.push(Seen { array: array.address(), hash: self.hash });
        }
        if self.nodes == self.next { self.come_to(array) } else { None }
    }

    /// Looks for what is to be done at this node.
    #[cold]
    fn come_to(&mut self, array: &Array) -> Option<(Array, Part)> {
        let due = self.waiting.take();
        if due.is_none() {
            self.waiting =
                self.end_here().map(|part| Waiting { end: Arc::downgrade(&array.0), part });
        }
        self.next = if self.waiting.is_some() { self.nodes + LATER } else { self.next_end() };
        let Waiting { end, part } = due?;
        // Who has dropped it does not need it.
        let end = Array(end.upgrade()?);
        Some((end, part))
    }

    /// The part that ends with the last node, as in a graph that came before.
    fn end_here(&self) -> Option<Part> {
        let (nodes, hash) = (self.nodes, self.hash);
        self.known.iter().filter(|graph| graph.is_worth_it()).find_map(|graph| {
            let end = graph.ends().iter().find(|end| end.nodes == nodes && end.hash == hash)?;
            let expected = end.up_to.without(self.begun);
            Some(Part { expected, up_to: end.up_to, parts: graph.parts.clone() })
        })
    }

    /// The number of nodes at the next end of any known graph.
    fn next_end(&self) -> usize {
        let worth_it = self.known.iter().filter(|graph| graph.is_worth_it());
        let ends = worth_it.flat_map(Recurring::ends).map(|end| end.nodes);
        ends.filter(|&nodes| nodes > self.nodes).min().unwrap_or(usize::MAX)
    }

    /// Begins with the next graph. The graph that was built is to be looked at if it is a new one.
    fn start_anew(&mut self, is_on_gpu: bool, is_awaited: bool) -> Option<Look> {
        let is_large = is_on_gpu && (LARGE..=REMEMBERED).contains(&self.nodes);
        let look = if is_large { self.file(is_awaited) } else { None };
        self.seen.clear();
        self.waiting = None;
        (self.nodes, self.hash, self.begun) = (0, 0, Sum::default());
        self.next = self.next_end();
        look
    }

    /// Files the graph that was built.
    fn file(&mut self, is_awaited: bool) -> Option<Look> {
        let (nodes, hash) = (self.nodes, self.hash);
        let is_this = |graph: &Recurring| {
            (graph.nodes, graph.hash, graph.is_awaited) == (nodes, hash, is_awaited)
        };
        let mut graph = match self.known.iter().position(is_this) {
            Some(place) => self.known.remove(place),
            None => {
                self.known.truncate(KNOWN - 1);
                Recurring { nodes, hash, is_awaited, times: 0, waits: 0.0, parts: Arc::default() }
            }
        };
        graph.times = graph.times.saturating_add(1);
        let (now, waited) = (Instant::now(), WAITED.take());
        if let Some(since) = self.since.replace(now) {
            let took = (now - since).max(Duration::from_nanos(1));
            graph.waits = (3.0 * graph.waits + waited.div_duration_f32(took)) / 4.0;
        }
        let is_new = graph.parts.ends.get().is_none();
        let parts = graph.parts.clone();
        self.known.insert(0, graph);
        is_new.then(|| Look { seen: std::mem::take(&mut self.seen), is_awaited, parts })
    }
}

/// One step of a hash.
#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

/// A primitive's name as a number, which is the same throughout a process.
#[inline]
fn word(primitive: &Primitive) -> u64 {
    let name = primitive.name();
    name.as_ptr().addr() as u64 ^ (name.len() as u64) << 48
}

/// What of an array's shape and dtype stays from token to token: how many axes there are, and whether there
/// is one row. Prompts have more.
#[inline]
fn kind(array: &Array) -> u64 {
    let shape = array.shape();
    let is_row = shape.len() >= 2 && shape[shape.len() - 2] == 1;
    (shape.len() as u64) << 56 ^ u64::from(is_row) << 55 ^ array.dtype() as u64
}

/// Whether nodes are counted.
#[inline]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// Counts a node that this thread has added to its graph, by a number for its primitive ([`counted`]) and
/// its only output; begins a part of the graph whose time has come.
#[inline]
pub(crate) fn built(primitive: u64, array: &Array) {
    // What a thread's end drops may be arrays, which are computed from nothing any more.
    let part = BUILT.try_with(|built| built.borrow_mut().add(primitive, array));
    if let Ok(Some((end, part))) = part {
        begin(&end, part);
    }
}

/// The number by which [`built`] counts a primitive, where it counts at all.
#[inline]
pub(crate) fn counted(primitive: &Primitive) -> Option<u64> {
    is_on().then(|| word(primitive))
}

/// Begins a part, if that holds nobody up.
#[cold]
fn begin(end: &Array, part: Part) {
    if trace::is_tracing() || !early::is_on_gpu() || !detached::is_settled() {
        return;
    }
    let Some(turn) = turn_at_once() else { return };
    let up_to = part.up_to;
    if begin_part(turn, end, part) {
        BUILT.with_borrow_mut(|built| built.begun = up_to);
    }
}

/// Notes that this thread evaluates what it has built. If that may come again, the evaluation is to look at
/// it.
pub(super) fn evaluates(is_awaited: bool) -> Option<Look> {
    if !is_on() || trace::is_tracing() {
        return None;
    }
    let is_on_gpu = early::is_on_gpu();
    BUILT.with_borrow_mut(|built| built.start_anew(is_on_gpu, is_awaited))
}

/// Calls `wait`, which blocks until a device has done something.
pub(crate) fn waiting<T>(wait: impl FnOnce() -> T) -> T {
    if !is_on() {
        return wait();
    }
    let since = Instant::now();
    let waited = wait();
    WAITED.set(WAITED.get() + since.elapsed());
    waited
}
