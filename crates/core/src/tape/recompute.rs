//! Elementwise operations that are done again where they are read.
//!
//! What several kernels read would be stored by one and loaded by the others. Where it follows by a few cheap
//! operations from one large array that is stored anyway, a kernel may load that instead: nobody stores the
//! rest. Derivatives read most of what the forward pass computed, so this is where they save memory.
//!
//! Each reader but the first gets nodes of its own, before the tape is made. Readers that end up in one chain
//! share them again ([`crate::chains`]).

use std::sync::{Arc, atomic::Ordering::Relaxed};

use smallvec::SmallVec;

use super::{EVALUATED, Found, Graph};
use crate::{
    Array,
    graph::{Node, Turn},
    primitives::{Primitive, Program, Reduce, ReduceOp},
};

/// Operations that are done again for one reader, at most.
const MOST_STEPS: usize = 8;

/// What is known of a node.
#[derive(Default)]
struct Known {
    /// What it makes, of those that may be done again or read what is.
    array: Option<Array>,
    /// Whether its operation may be done again.
    is_cheap: bool,
    /// Whether its result gets memory in any case.
    is_stored: bool,
    /// Who reads it, and as which input.
    readers: SmallVec<[(u32, usize); 4]>,
}

/// What has to be done to compute an array again.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cost {
    steps: usize,
    /// The only large array that is read, by what it is told from others by, and bytes of its elements.
    source: Option<(*const (), usize)>,
}

impl Cost {
    /// Of both, if they read the same.
    fn with(self, other: Cost) -> Option<Cost> {
        let source = match (self.source, other.source) {
            (Some(a), Some(b)) if a != b => return None,
            (a, b) => a.or(b),
        };
        let steps = self.steps + other.steps;
        (steps <= MOST_STEPS).then_some(Cost { steps, source })
    }
}

impl Graph {
    /// Gives readers of cheap operations nodes of their own. `is_cheap` says of an array and its node whether
    /// computing it again costs less than to load it.
    pub(super) fn recompute(
        &mut self,
        outputs: &[&Array],
        is_cheap: impl Fn(&Node, &Array) -> bool,
        turn: &mut Turn,
    ) {
        if !self.may_recompute(&is_cheap) {
            return;
        }
        let mut known = self.look(outputs, is_cheap);
        let again: Vec<usize> =
            (0..known.len()).filter(|&number| self.is_worth_it(&known, number)).collect();
        for number in again {
            let mut readers = known[number].readers.clone();
            readers.sort_unstable();
            let first = readers.first().map(|&(reader, _)| reader);
            readers.retain(|&mut (reader, _)| Some(reader) != first);
            for same in readers.chunk_by(|a, b| a.0 == b.0) {
                self.read_again(&mut known, number, same, turn);
            }
        }
    }

    /// Whether any cheap node is read more than once. Most graphs, such as a token's, have none.
    fn may_recompute(&self, is_cheap: impl Fn(&Node, &Array) -> bool) -> bool {
        self.nodes.iter().any(|Found { node, first }| {
            let inputs = node.iter().flat_map(|node| &node.inputs);
            inputs.zip(&self.inputs[*first as usize..]).any(|(array, &number)| {
                let several = self.counts.get(number as usize).is_some_and(|of| of.uses > 1);
                let node = several.then(|| self.nodes[number as usize].node.as_ref()).flatten();
                node.is_some_and(|node| is_cheap(node, array))
            })
        })
    }

    /// Looks at all nodes.
    fn look(&self, outputs: &[&Array], is_cheap: impl Fn(&Node, &Array) -> bool) -> Vec<Known> {
        let mut known: Vec<Known> = Vec::new();
        known.resize_with(self.nodes.len(), Known::default);
        let roots = self.roots.iter().zip(outputs);
        for (&root, &output) in roots.filter(|&(&root, _)| root != EVALUATED) {
            known[root as usize].is_stored = true;
            self.meet(&mut known[root as usize], root, output, &is_cheap);
        }
        for (reader, Found { node, first }) in (0..).zip(&self.nodes) {
            let Some(node) = node else { continue };
            let may = may_read(node);
            for (i, input) in node.inputs.iter().enumerate() {
                let number = self.inputs[*first as usize + i];
                let Some(of) = known.get_mut(number as usize) else { continue };
                self.meet(of, number, input, &is_cheap);
                let made_by = self.nodes[number as usize].node.as_ref();
                of.is_stored |= !may || made_by.is_none_or(|by| by.stream != node.stream);
                if of.is_cheap {
                    of.readers.push((reader, i));
                }
            }
        }
        for (number, counts) in self.counts.iter().enumerate() {
            let Known { array: Some(array), .. } = &known[number] else { continue };
            // One reference is that of `known`.
            let private = Arc::strong_count(&array.0) == counts.uses as usize + 1;
            known[number].is_stored |= !private;
            let mut readers = known[number].readers.iter();
            let unknown = readers.any(|&(reader, _)| known[reader as usize].array.is_none());
            known[number].is_stored |= unknown;
        }
        known
    }

    /// Takes note of what a node makes, where it matters.
    fn meet(
        &self,
        of: &mut Known,
        number: u32,
        array: &Array,
        is_cheap: impl Fn(&Node, &Array) -> bool,
    ) {
        if of.array.is_some() {
            return;
        }
        let Some(node) = &self.nodes[number as usize].node else { return };
        if may_read(node) && !array.is_tracer() {
            of.is_cheap = is_cheap(node, array);
            of.array = Some(array.clone());
        }
    }

