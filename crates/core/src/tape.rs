//! The tape: the lazy arrays of an evaluation, in the order in which they are evaluated.

use std::sync::Arc;

use once_cell::sync::Lazy;

use crate::{
    Array, Error, Result,
    graph::{Node, Turn},
};

/// Nodes that may be open at once before the order turns from breadth first to depth first.
static MAX_WIDTH: Lazy<usize> = Lazy::new(|| {
    std::env::var("MLX_BFS_MAX_WIDTH").ok().and_then(|v| v.parse().ok()).unwrap_or(20)
});

/// A lazy array on the tape, with its node.
pub(crate) struct Entry {
    pub(crate) array: Array,
    pub(crate) node: Arc<Node>,
}

/// The lazy arrays of an evaluation in order: inputs before those that read them. Arrays leave it when they are
/// evaluated. Of a node with several outputs, one stands for all.
pub struct Tape {
    entries: Vec<Option<Entry>>,
    epoch: u32,
}

impl Tape {
    /// MLX's breadth-first order with a width limit, from the outputs backwards. `epoch` tells this
    /// evaluation's marks on nodes and arrays from those of others.
    ///
    /// # Errors
    /// When an array has neither data nor a node.
    pub(crate) fn new(outputs: &[&Array], epoch: u32, turn: &Turn) -> Result<Tape> {
        let nodes = count_parents(outputs, epoch, turn)?;
        let mut order = Order { placed: Vec::with_capacity(nodes), epoch, turn };
        let mut next = 0;
        let mut deferred: Vec<(&Node, usize)> = Vec::new();
        for output in outputs {
            order.place(output);
        }
        while next < order.placed.len() || !deferred.is_empty() {
            let (node, first) = match order.placed.get(next) {
                Some((_, node)) => (&***node, 0),
                None => deferred.pop().expect("it is not empty"),
            };
            next = (next + 1).min(order.placed.len());
            for (i, input) in node.inputs.iter().enumerate().skip(first) {
                if input.data().is_some() {
                    continue;
                }
                if order.placed.len() - next >= *MAX_WIDTH {
                    deferred.push((node, i));
                    break;
                }
                order.place(input);
            }
        }
        let entry = |&(array, node): &(&Array, &Arc<Node>)| {
            Some(Entry { array: array.clone(), node: node.clone() })
        };
        Ok(Tape { entries: order.placed.iter().rev().map(entry).collect(), epoch })
    }

    /// Number of places.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is nothing to evaluate.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The node at a place.
    ///
    /// # Panics
    /// When it is evaluated already.
    pub fn node(&self, place: usize) -> &Node {
        &self.entry(place).node
    }

    /// The lazy array at a place.
    ///
    /// # Panics
    /// When it is evaluated already.
    pub fn array(&self, place: usize) -> &Array {
        &self.entry(place).array
    }

    /// The place of an array that is still lazy.
    pub fn place(&self, array: &Array) -> Option<usize> {
        if array.data().is_some() {
            return None;
        }
        // Places were given backwards.
        array.place(self.epoch).map(|from_end| self.entries.len() - 1 - from_end as usize)
    }

    /// How often nodes of this tape read the array at `place`.
    pub fn uses(&self, place: usize) -> usize {
        self.node(place).uses() as usize
    }

    /// Whether nobody but nodes of this tape refers to the array at `place`: once they have run, nobody
    /// can see what it was.
    pub fn is_private(&self, place: usize) -> bool {
        let entry = self.entry(place);
        let own = 1;
        entry.node.siblings.get().is_none()
            && Arc::strong_count(&entry.array.0) == entry.node.uses() as usize + own
    }

    pub(crate) fn is_done(&self, place: usize) -> bool {
        self.entries[place].is_none()
    }

    /// Takes an array off to evaluate it.
    pub(crate) fn take(&mut self, place: usize) -> Option<Entry> {
        self.entries[place].take()
    }

    fn entry(&self, place: usize) -> &Entry {
        self.entries[place].as_ref().expect("members of a group are evaluated with it")
    }
}

/// The arrays of a tape from its end on.
struct Order<'a> {
    placed: Vec<(&'a Array, &'a Arc<Node>)>,
    epoch: u32,
    turn: &'a Turn,
}

impl<'a> Order<'a> {
    /// Counts one parent of `array` as placed, and places it with the last one.
    fn place(&mut self, array: &'a Array) {
        let Some(node) = array.node_in(self.turn) else { return };
        let Some(left) = node.degree(self.epoch).and_then(|degree| degree.checked_sub(1)) else {
            return;
        };
        node.set_degree(self.epoch, left);
        if left == 0 {
            let place = self.placed.len() as u32;
            array.set_place(self.epoch, place);
            node.each_sibling(|sibling| sibling.set_place(self.epoch, place));
            self.placed.push((array, node));
        }
    }
}

/// Depth-first over the lazy arrays: sets every node's number of parents. Outputs of one node
/// share its count. Returns the number of nodes.
fn count_parents(outputs: &[&Array], epoch: u32, turn: &Turn) -> Result<usize> {
    let mut stack: Vec<(&Node, usize)> = Vec::new();
    let mut nodes = 0;
    for output in outputs {
        // The evaluation itself is a parent, but no use.
        stack.extend(count(output, epoch, 0, turn)?.map(|node| (node, 0)));
        while let Some((node, at)) = stack.last_mut() {
            match node.inputs.get(*at) {
                Some(input) => {
                    *at += 1;
                    let found = count(input, epoch, 1, turn)?;
                    stack.extend(found.map(|node| (node, 0)));
                }
                None => {
                    nodes += 1;
                    stack.pop();
                }
            }
        }
    }
    Ok(nodes)
}

/// Counts a parent that reads `array` `uses` times; its node if that is the first one.
fn count<'a>(array: &'a Array, epoch: u32, uses: u32, turn: &'a Turn) -> Result<Option<&'a Node>> {
    if array.data().is_some() {
        return Ok(None);
    }
    let node = array.node_in(turn).ok_or_else(|| {
        Error::invalid("eval", "Attempting to eval an array without a primitive.")
    })?;
    match node.degree(epoch) {
        Some(degree) => {
            node.set_degree(epoch, degree + 1);
            node.set_uses(node.uses() + uses);
            Ok(None)
        }
        None => {
            node.set_degree(epoch, 1);
            node.set_uses(uses);
            Ok(Some(node))
        }
    }
}
