//! Evaluations that begin while their graph is built.
//!
//! A program that builds the same graph again and again, as one that generates text does for each token,
//! takes about as long to build it as a device takes to run it, and from Python longer. So a thread counts
//! the nodes that it adds, and hashes what they are. When it evaluates a graph that it has built before,
//! whoever encodes that looks for nodes at which the graph falls into two parts ([`cuts`]), such as the end
//! of a model's layer. When the thread comes to the same count and hash again, it has another thread evaluate
//! what is there, and builds on.
//!
//! Results shall have the bits that they have otherwise, and nobody knows which part is begun in time. A part
//! is planned by itself, and would have other groups than the whole graph if the program still held an array
//! that a group swallows, or the memory that one writes to. So it is evaluated only if its groups, and which
//! memory is theirs, are what they were in the whole; else it stays as lazy as it was. What the program
//! builds behind a cut is not known yet; it is taken to be what it was.
//!
//! Whoever waits for results gains all that is done before the graph is whole. Who goes on with the next
//! graph (as [`super::async_eval_detached`] has it) gains only where it waits for devices now and then: the
//! two threads take time from each other.

mod cuts;

use std::{
    cell::{Cell, RefCell},
    env,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use cuts::Cut;
pub(super) use cuts::Look;
use once_cell::sync::Lazy;
use parking_lot::Mutex;

use super::{begin_part, detached, early, evaluation::PLANNED, turn::turn_at_once};
use crate::{
    Array,
    array::{Data, Inner},
    fusion::Groups,
    graph::Node,
    primitives::{Primitive, ShapeOp},
    tape::Tape,
    transforms::trace,
};

/// Nodes of a graph that is worth it.
const LARGE: usize = 384;

/// Nodes that are remembered of a graph. Evaluations plan more of them in pieces.
const REMEMBERED: usize = PLANNED;

/// Nodes between a cut and the time when what lies before it is handed over: by then a program has left the
/// function that made the part's last node, whose variables keep arrays.
const LATER: usize = 6;

/// Graphs that a thread knows at once: first and further prompts, first and further tokens, of two models.
const KNOWN: usize = 8;

/// Times that a part was left lazy or begun for nothing, one after the other, until no more of its graph is
/// begun; and evaluations of the graph after which that is tried once more.
const MISSED: u32 = 4;
const AGAIN: u32 = 64;

/// Nodes of a graph at which it is asked where cuts are: whoever evaluates the last graph may have found them
/// by then.
const ASKED: usize = 32;

/// One of so many parts of the time between two evaluations has a thread to wait for devices, so that
/// something is begun which nobody waits for yet.
const WAITS: u32 = 16;

/// Parts that were evaluated early, and that were left.
static EVALUATED: AtomicU64 = AtomicU64::new(0);
static LEFT: AtomicU64 = AtomicU64::new(0);

static IS_ON: AtomicBool = AtomicBool::new(false);

static IS_ALLOWED: Lazy<bool> =
    Lazy::new(|| env::var_os("MLX_DISABLE_EARLY_EVALUATIONS").is_none());

thread_local! {
    static BUILT: RefCell<Built> = const { RefCell::new(Built::new()) };
    /// How long this thread waited for devices since its last large evaluation.
    static WAITED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Whether large evaluations on GPUs begin while their graph is built, where the thread that builds it has
/// built and evaluated the same twice before. This is off at first: programs in Rust build a graph in a tenth
/// of the time that it takes to run. `MLX_DISABLE_EARLY_EVALUATIONS` in the environment keeps it off.
pub fn begin_while_building(on: bool) {
    IS_ON.store(on && *IS_ALLOWED, Relaxed);
}

/// Parts of graphs that were handed over while the rest was built, since the process began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlyParts {
    /// Parts that were evaluated.
    pub evaluated: u64,
    /// Parts that stayed lazy, all or some of them: they would not be as in the whole graph, or failed.
    pub left: u64,
}

/// How many parts of graphs were handed over early, for tests and for who wonders where time goes.
pub fn early_parts() -> EarlyParts {
    EarlyParts { evaluated: EVALUATED.load(Relaxed), left: LEFT.load(Relaxed) }
}

/// What a thread has added to its graph since its last evaluation.
struct Built {
    nodes: usize,
    hash: u64,
    /// The number of nodes at which there is something to do.
    next: usize,
    /// The first nodes, with the hash up to each.
    seen: Vec<Seen>,
    /// The part that is to be begun next.
    due: Option<Due>,
    /// What was begun.
    begun: Option<Begun>,
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
struct Due {
    last: Weak<Inner>,
    part: Part,
}

/// What of a graph was begun while it is built.
#[derive(Clone)]
struct Begun {
    of: Arc<Parts>,
    /// The groups that are in it.
    up_to: Sum,
    /// Whether a part stayed lazy.
    is_left: Arc<AtomicBool>,
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

/// What is known of the parts of a graph.
#[derive(Default)]
struct Parts {
    /// Found by who evaluates the whole of it; nothing until then.
    cuts: Mutex<Option<Vec<Cut>>>,
    /// How often one after the other a part was left lazy, or begun for nothing.
    missed: AtomicU32,
    /// Cuts to be passed over, because parts before others were left lazy.
    passed_over: AtomicU32,
}

/// Groups, and which of them may write in place, as a sum that does not depend on their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sum {
    groups: usize,
    hash: u64,
}

/// A part that is to be evaluated before its graph is whole.
pub(super) struct Part {
    /// The sum of its groups in the whole graph.
    expected: Sum,
    /// All that is begun of the graph with it.
    begun: Begun,
}

/// The evaluation of a part, which misses unless it is done.
pub(super) struct Attempt {
    part: Part,
    is_done: bool,
}

impl Sum {
    fn of(groups: &Groups, tape: &Tape) -> Sum {
        let mut sum = Sum::default();
        groups.all().for_each(|group| sum.add(group.members.iter().copied(), tape));
        sum
    }

    /// Adds a group with these members.
    fn add(&mut self, members: impl Iterator<Item = usize>, tape: &Tape) {
        let hash = members.fold(0, |hash, place| {
            let node = tape.node(place);
            mix(hash, word(&node.primitive) ^ u64::from(may_write_in_place(node)))
        });
        self.groups += 1;
        self.hash = self.hash.wrapping_add(mix(hash, 0));
    }

    /// What is left without a part of it.
    fn without(self, part: Sum) -> Sum {
        let Sum { groups, hash } = self;
        Sum { groups: groups.wrapping_sub(part.groups), hash: hash.wrapping_sub(part.hash) }
    }
}

/// Whether a node updates memory that nobody else has, in which kernels write in place.
fn may_write_in_place(node: &Node) -> bool {
    let is_update = matches!(node.primitive, Primitive::Shape(ShapeOp::SliceUpdate { .. }));
    let updated = node.inputs.first().filter(|_| is_update);
    let is_own =
        |array: &Array, data: &Data| Arc::strong_count(&array.0) == 1 && data.buffer.owners() == 1;
    updated.is_some_and(|array| array.data().is_some_and(|data| is_own(array, data)))
}

impl Part {
    /// Whether it is planned as it was in the whole graph, and what it reads stays as it is: a program may
    /// write to memory that it was shown until it evaluates what it has built.
    pub(super) fn fits(&self, groups: &Groups, tape: &Tape) -> bool {
        let is_shown = |input: &Array| input.data().is_some_and(|data| data.buffer.is_shown());
        let reads_shown = |place| tape.node(place).inputs.iter().any(is_shown);
        Sum::of(groups, tape) == self.expected && !(0..tape.len()).any(reads_shown)
    }
}

impl Attempt {
    pub(super) fn new(part: Part) -> Attempt {
        Attempt { part, is_done: false }
    }

    pub(super) fn part(&self) -> &Part {
        &self.part
    }

    /// Whether all of the part is encoded.
    pub(super) fn end(mut self, is_done: bool) {
        self.is_done = is_done;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.is_done {
            EVALUATED.fetch_add(1, Relaxed);
        } else {
            LEFT.fetch_add(1, Relaxed);
            let Begun { of, is_left, .. } = &self.part.begun;
            is_left.store(true, Relaxed);
            of.leave();
        }
    }
}

impl Parts {
    /// Notes that a part was begun for nothing.
    fn miss(&self) {
        self.missed.fetch_add(1, Relaxed);
    }

    /// Notes that a part stayed lazy: the program may hold what lies before its cut, or sizes changed what is
    /// planned, so the next graph is looked at anew.
    fn leave(&self) {
        self.miss();
        self.passed_over.fetch_add(1, Relaxed);
        *self.cuts.lock() = None;
    }

    fn may_be_begun(&self) -> bool {
        self.missed.load(Relaxed) < MISSED
    }

    /// Notes that all that was begun was of use.
    fn hit(&self) {
        self.missed.store(0, Relaxed);
        self.passed_over.store(0, Relaxed);
    }

    /// Tries one part more, and looks for cuts where there were none.
    fn try_again(&self) {
        self.missed.fetch_min(MISSED - 1, Relaxed);
        self.cuts.lock().take_if(|cuts| cuts.is_empty());
    }
}

impl Recurring {
    /// Whether a part of it is worth beginning.
    fn is_worth_it(&self) -> bool {
        self.times >= 2
            && self.parts.may_be_begun()
            && (self.is_awaited || self.waits * WAITS as f32 >= 1.0)
    }

    /// The number of nodes at its first cut behind so many.
    fn next_cut(&self, nodes: usize) -> Option<usize> {
        let cuts = self.parts.cuts.lock();
        cuts.iter().flatten().map(|cut| cut.nodes).find(|&at| at > nodes)
    }

    /// The groups up to a cut at this node, if there is one.
    fn up_to(&self, nodes: usize, hash: u64) -> Option<Sum> {
        let cuts = self.parts.cuts.lock();
        let here = cuts.iter().flatten().find(|cut| (cut.nodes, cut.hash) == (nodes, hash));
        here.map(|cut| cut.up_to)
    }
}

impl Built {
    const fn new() -> Self {
        Built {
            nodes: 0,
            hash: 0,
            next: usize::MAX,
            seen: Vec::new(),
            due: None,
            begun: None,
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
        let due = self.due.take();
        if due.is_none() {
            self.due = self.part_here().map(|part| Due { last: Arc::downgrade(&array.0), part });
        }
        self.next = if self.due.is_some() { self.nodes + LATER } else { self.next_cut() };
        let Due { last, part } = due?;
        // Who has dropped it does not need it.
        let last = Array(last.upgrade()?);
        Some((last, part))
    }

    /// The part up to the last node, as in a graph that came before.
    fn part_here(&self) -> Option<Part> {
        let worth_it = self.known.iter().filter(|graph| graph.is_worth_it());
        let here =
            |graph: &Recurring| Some((graph.up_to(self.nodes, self.hash)?, graph.parts.clone()));
        let (up_to, of) = worth_it.filter_map(here).next()?;
        let Some(begun) = &self.begun else {
            let begun = Begun { of, up_to, is_left: Arc::default() };
            return Some(Part { expected: up_to, begun });
        };
        // Sums of two graphs do not add up.
        let goes_on = Arc::ptr_eq(&begun.of, &of);
        let expected = up_to.without(begun.up_to);
        goes_on.then(|| Part { expected, begun: Begun { up_to, ..begun.clone() } })
    }

    /// The number of nodes at the next cut of any known graph.
    fn next_cut(&self) -> usize {
        let worth_it = self.known.iter().filter(|graph| graph.is_worth_it());
        worth_it.filter_map(|graph| graph.next_cut(self.nodes)).min().unwrap_or(usize::MAX)
    }

    /// Begins with the next graph. Whether the evaluation of the graph that was built shall look at it.
    fn start_anew(&mut self, is_on_gpu: bool, is_awaited: bool) -> Option<Look> {
        let begun = self.begun.take();
        let is_large = is_on_gpu && (LARGE..=REMEMBERED).contains(&self.nodes);
        let parts = is_large.then(|| self.file(is_awaited));
        if let Some(Begun { of, is_left, .. }) = &begun {
            // It is another graph than that of which parts were begun.
            match parts.as_ref().is_some_and(|parts| Arc::ptr_eq(parts, of)) {
                true if !is_left.load(Relaxed) => of.hit(),
                false if !is_left.load(Relaxed) => of.miss(),
                _ => {}
            }
        }
        let comes_again = self.known.first().is_some_and(|graph| graph.times >= 2);
        let is_new = |parts: &Arc<Parts>| parts.may_be_begun() && parts.cuts.lock().is_none();
        let parts = parts.filter(|parts| comes_again && begun.is_none() && is_new(parts));
        let look = parts.map(|parts| {
            let seen = std::mem::take(&mut self.seen);
            let passed_over = (parts.passed_over.load(Relaxed) % MISSED) as usize;
            Look { seen, is_awaited, passed_over, parts }
        });
        self.seen.clear();
        self.due = None;
        (self.nodes, self.hash) = (0, 0);
        self.next = if self.known.is_empty() { usize::MAX } else { ASKED };
        look
    }

    /// Files the graph that was built as the one that came last.
    fn file(&mut self, is_awaited: bool) -> Arc<Parts> {
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
        if graph.times.is_multiple_of(AGAIN) {
            graph.parts.try_again();
        }
        let (now, waited) = (Instant::now(), WAITED.take());
        if let Some(since) = self.since.replace(now) {
            let took = (now - since).max(Duration::from_nanos(1));
            graph.waits = (3.0 * graph.waits + waited.div_duration_f32(took)) / 4.0;
        }
        let parts = graph.parts.clone();
        self.known.insert(0, graph);
        parts
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

/// What of an array's shape and dtype stays from token to token: how many axes there are, how long the first
/// of three or more is (sequences of a batch), and whether there is one row. Prompts have more.
#[inline]
fn kind(array: &Array) -> u64 {
    let shape = array.shape();
    let sequences = if shape.len() >= 3 { shape[0] } else { 0 };
    let is_row = shape.len() >= 2 && shape[shape.len() - 2] == 1;
    (shape.len() as u64) << 56
        ^ u64::from(is_row) << 55
        ^ (sequences as u64) << 8
        ^ array.dtype() as u64
}

/// Whether nodes are counted.
#[inline]
fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// Counts a node that this thread has added to its graph, by a number for its primitive ([`counted`]) and
/// its only output; begins a part of the graph whose time has come.
#[inline]
pub(crate) fn built(primitive: u64, array: &Array) {
    // What a thread's end drops may be arrays, which are computed from nothing any more.
    let part = BUILT.try_with(|built| built.borrow_mut().add(primitive, array));
    if let Ok(Some((last, part))) = part {
        begin(&last, part);
    }
}

/// The number by which [`built`] counts a primitive, where it counts at all.
#[inline]
pub(crate) fn counted(primitive: &Primitive) -> Option<u64> {
    is_on().then(|| word(primitive))
}

/// Hashes a primitive that a compiled function adds to the graph of this thread. Its nodes are not counted:
/// they come all at once.
#[inline]
pub(crate) fn compiled(primitive: &Primitive) {
    if is_on() {
        let hash = |built: &RefCell<Built>| {
            let mut built = built.borrow_mut();
            built.hash = mix(built.hash, word(primitive));
        };
        let _ = BUILT.try_with(hash);
    }
}

/// Begins a part that ends with an array, if that holds nobody up and all before it was evaluated.
#[cold]
fn begin(last: &Array, part: Part) {
    if trace::is_tracing() || !early::is_on_gpu() || !detached::is_settled() {
        return;
    }
    let begun = part.begun.clone();
    if begun.is_left.load(Relaxed) {
        return;
    }
    let Some(turn) = turn_at_once() else { return };
    if begin_part(turn, last, part) {
        BUILT.with_borrow_mut(|built| built.begun = Some(begun));
    }
}

/// Notes that this thread evaluates what it has built. If that is to be looked at, the evaluation does it.
pub(super) fn evaluates(is_awaited: bool) -> Option<Look> {
    if !is_on() || trace::is_tracing() {
        return None;
    }
    let is_on_gpu = early::is_on_gpu();
    let start = |built: &RefCell<Built>| built.borrow_mut().start_anew(is_on_gpu, is_awaited);
    BUILT.try_with(start).ok().flatten()
}

/// Calls `wait`, which blocks until a device has done something.
pub(crate) fn blocked<T>(wait: impl FnOnce() -> T) -> T {
    if !is_on() {
        return wait();
    }
    let since = Instant::now();
    let waited = wait();
    WAITED.set(WAITED.get() + since.elapsed());
    waited
}
