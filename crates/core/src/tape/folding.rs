//! Constant folding: what every evaluation computes anew from the same arrays is computed once.
//!
//! Models are full of operations on their parameters alone: a norm's weight plus one, the exponential of a
//! decay. Each token would do them again. Where such a result is read together with what does change, and by
//! nobody else, it is kept once it was asked for in a few evaluations, and later ones take it over with its
//! memory.
//!
//! The same operations on the same arrays give the same result, unless somebody writes to memory that is
//! shown outside (`HostView`): such arrays are left alone. What is kept holds the arrays that it was computed
//! from, so nobody takes over their memory meanwhile. A graph of which nothing changes is evaluated as it is:
//! who evaluates the same again measures something.

use std::{
    env,
    hash::{Hash, Hasher},
    sync::{Arc, Weak},
};

use once_cell::sync::Lazy;
use parking_lot::{Mutex, MutexGuard};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use crate::{
    Array,
    array::Inner,
    chains::is_elementwise,
    graph::{Node, Turn},
    primitives::Program,
};

/// Evaluations that ask for a result until it is kept.
const SIGHTINGS: u32 = 4;

/// Bytes of a result, and of the memory of each array that it is computed from, at most.
const MOST_BYTES: usize = 64 << 10;

/// Operations on the way to a result, at most.
const MOST_STEPS: usize = 8;

/// Bytes of all results that are kept, with those on the way to them, at most.
const MOST_KEPT: usize = 16 << 20;

/// Results that were seen, but are not kept yet, at most.
const MOST_SEEN: usize = 4096;

/// After so many evaluations, results that none of them asked for are let go.
const UNUSED: u32 = 1024;

static IS_ON: Lazy<bool> = Lazy::new(|| env::var_os("MLX_DISABLE_FOLDING").is_none());

static FOLDING: Lazy<Mutex<Folding>> = Lazy::new(Mutex::default);

/// The results that are kept, and those that may be.
#[derive(Default)]
pub(super) struct Folding {
    kept: FxHashMap<u64, Kept>,
    seen: FxHashMap<u64, Seen>,
    bytes: usize,
    /// Number of this evaluation.
    now: u32,
}

/// A result that is kept.
struct Kept {
    expression: Expression,
    result: Array,
    /// The evaluation that asked for it last.
    used: u32,
}

/// A result that was seen: the arrays that it is computed from, and in how many evaluations.
struct Seen {
    leaves: SmallVec<[Weak<Inner>; 2]>,
    count: u32,
    last: u32,
}

/// How an array is computed from evaluated ones.
struct Expression {
    /// Its node and those before it, each before those of its inputs.
    nodes: SmallVec<[Arc<Node>; 2]>,
    /// Which of the inputs of all nodes are evaluated, a bit for each.
    leaves: u32,
    hash: u64,
}

/// The table; nothing where it is not to be used.
pub(super) fn table() -> Option<MutexGuard<'static, Folding>> {
    IS_ON.then(|| FOLDING.lock())
}

/// Lets go all that is kept.
pub(crate) fn clear() {
    let gone = FOLDING.lock().clear();
    // The lock is released: users' memory may be among it.
    drop(gone);
}

impl Folding {
    /// Another evaluation begins.
    pub(super) fn begin(&mut self) {
        self.now = self.now.wrapping_add(1);
        if self.now.is_multiple_of(UNUSED) {
            self.sweep();
        }
    }

    /// Gives inputs of a node that are known their data, if others of its inputs change.
    pub(super) fn settle(&mut self, node: &Node, turn: &mut Turn) {
        if node.inputs.len() < 2 {
            return;
        }
        let mut changes = false;
        let mut found: SmallVec<[(&Array, Expression); 2]> = SmallVec::new();
        for input in node.inputs.iter().filter(|input| input.data().is_none()) {
            match Expression::of(input, turn) {
                Some(expression) if expression.does_something() => found.push((input, expression)),
                Some(_) => {}
                None => changes = true,
            }
        }
        // Who else has the array could show its memory, or evaluates it in another way.
        let is_private = |array: &Array| Arc::strong_count(&array.0) == 1;
        for (input, expression) in found.into_iter().filter(|_| changes) {
            if is_private(input) {
                self.take(input, expression, turn);
            }
        }
    }

    /// Gives an array the data that is kept of its expression, or takes note of that.
    fn take(&mut self, array: &Array, expression: Expression, turn: &mut Turn) {
        if let Some(kept) = self.kept.get_mut(&expression.hash) {
            if !kept.expression.is_same(&expression) {
                return;
            }
            kept.used = self.now;
            match kept.result.data() {
                Some(data) if !data.buffer.has_failed() => array.adopt(data.clone(), turn),
                // It failed, or was never computed: this one is.
                _ => (kept.expression, kept.result) = (expression, array.clone()),
            }
        } else if self.is_familiar(&expression) && self.bytes + expression.bytes(array) <= MOST_KEPT
        {
            self.seen.remove(&expression.hash);
            self.bytes += expression.bytes(array);
            let (result, used) = (array.clone(), self.now);
            self.kept.insert(expression.hash, Kept { expression, result, used });
        }
    }

