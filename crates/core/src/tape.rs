//! The tape: the lazy arrays of an evaluation, in the order in which they are evaluated.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use once_cell::sync::Lazy;
use smallvec::SmallVec;

use crate::{
    Array, Error, Result, Stream,
    graph::{Node, Sibling, Turn},
    primitives::Primitive,
    program,
    transforms::trace,
};

pub(crate) mod folding;
mod recompute;

/// Nodes that may be open at once before the order turns from breadth first to depth first.
static MAX_WIDTH: Lazy<usize> = Lazy::new(|| {
    std::env::var("MLX_BFS_MAX_WIDTH").ok().and_then(|v| v.parse().ok()).unwrap_or(20)
});

/// A lazy array on the tape, with its node.
pub(crate) struct Entry {
    pub(crate) array: Array,
    pub(crate) node: Arc<Node>,
    /// Where the places of its inputs begin.
    first: u32,
    /// How often nodes of the tape read the outputs of the node.
    uses: u32,
}

impl Entry {
    /// All outputs of the node.
    pub(crate) fn outputs(&self) -> SmallVec<[Array; 1]> {
        self.node.outputs(&self.array)
    }
}

/// Instead of the place of an input that was evaluated before the tape was made.
const EVALUATED: u32 = u32::MAX;

/// The lazy arrays of an evaluation in order: inputs before those that read them. Arrays leave it when they
/// are evaluated. Of a node with several outputs, one stands for all.
///
/// It holds all that an evaluation knows of the graph's structure, so that several evaluations of overlapping
/// graphs do not disturb each other: nodes carry no marks but a number that is checked wherever it is used.
pub struct Tape {
    entries: Vec<Option<Entry>>,
    /// Places of the inputs of each node, one node's after another's.
    inputs: Vec<u32>,
}

impl Tape {
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

    /// The place of the `nth` input of the node at `place`, if that input is still lazy.
    pub fn input(&self, place: usize, nth: usize) -> Option<usize> {
        self.lazy(self.inputs[self.entry(place).first as usize + nth])
    }

    /// The places of the inputs of the node at `place` that are still lazy, as often as it reads them.
    pub fn inputs(&self, place: usize) -> impl Iterator<Item = usize> + '_ {
        let Entry { node, first, .. } = self.entry(place);
        let inputs = &self.inputs[*first as usize..][..node.inputs.len()];
        inputs.iter().filter_map(|&input| self.lazy(input))
    }

    /// The place of an input, if that is still lazy.
    fn lazy(&self, input: u32) -> Option<usize> {
        (input != EVALUATED && !self.is_done(input as usize)).then_some(input as usize)
    }

    /// Which output of its node the `nth` input of the node at `place` is, counted from 0, if it is still
    /// lazy.
    pub fn output(&self, place: usize, nth: usize) -> Option<usize> {
        let array = &self.node(place).inputs[nth];
        match self.node(self.input(place, nth)?).siblings.get() {
            Some(all) => all.iter().position(|sibling| sibling.is(array)),
            None => Some(0),
        }
    }

    /// The first input of the node at `place` that is to be evaluated before it, but for those at places that
    /// `is_known` knows.
    pub(crate) fn missing(&self, place: usize, is_known: impl Fn(usize) -> bool) -> Option<usize> {
        self.inputs(place).find(|&input| !is_known(input))
    }

    /// How often nodes of this tape read the array at `place`, or any output of a node with several.
    pub fn uses(&self, place: usize) -> usize {
        self.entry(place).uses as usize
    }

    /// Whether nobody but nodes of this tape refers to the array at `place`, and to the other outputs of its
    /// node: once they have run, nobody can see what it was.
    pub fn is_private(&self, place: usize) -> bool {
        let entry = self.entry(place);
        // The tape refers to one output of a node itself, whichever it met last.
        let (own, uses) = (1, entry.uses as usize);
        let references = match entry.node.siblings.get() {
            Some(all) => all.iter().map(Sibling::references).sum(),
            None => Arc::strong_count(&entry.array.0),
        };
        references == uses + own
    }

    /// Whether the array at `place` is evaluated: by this evaluation, or by another one while this one
    /// waited.
    pub(crate) fn is_done(&self, place: usize) -> bool {
        self.entries[place].as_ref().is_none_or(|entry| entry.array.data().is_some())
    }

    /// Takes an array off to evaluate it.
    pub(crate) fn take(&mut self, place: usize) -> Option<Entry> {
        self.entries[place].take()
    }

    /// What stands at a place.
    ///
    /// # Panics
    /// When it is evaluated already.
    pub(crate) fn entry(&self, place: usize) -> &Entry {
        self.entries[place].as_ref().expect("members of a group are evaluated with it")
    }
}

