//! Elementwise steps of a template become programs.

use std::{
    collections::{BinaryHeap, HashMap},
    sync::Arc,
};

use smallvec::SmallVec;

use super::template::{Step, Template};
use crate::primitives::{Program, ProgramStep};

/// How far a step may be from the last one of its program.
const MOST_DEPTH: usize = 10;

/// How many arrays a program may read.
const MOST_INPUTS: usize = 23;

/// A template in which what can be done together is one step.
pub(super) fn fuse(template: Template) -> Template {
    let mut fusing = Fusing::new(template);
    for root in (0..fusing.template.steps.len()).rev() {
        if !fusing.taken[root] && fusing.begins(root) {
            let members = fusing.members(root);
            if members.len() > 1 {
                fusing.replace(root, &members);
            }
        }
    }
    fusing.end()
}

struct Fusing {
    template: Template,
    /// The steps that read each value.
    readers: Vec<SmallVec<[usize; 2]>>,
    returned: Vec<bool>,
    /// The step that makes each value, if one does.
    maker: Vec<Option<usize>>,
    /// Steps that became part of a program.
    taken: Vec<bool>,
    /// The programs by their last steps.
    programs: HashMap<usize, Fused>,
}

/// A program of a template.
struct Fused {
    program: Arc<Program>,
    /// The values that it reads.
    inputs: SmallVec<[usize; 4]>,
    /// The steps whose values it returns.
    outputs: SmallVec<[usize; 1]>,
}

/// Members of a program with their distance from its last step.
type Members = HashMap<usize, usize>;

impl Fusing {
    fn new(template: Template) -> Self {
        let mut readers = vec![SmallVec::new(); template.values()];
        let mut maker = vec![None; template.values()];
        for (i, step) in template.steps.iter().enumerate() {
            step.inputs.iter().for_each(|&input| readers[input].push(i));
            step.values().for_each(|value| maker[value] = Some(i));
        }
        let (returned, taken) = (template.returned(), vec![false; template.steps.len()]);
        Fusing { template, readers, returned, maker, taken, programs: HashMap::new() }
    }

    /// Whether a program can end with a step. A broadcast would be written out.
    fn begins(&self, step: usize) -> bool {
        let primitive = &self.template.steps[step].primitive;
        Program::takes(primitive) && !Program::is_broadcast(primitive)
    }

    /// The steps that can be done together with `root`, which is the last one. Candidates come in descending
    /// order: when one's turn comes, all that read it have had theirs.
    fn members(&self, root: usize) -> Members {
        let mut members = Members::from([(root, 0)]);
        let mut candidates: BinaryHeap<usize> = self.makers(root).collect();
        while let Some(step) = candidates.pop() {
            if !members.contains_key(&step)
                && let Some(depth) = self.depth(step, root, &members)
            {
                members.insert(step, depth);
                if self.inputs(&members) > MOST_INPUTS {
                    members.remove(&step);
                } else {
                    candidates.extend(self.makers(step));
                }
            }
        }
        members
    }

    /// The steps whose results a step reads.
    fn makers(&self, step: usize) -> impl Iterator<Item = usize> {
        self.template.steps[step].inputs.iter().filter_map(|&input| self.maker[input])
    }

    /// How far a step would be from the root, if it can be a member.
    fn depth(&self, step: usize, root: usize, members: &Members) -> Option<usize> {
        let (candidate, last) = (&self.template.steps[step], &self.template.steps[root]);
        let fits = !self.taken[step]
            && Program::takes(&candidate.primitive)
            && candidate.stream == last.stream
            && (!self.returned[candidate.first]
                || candidate.outputs[0].shape == last.outputs[0].shape);
        let distances = || self.readers[candidate.first].iter().map(|reader| members.get(reader));
        // A broadcast costs nothing to do again where others need it too.
        let all_inside =
            Program::is_broadcast(&candidate.primitive) || distances().all(|d| d.is_some());
        let depth = distances().flatten().max()? + 1;
        (fits && all_inside && depth <= MOST_DEPTH).then_some(depth)
    }