    /// Counts that an expression was seen, once an evaluation. Whether that is often enough.
    fn is_familiar(&mut self, expression: &Expression) -> bool {
        if self.seen.len() >= MOST_SEEN {
            self.seen.clear();
        }
        let now = self.now;
        let new = || {
            let leaves = expression.named().map(|leaf| Arc::downgrade(&leaf.0)).collect();
            Seen { leaves, count: 0, last: now.wrapping_sub(1) }
        };
        let seen = self.seen.entry(expression.hash).or_insert_with(new);
        // A number that names an array may be that of another one later: the weak reference keeps it.
        let leaves = expression.named().map(|leaf| Arc::as_ptr(&leaf.0));
        if !leaves.eq(seen.leaves.iter().map(Weak::as_ptr)) {
            *seen = new();
        }
        if seen.last != now {
            (seen.count, seen.last) = (seen.count + 1, now);
        }
        seen.count >= SIGHTINGS
    }

    /// Lets go what nobody asked for in a while.
    fn sweep(&mut self) {
        let now = self.now;
        self.seen.retain(|_, seen| now.wrapping_sub(seen.last) < UNUSED);
        self.kept.retain(|_, kept| now.wrapping_sub(kept.used) < UNUSED);
        self.bytes = self.kept.values().map(|kept| kept.expression.bytes(&kept.result)).sum();
    }

    fn clear(&mut self) -> Folding {
        let now = self.now;
        std::mem::replace(self, Folding { now, ..Folding::default() })
    }
}

impl Expression {
    /// How a lazy array is computed from evaluated ones by a few elementwise operations, if it is.
    fn of(array: &Array, turn: &Turn) -> Option<Expression> {
        if array.nbytes() > MOST_BYTES {
            return None;
        }
        let mut expression = Expression { nodes: SmallVec::new(), leaves: 0, hash: 0 };
        let mut hasher = FxHasher::default();
        expression.visit(array, 0, turn, &mut hasher)?;
        Some(Expression { hash: hasher.finish(), ..expression })
    }

    /// Adds what computes an array, which is input number `own` of all, if only evaluated arrays are read.
    fn visit(
        &mut self,
        array: &Array,
        own: usize,
        turn: &Turn,
        hasher: &mut FxHasher,
    ) -> Option<()> {
        if let Some(data) = array.data() {
            self.leaves |= 1 << own;
            match array.bits_at_hand() {
                Some(bits) => (array.dtype(), array.ndim(), bits).hash(hasher),
                None => array.address().hash(hasher),
            }
            let may_stay = data.buffer.nbytes() <= MOST_BYTES && !data.buffer.is_shown();
            return may_stay.then_some(());
        }
        let node = step(array, turn)?;
        let first: usize = self.nodes.iter().map(|node| node.inputs.len()).sum();
        // Most of what is not folded is told by what its operation reads.
        let may = |input: &Array| input.data().is_some() || step(input, turn).is_some();
        let fits = first + node.inputs.len() <= u32::BITS as usize;
        if self.nodes.len() == MOST_STEPS || !fits || !node.inputs.iter().all(may) {
            return None;
        }
        self.nodes.push(node.clone());
        (&node.primitive, node.stream).hash(hasher);
        let mut inputs = node.inputs.iter().zip(first..);
        inputs.try_for_each(|(input, number)| self.visit(input, number, turn, hasher))
    }

    /// Bytes of its result, which is at least as large as what is on the way to it, and of that.
    fn bytes(&self, result: &Array) -> usize {
        self.nodes.len() * result.nbytes()
    }

    /// The evaluated arrays that are read.
    fn leaves(&self) -> impl Iterator<Item = &Array> {
        let all = self.nodes.iter().flat_map(|node| &node.inputs).enumerate();
        all.filter(|&(i, _)| self.leaves & (1 << i) != 0).map(|(_, leaf)| leaf)
    }

    /// Those that are not known by their value.
    fn named(&self) -> impl Iterator<Item = &Array> {
        self.leaves().filter(|leaf| leaf.bits_at_hand().is_none())
    }

    /// Whether another one computes the same from the same arrays.
    fn is_same(&self, other: &Expression) -> bool {
        let alike =
            |(a, b): (&Arc<Node>, &Arc<Node>)| (&a.primitive, a.stream) == (&b.primitive, b.stream);
        let leaves = || self.leaves().zip(other.leaves());
        (self.leaves, self.nodes.len()) == (other.leaves, other.nodes.len())
            && self.nodes.iter().zip(&other.nodes).all(alike)
            && leaves().all(|(a, b)| a.is_same(b) || has_same_bits(a, b))
    }

    /// Whether it is more than a view.
    fn does_something(&self) -> bool {
        self.nodes.iter().any(|node| !Program::is_broadcast(&node.primitive))
    }
}

/// The node of a lazy array, if its operation may be on the way to a result.
fn step<'a>(array: &'a Array, turn: &'a Turn) -> Option<&'a Arc<Node>> {
    let node = array.node_in(turn).filter(|_| !array.is_tracer())?;
    let is_step = is_elementwise(&node.primitive) || Program::is_broadcast(&node.primitive);
    is_step.then_some(node)
}

/// Whether both are scalars of the same bits.
fn has_same_bits(a: &Array, b: &Array) -> bool {
    let of = |array: &Array| Some((array.dtype(), array.ndim(), array.bits_at_hand()?));
    of(a).is_some_and(|bits| of(b) == Some(bits))
}