/// The lazy nodes behind some outputs, numbered as they are found: a tape in the making.
#[derive(Default)]
pub(crate) struct Graph {
    /// Arrays that are traced may not be evaluated.
    refuses_tracers: bool,
    /// Numbers of the outputs.
    roots: Vec<u32>,
    nodes: Vec<Found>,
    /// The first node whose inputs were not looked at.
    next: usize,
    /// What is known of each node besides.
    counts: Vec<Counts>,
    /// Numbers of the inputs of each node, one node's after another's.
    inputs: Vec<u32>,
}

/// A node of the graph.
struct Found {
    /// Taken while its inputs are looked at, and when it is put on the tape: counting references takes
    /// longer.
    node: Option<Arc<Node>>,
    /// Where the numbers of its inputs begin.
    first: u32,
}

/// Who reads a node, and where it stands.
struct Counts {
    /// How often others read it; the evaluation itself is a parent, but no use.
    uses: u32,
    /// Parents that are not placed yet.
    parents: u32,
    /// When it was placed, counted from the end of the tape.
    from_end: u32,
}

impl Graph {
    /// The nodes of the outputs alone.
    ///
    /// # Errors
    /// When an output has neither data nor a node, or is traced although nobody waits for the evaluation.
    pub(crate) fn new(outputs: &[&Array], waits: bool, turn: &mut Turn) -> Result<Graph> {
        let refuses_tracers = !waits && trace::is_tracing();
        let mut graph = Graph { refuses_tracers, ..Graph::default() };
        for output in outputs {
            let root = graph.number(output, 0, turn)?;
            graph.roots.push(root);
        }
        Ok(graph)
    }

    /// Goes on to the inputs of what was found, and counts parents, until there are `enough` nodes. Outputs
    /// of one node share its count. What is known already gets its data ([`folding`]). Whether that were all.
    ///
    /// # Errors
    /// As of [`Graph::new`], for any array behind the outputs.
    pub(crate) fn find(&mut self, enough: usize, turn: &mut Turn) -> Result<bool> {
        // What a transform looks at is evaluated as it is.
        let mut folding = if trace::is_tracing() { None } else { folding::table() };
        if let (Some(folding), 0) = (&mut folding, self.next) {
            folding.begin();
        }
        while self.nodes.len() < enough
            && let Some(Found { node, first }) = self.nodes.get_mut(self.next)
        {
            let (node, first) = (node.take(), *first as usize);
            if let (Some(folding), Some(node)) = (&mut folding, &node) {
                folding.settle(node, turn);
            }
            for (i, input) in node.iter().flat_map(|node| &node.inputs).enumerate() {
                self.inputs[first + i] = self.number(input, 1, turn)?;
            }
            self.nodes[self.next].node = node;
            self.next += 1;
        }
        Ok(self.next == self.nodes.len())
    }