    /// Whether all readers of a node shall compute it themselves.
    fn is_worth_it(&self, known: &[Known], number: usize) -> bool {
        let Known { array: Some(array), is_cheap: true, is_stored: false, readers } =
            &known[number]
        else {
            return false;
        };
        let several = readers.iter().any(|reader| reader.0 != readers[0].0);
        let cost = several.then(|| self.cost(known, number, MOST_STEPS)).flatten();
        cost.is_some_and(|cost| cost.source.is_none_or(|(_, size)| size <= array.dtype().size()))
    }

    /// What it takes to compute a cheap node again from what is stored, in so many steps at most.
    fn cost(&self, known: &[Known], number: usize, most: usize) -> Option<Cost> {
        let left = most.checked_sub(1)?;
        let Found { node, first } = &self.nodes[number];
        let (node, array) = (node.as_ref()?, known[number].array.as_ref()?);
        let mut all = Cost { steps: 1, source: None };
        for (i, input) in node.inputs.iter().enumerate() {
            let number = self.inputs[*first as usize + i];
            if input.size() == array.size() && !self.repeats(number, input) {
                all = all.with(self.cost_of_input(known, number, input, left)?)?;
            }
        }
        Some(all)
    }

    fn cost_of_input(
        &self,
        known: &[Known],
        number: u32,
        input: &Array,
        left: usize,
    ) -> Option<Cost> {
        let source = Some((Arc::as_ptr(&input.0).cast(), input.dtype().size()));
        let stored = Cost { steps: 0, source };
        match known.get(number as usize) {
            None => Some(stored),
            Some(Known { is_stored: true, .. }) => Some(stored),
            Some(Known { is_cheap: true, .. }) => self.cost(known, number as usize, left),
            // What nobody else reads may be in the kernel of its only reader.
            Some(_) => (self.counts[number as usize].uses > 1).then_some(stored),
        }
    }

    /// Whether an array has its elements several times.
    fn repeats(&self, number: u32, array: &Array) -> bool {
        match self.nodes.get(number as usize) {
            Some(Found { node: Some(node), .. }) => Program::is_broadcast(&node.primitive),
            _ => array.data().is_some_and(|data| data.layout.data_size < array.size()),
        }
    }

    /// Gives one reader, which reads a node as each of some inputs, a copy of it.
    fn read_again(
        &mut self,
        known: &mut Vec<Known>,
        number: usize,
        as_inputs: &[(u32, usize)],
        turn: &mut Turn,
    ) {
        let reader = as_inputs[0].0 as usize;
        let Some(old) = &self.nodes[reader].node else { return };
        let (primitive, stream, mut inputs) =
            (old.primitive.clone(), old.stream, old.inputs.clone());
        let Some((copy, own)) = self.copy(known, number) else { return };
        let edges = as_inputs.len() as u32;
        for &(_, input) in as_inputs {
            inputs[input] = own.clone();
            let first = self.nodes[reader].first as usize;
            self.inputs[first + input] = copy;
        }
        self.counts[copy as usize].uses += edges;
        self.counts[copy as usize].parents += edges;
        self.counts[number].uses -= edges;
        self.counts[number].parents -= edges;
        let node = Arc::new(Node::new(primitive, stream, inputs));
        node.number.store(reader as u32, Relaxed);
        if let Some(array) = &known[reader].array {
            array.replace_node(node.clone(), turn);
        }
        self.nodes[reader].node = Some(node);
    }

    /// A copy of a cheap node, with copies of what it reads of the like; nobody reads it yet.
    fn copy(&mut self, known: &mut Vec<Known>, number: usize) -> Option<(u32, Array)> {
        let node = self.nodes[number].node.clone()?;
        let (array, first) = (known[number].array.clone()?, self.nodes[number].first as usize);
        let mut inputs = node.inputs.clone();
        let read = SmallVec::<[u32; 3]>::from_slice(&self.inputs[first..][..inputs.len()]);
        let mut numbers = read.clone();
        for (i, &number) in read.iter().enumerate() {
            let again = known.get(number as usize);
            if again.is_none_or(|of| !of.is_cheap || of.is_stored) {
                continue;
            }
            (numbers[i], inputs[i]) = match read.iter().position(|&other| other == number) {
                Some(other) if other < i => (numbers[other], inputs[other].clone()),
                _ => self.copy(known, number as usize)?,
            };
        }
        for &number in &numbers {
            if let Some(counts) = self.counts.get_mut(number as usize) {
                counts.uses += 1;
                counts.parents += 1;
            }
        }
        let own = Arc::new(Node::new(node.primitive.clone(), node.stream, inputs));
        let copy = self.add(own.clone(), 0);
        self.counts[copy as usize].parents = 0;
        let first = self.nodes[copy as usize].first as usize;
        self.inputs[first..][..numbers.len()].copy_from_slice(&numbers);
        let own = Array::of_node(array.shape().into(), array.dtype(), own, array.mark());
        known.push(Known { array: Some(own.clone()), is_cheap: true, ..Known::default() });
        Some((copy, own))
    }
}

/// Whether a node may compute itself what it reads: a step of a chain, or a reduction of floats behind one.
fn may_read(node: &Node) -> bool {
    match &node.primitive {
        Primitive::Reduce(Reduce { op, .. }) => {
            matches!(op, ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Max | ReduceOp::Min)
                && node.inputs[0].dtype().is_floating()
        }
        step => Program::takes(step) && !Program::is_broadcast(step),
    }
}
