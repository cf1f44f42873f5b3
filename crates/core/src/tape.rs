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

/// The lazy arrays of an evaluation in order: inputs before those that read them. Arrays leave it when they
/// are evaluated. Of a node with several outputs, one stands for all.
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

    /// The lazy array at a place; of a node with several outputs, one of them.
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

    /// Which output of its node a lazy array is, counted from 0.
    pub fn output(&self, array: &Array) -> Option<usize> {
        match self.node(self.place(array)?).siblings.get() {
            Some(all) => all.iter().position(|s| s.array.as_ptr() == Arc::as_ptr(&array.0)),
            None => Some(0),
        }
    }

    /// How often nodes of this tape read the array at `place`, or any output of a node with several.
    pub fn uses(&self, place: usize) -> usize {
        self.node(place).uses() as usize
    }

    /// Whether nobody but nodes of this tape refers to the array at `place`, and to the other outputs of its
    /// node: once they have run, nobody can see what it was.
    pub fn is_private(&self, place: usize) -> bool {
        let entry = self.entry(place);
        // The tape refers to one output of a node itself, whichever it met last.
        let (own, uses) = (1, entry.node.uses() as usize);
        let references = match entry.node.siblings.get() {
            Some(all) => all.iter().map(|sibling| sibling.array.strong_count()).sum(),
            None => Arc::strong_count(&entry.array.0),
        };
        references == uses + own
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Device, Dtype, Shape, Stream,
        eval::turn,
        primitives::{Affine, BinaryOp, Primitive, QuantizedOp},
    };

    const STREAM: Stream = Stream { index: 0, device: Device::CPU };

    /// The three outputs of a node.
    fn outputs() -> Vec<Array> {
        let affine = Affine { group_size: 64, bits: 4 };
        let rows = Array::from_slice(&[1.0f32; 64], &[1, 64]).unwrap();
        let outputs = [Dtype::Uint32, Dtype::Float32, Dtype::Float32]
            .map(|d| (Shape::from_slice(&[1, 1]), d));
        Array::lazy_many(
            outputs.into(),
            QuantizedOp::Quantize(affine).into(),
            STREAM,
            [rows].into_iter().collect(),
        )
    }

    /// A node that reads these.
    fn reader(inputs: &[Array]) -> Array {
        let primitive = Primitive::Binary(BinaryOp::Add);
        Array::lazy(Shape::from_slice(&[1, 1]), Dtype::Float32, primitive, STREAM, inputs.into())
    }

    /// Uses and privacy of the node that the only other one on the tape reads.
    fn seen(result: &Array, epoch: u32) -> (usize, bool) {
        let tape = Tape::new(&[result], epoch, &turn()).unwrap();
        assert_eq!(tape.len(), 2, "one stands for all");
        (tape.uses(0), tape.is_private(0))
    }

    #[test]
    fn outputs_of_a_node_are_told_apart() {
        let parts = outputs();
        let result = reader(&parts);
        let tape = Tape::new(&[&result], 1, &turn()).unwrap();
        let numbers: Vec<_> = parts.iter().map(|a| (tape.place(a), tape.output(a))).collect();
        assert_eq!(numbers, [0, 1, 2].map(|i| (Some(0), Some(i))));
        assert_eq!(tape.output(&result), Some(0));
        assert_eq!(tape.output(&Array::scalar(1.0f32).unwrap()), None, "it is evaluated");
    }

    #[test]
    fn a_node_is_private_when_all_its_outputs_are() {
        for held in [None, Some(0), Some(1), Some(2)] {
            let parts = outputs();
            let result = reader(&parts);
            let _held = held.map(|i: usize| parts[i].clone());
            drop(parts);
            assert_eq!(seen(&result, 1), (3, held.is_none()), "{held:?} is held");
        }
    }

    #[test]
    fn outputs_that_are_gone_or_read_elsewhere_count() {
        let parts = outputs();
        let result = reader(&[parts[1].clone(), parts[1].clone()]);
        let elsewhere = reader(&parts[..1]);
        drop(parts);
        assert_eq!(seen(&result, 1), (2, false));
        drop(elsewhere);
        assert_eq!(seen(&result, 2), (2, true));
    }
}