    /// Whether all outputs are evaluated.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The streams of the nodes that were found.
    pub(crate) fn streams(&self) -> impl Iterator<Item = Stream> + '_ {
        self.nodes.iter().filter_map(|found| Some(found.node.as_ref()?.stream))
    }

    /// Finds what is left and puts it into MLX's breadth-first order with a width limit, from the outputs
    /// backwards. What `is_cheap` may be computed again by each of its readers.
    ///
    /// # Errors
    /// As of [`Graph::find`].
    pub(crate) fn into_tape(
        mut self,
        outputs: &[&Array],
        is_cheap: impl Fn(&Node, &Array) -> bool,
        turn: &mut Turn,
    ) -> Result<Tape> {
        self.find(usize::MAX, turn)?;
        // No groups are planned meanwhile.
        if !trace::is_tracing() {
            self.recompute(outputs, is_cheap, turn);
        }
        let order = self.order(outputs);
        Ok(self.tape(order))
    }

    /// The number of the node of `array`, which one more parent reads `uses` times. A program becomes the
    /// nodes of its operations.
    fn number(&mut self, array: &Array, uses: u32, turn: &mut Turn) -> Result<u32> {
        if array.data().is_some() {
            return Ok(EVALUATED);
        }
        if self.refuses_tracers && array.is_tracer() {
            return Err(Error::invalid("async_eval", "Not allowed inside a graph transformation."));
        }
        let is_program = |node: &Arc<Node>| matches!(node.primitive, Primitive::Compiled(_));
        if array.node_in(turn).is_some_and(is_program) {
            program::expand(array, turn)?;
        }
        let node = array.node_in(turn).ok_or_else(|| without_node(array))?;
        // The number may be of another tape, so what has it here must be this very node.
        let number = node.number.load(Relaxed);
        match self.nodes.get(number as usize) {
            Some(Found { node: Some(found), .. }) if Arc::ptr_eq(found, node) => {
                let counts = &mut self.counts[number as usize];
                counts.parents += 1;
                counts.uses += uses;
                Ok(number)
            }
            _ => Ok(self.add(node.clone(), uses)),
        }
    }

    /// Numbers a node that was just found, with the first of its parents.
    fn add(&mut self, node: Arc<Node>, uses: u32) -> u32 {
        let number = self.nodes.len() as u32;
        node.number.store(number, Relaxed);
        let first = self.inputs.len() as u32;
        self.inputs.resize(self.inputs.len() + node.inputs.len(), EVALUATED);
        self.nodes.push(Found { node: Some(node), first });
        self.counts.push(Counts { uses, parents: 1, from_end: 0 });
        number
    }

    /// The nodes from the end of the tape on, each with the output that stands for it.
    fn order(&mut self, outputs: &[&Array]) -> Vec<(u32, Array)> {
        let Graph { roots, nodes, counts, inputs, .. } = self;
        let mut placed = Vec::with_capacity(nodes.len());
        let mut next = 0;
        let mut deferred: Vec<(u32, usize)> = Vec::new();
        for (output, &number) in outputs.iter().zip(&*roots) {
            place(counts, number, output, &mut placed);
        }
        while next < placed.len() || !deferred.is_empty() {
            let (of, from) = match placed.get(next) {
                Some(&(number, _)) => (number, 0),
                None => deferred.pop().expect("it is not empty"),
            };
            next = (next + 1).min(placed.len());
            let Found { node, first } = &nodes[of as usize];
            let inputs_of = node.as_ref().map_or(&[][..], |node| &node.inputs);
            for (i, input) in inputs_of.iter().enumerate().skip(from) {
                let number = inputs[*first as usize + i];
                if number == EVALUATED {
                    continue;
                }
                if placed.len() - next >= *MAX_WIDTH {
                    deferred.push((of, i));
                    break;
                }
                place(counts, number, input, &mut placed);
            }
        }
        placed
    }

    fn tape(self, order: Vec<(u32, Array)>) -> Tape {
        let Graph { mut nodes, counts, inputs: numbers, .. } = self;
        let places = order.len() as u32;
        let mut inputs = Vec::with_capacity(numbers.len());
        let entries = order.into_iter().rev().map(|(number, array)| {
            let Found { node, first } = &mut nodes[number as usize];
            let node = node.take()?;
            let own = &numbers[*first as usize..][..node.inputs.len()];
            let first = inputs.len() as u32;
            inputs.extend(own.iter().map(|&input| match counts.get(input as usize) {
                Some(counts) => places - 1 - counts.from_end,
                None => EVALUATED,
            }));
            let uses = counts[number as usize].uses;
            Some(Entry { array, node, first, uses })
        });
        Tape { entries: entries.collect(), inputs }
    }
}

/// Counts one parent as placed, and places the node with the last one.
fn place(counts: &mut [Counts], number: u32, array: &Array, placed: &mut Vec<(u32, Array)>) {
    let Some(counts) = counts.get_mut(number as usize) else { return };
    counts.parents -= 1;
    if counts.parents == 0 {
        counts.from_end = placed.len() as u32;
        placed.push((number, array.clone()));
    }
}