    /// How many values members read that no member makes.
    fn inputs(&self, members: &Members) -> usize {
        let read = members.keys().flat_map(|&member| &self.template.steps[member].inputs);
        let inside =
            |value: usize| self.maker[value].is_some_and(|maker| members.contains_key(&maker));
        let mut outside: Vec<usize> = read.copied().filter(|&value| !inside(value)).collect();
        outside.sort_unstable();
        outside.dedup();
        outside.len()
    }

    /// Puts a program in the place of `root`.
    fn replace(&mut self, root: usize, members: &Members) {
        let mut writing =
            Writing { fusing: self, members, inputs: SmallVec::new(), order: Vec::new() };
        writing.write(root);
        let Writing { inputs, order, .. } = writing;
        let position = |step: usize| order.iter().position(|&member| member == step);
        let value_of = |value: usize| match self.maker[value].and_then(position) {
            Some(step) => inputs.len() + step,
            None => inputs.iter().position(|&input| input == value).expect("it was met"),
        };
        let step = |&member: &usize| {
            let Step { primitive, inputs, .. } = &self.template.steps[member];
            let inputs = inputs.iter().map(|&value| value_of(value)).collect();
            ProgramStep { primitive: primitive.clone(), inputs }
        };
        let steps = order.iter().map(step).collect();
        let is_private: Vec<bool> =
            order.iter().map(|&member| self.is_private(member, members)).collect();
        let is_output = |i: &usize| {
            let value = self.template.steps[order[*i]].first;
            order[*i] == root || (self.returned[value] && is_private[*i])
        };
        let outputs: Vec<usize> = (0..order.len()).filter(is_output).collect();
        for (&member, is_private) in order.iter().zip(is_private) {
            self.taken[member] = is_private || member == root;
        }
        let returns = outputs.iter().map(|&i| order[i]).collect();
        let program = Arc::new(Program { inputs: inputs.len(), steps, outputs });
        self.programs.insert(root, Fused { program, inputs, outputs: returns });
    }

    /// Whether nobody but members reads what a member makes.
    fn is_private(&self, member: usize, members: &Members) -> bool {
        let value = self.template.steps[member].first;
        self.readers[value].iter().all(|reader| members.contains_key(reader))
    }

    /// The template with programs instead of their members, counted anew.
    fn end(mut self) -> Template {
        let mut numbers: Vec<usize> = (0..self.template.values()).collect();
        let mut next = self.template.first_made();
        let mut steps = Vec::new();
        for (i, step) in self.template.steps.iter().enumerate() {
            let (step, values): (Step, SmallVec<[usize; 1]>) = match self.programs.remove(&i) {
                Some(Fused { program, inputs, outputs }) => {
                    let of = |&member: &usize| self.template.steps[member].outputs[0].clone();
                    let values = outputs.iter().map(|&member| self.template.steps[member].first);
                    let (specs, stream) = (outputs.iter().map(of).collect(), step.stream);
                    let primitive = program.into();
                    (
                        Step {
                            primitive,
                            stream,
                            inputs,
                            outputs: specs,
                            first: next,
                            fixed: None,
                        },
                        values.collect(),
                    )
                }
                None if self.taken[i] => continue,
                None => (Step { first: next, ..step.clone() }, step.values().collect()),
            };
            next = step.values().end;
            values.iter().zip(step.values()).for_each(|(&old, new)| numbers[old] = new);
            steps.push(step);
        }
        for step in &mut steps {
            step.inputs.iter_mut().for_each(|input| *input = numbers[*input]);
        }
        self.template.outputs.iter_mut().for_each(|output| *output = numbers[*output]);
        Template { steps, ..self.template }
    }
}

/// The order in which a program does its steps, and what it reads.
struct Writing<'a> {
    fusing: &'a Fusing,
    members: &'a Members,
    inputs: SmallVec<[usize; 4]>,
    order: Vec<usize>,
}

impl Writing<'_> {
    /// Writes a step behind those that it reads; no deeper than a program is.
    fn write(&mut self, step: usize) {
        if self.order.contains(&step) {
            return;
        }
        for &value in &self.fusing.template.steps[step].inputs {
            match self.fusing.maker[value].filter(|maker| self.members.contains_key(maker)) {
                Some(maker) => self.write(maker),
                None if self.inputs.contains(&value) => {}
                None => self.inputs.push(value),
            }
        }
        self.order.push(step);
    }
}
