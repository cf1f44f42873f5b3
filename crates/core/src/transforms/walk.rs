//! The graph between some arrays, as indices.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    Array,
    array::Inner,
    eval,
    graph::{Node, Turn},
    primitives::Primitive,
};

/// A part of a graph: arrays by number, and the nodes between them.
#[derive(Default)]
pub(crate) struct Graph {
    /// Every array that was met: the leaves first.
    pub(crate) values: Vec<Array>,
    /// The nodes, inputs before what is computed from them.
    pub(crate) steps: Vec<Step>,
    /// Numbers of the arrays that were asked for.
    pub(crate) outputs: Vec<usize>,
}

/// A node of the graph.
#[derive(Clone)]
pub(crate) struct Step {
    /// The node.
    pub(crate) node: Arc<Node>,
    /// Numbers of its inputs.
    pub(crate) inputs: SmallVec<[usize; 4]>,
    /// Numbers of its outputs.
    pub(crate) outputs: SmallVec<[usize; 1]>,
}

/// A node whose inputs are being visited.
struct Open {
    node: Arc<Node>,
    /// How many of its inputs were visited.
    visited: usize,
    outputs: SmallVec<[usize; 1]>,
}

impl Graph {
    /// What `outputs` are computed from, back to `leaves` and to arrays without a node. It looks at the
    /// nodes under the turn, and holds nothing afterwards.
    pub(crate) fn between(leaves: &[Array], outputs: &[Array]) -> Graph {
        let turn = eval::turn();
        let mut walk = Walk { graph: Graph::default(), numbers: FxHashMap::default(), turn: &turn };
        for leaf in leaves {
            walk.add(leaf.clone());
        }
        for output in outputs {
            walk.visit(output);
        }
        let Walk { mut graph, numbers, .. } = walk;
        graph.outputs = outputs.iter().map(|output| numbers[&Arc::as_ptr(&output.0)]).collect();
        graph
    }

    /// For each value whether a step makes it.
    pub(crate) fn made(&self) -> Vec<bool> {
        self.marked(|step| &step.outputs)
    }

    /// For each value whether a step reads it.
    pub(crate) fn read(&self) -> Vec<bool> {
        self.marked(|step| &step.inputs)
    }

    fn marked<'a, I: IntoIterator<Item = &'a usize>>(
        &'a self,
        of: impl Fn(&'a Step) -> I,
    ) -> Vec<bool> {
        let mut marked = vec![false; self.values.len()];
        self.steps.iter().flat_map(of).for_each(|&value| marked[value] = true);
        marked
    }
}

struct Walk<'a> {
    graph: Graph,
    numbers: FxHashMap<*const Inner, usize>,
    turn: &'a Turn,
}

impl Walk<'_> {
    /// Numbers an array.
    fn add(&mut self, array: Array) -> usize {
        let number = self.graph.values.len();
        self.numbers.insert(Arc::as_ptr(&array.0), number);
        self.graph.values.push(array);
        number
    }

    /// Numbers an array that was not met yet, and its siblings; its node, if it has one.
    fn open(&mut self, array: &Array) -> Option<Open> {
        if self.numbers.contains_key(&Arc::as_ptr(&array.0)) {
            return None;
        }
        // What lies in a file is there already, as a constant is.
        let computed = |node: &&Arc<Node>| !matches!(node.primitive, Primitive::Load(_));
        let Some(node) = array.node_in(self.turn).filter(computed).cloned() else {
            self.add(array.clone());
            return None;
        };
        let outputs = node.outputs(array).into_iter().map(|output| self.add(output)).collect();
        Some(Open { node, visited: 0, outputs })
    }

    /// Adds what `array` is computed from, with a list of open nodes instead of recursion.
    fn visit(&mut self, array: &Array) {
        let mut open: Vec<Open> = self.open(array).into_iter().collect();
        while let Some(last) = open.last_mut() {
            match last.node.inputs.get(last.visited) {
                Some(input) => {
                    last.visited += 1;
                    let input = input.clone();
                    open.extend(self.open(&input));
                }
                None => {
                    let Open { node, outputs, .. } = open.pop().expect("there is a last one");
                    let number = |input: &Array| self.numbers[&Arc::as_ptr(&input.0)];
                    let inputs = node.inputs.iter().map(number).collect();
                    self.graph.steps.push(Step { node, inputs, outputs });
                }
            }
        }
    }
}