/// Why an array cannot be evaluated that has neither data nor a node.
fn without_node(array: &Array) -> Error {
    if array.is_tracer() {
        let message = "Attempting to eval an array during function transformations like compile or vmap is \
                       not allowed.";
        return Error::invalid("eval", message);
    }
    let message = "Attempting to eval an array without a primitive. If you are compiling a function, make \
                   sure all the inputs and outputs are captured.";
    Error::runtime("eval", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Device, Dtype, Shape, Stream,
        eval::turn,
        primitives::{Affine, BinaryOp, QuantizedOp},
    };

    const STREAM: Stream = Stream::first(Device::CPU);

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

    fn tape(result: &Array) -> Tape {
        let mut turn = turn();
        let graph = Graph::new(&[result], true, &mut turn).unwrap();
        graph.into_tape(&[result], |_, _| false, &mut turn).unwrap()
    }

    /// Uses and privacy of the node that the only other one on the tape reads.
    fn seen(result: &Array) -> (usize, bool) {
        let tape = tape(result);
        assert_eq!(tape.len(), 2, "one stands for all");
        (tape.uses(0), tape.is_private(0))
    }

    #[test]
    fn outputs_of_a_node_are_told_apart() {
        let parts = outputs();
        let result = reader(&parts);
        let tape = tape(&result);
        let numbers = [0, 1, 2].map(|i| (tape.input(1, i), tape.output(1, i)));
        assert_eq!(numbers, [0, 1, 2].map(|i| (Some(0), Some(i))));
        assert_eq!(tape.input(0, 0), None, "the rows are evaluated");
    }

    #[test]
    fn a_node_is_private_when_all_its_outputs_are() {
        for held in [None, Some(0), Some(1), Some(2)] {
            let parts = outputs();
            let result = reader(&parts);
            let _held = held.map(|i: usize| parts[i].clone());
            drop(parts);
            assert_eq!(seen(&result), (3, held.is_none()), "{held:?} is held");
        }
    }

    #[test]
    fn outputs_that_are_gone_or_read_elsewhere_count() {
        let parts = outputs();
        let result = reader(&[parts[1].clone(), parts[1].clone()]);
        let elsewhere = reader(&parts[..1]);
        drop(parts);
        assert_eq!(seen(&result), (2, false));
        drop(elsewhere);
        assert_eq!(seen(&result), (2, true));
    }

    /// An elementwise operation of large arrays.
    fn elementwise(op: BinaryOp, inputs: [&Array; 2]) -> Array {
        let inputs = inputs.into_iter().cloned().collect();
        Array::lazy(Shape::from_slice(&[64]), Dtype::Float32, op.into(), STREAM, inputs)
    }

    /// Places of the tape of a graph whose sums and products may be computed again.
    fn places(outputs: &[&Array]) -> usize {
        let mut turn = turn();
        let graph = Graph::new(outputs, true, &mut turn).unwrap();
        let is_cheap = |node: &Node, _: &Array| {
            matches!(node.primitive, Primitive::Binary(BinaryOp::Add | BinaryOp::Multiply))
        };
        let tape = graph.into_tape(outputs, is_cheap, &mut turn).unwrap();
        for place in 0..tape.len() {
            let read = (0..tape.len()).flat_map(|reader| tape.inputs(reader));
            assert_eq!(read.filter(|&read| read == place).count(), tape.uses(place), "{place}");
        }
        tape.len()
    }

    #[test]
    fn what_is_cheap_has_a_node_for_each_reader() {
        let x = Array::from_slice(&[1.0f32; 64], &[64]).unwrap();
        let other = Array::from_slice(&[2.0f32; 64], &[64]).unwrap();
        let graph = |source: &Array, held: &mut Vec<Array>| {
            let sum = elementwise(BinaryOp::Add, [source, &x]);
            let product = elementwise(BinaryOp::Multiply, [&sum, &sum]);
            let first = elementwise(BinaryOp::Divide, [&product, &x]);
            let last = elementwise(BinaryOp::Divide, [&product, &first]);
            held.extend([sum, product]);
            last
        };
        let mut held = Vec::new();
        let last = graph(&x, &mut held);
        assert_eq!(places(&[&last]), 4, "two are held");
        held.clear();
        let last = graph(&x, &mut held);
        held.clear();
        assert_eq!(places(&[&last]), 6, "a sum and a product for each quotient");
        let last = graph(&other, &mut held);
        held.clear();
        assert_eq!(places(&[&last]), 4, "of two arrays it is no less to read");
    }
}
