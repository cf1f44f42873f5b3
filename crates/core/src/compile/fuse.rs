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

/// Members of a program.
type Members = HashMap<usize, Member>;

/// A step that a program does.
#[derive(Clone, Copy)]
struct Member {
    /// How far it is from the last step.
    depth: usize,
    /// It is a broadcast that others need as well, so it stays, with all that it reads.
    stays: bool,
}

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
        let mut members = Members::from([(root, Member { depth: 0, stays: false })]);
        let mut candidates: BinaryHeap<usize> = self.makers(root).collect();
        while let Some(step) = candidates.pop() {
            if !members.contains_key(&step)
                && let Some(member) = self.member(step, root, &members)
            {
                members.insert(step, member);
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

    /// A step as a member, if it can be one: then all that read it are.
    fn member(&self, step: usize, root: usize, members: &Members) -> Option<Member> {
        let (candidate, last) = (&self.template.steps[step], &self.template.steps[root]);
        let fits = !self.taken[step]
            && Program::takes(&candidate.primitive)
            && candidate.stream == last.stream
            && (!self.returned[candidate.first]
                || candidate.outputs[0].shape == last.outputs[0].shape);
        let readers = || self.readers[candidate.first].iter().map(|reader| members.get(reader));
        let depth = readers().flatten().map(|reader| reader.depth).max()? + 1;
        let stays = readers().any(|reader| reader.is_none_or(|reader| reader.stays));
        // A broadcast costs nothing to do again.
        let fits = fits && (!stays || Program::is_broadcast(&candidate.primitive));
        (fits && depth <= MOST_DEPTH).then_some(Member { depth, stays })
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
        let is_output = |i: &usize| {
            let value = self.template.steps[order[*i]].first;
            order[*i] == root || (self.returned[value] && !members[&order[*i]].stays)
        };
        let outputs: Vec<usize> = (0..order.len()).filter(is_output).collect();
        for &member in &order {
            self.taken[member] = !members[&member].stays;
        }
        let returns = outputs.iter().map(|&i| order[i]).collect();
        let program = Arc::new(Program { inputs: inputs.len(), steps, outputs });
        self.programs.insert(root, Fused { program, inputs, outputs: returns });
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
