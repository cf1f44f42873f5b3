//! Chains: elementwise operations of the tape that one kernel can do together.
//!
//! A chain is a program ([`Program`]) that nobody wrote: nodes of one stream and one shape, of which each
//! reads another one. Compiled functions give the same, because their programs are expanded before the tape
//! is made. What only the chain needs gets no memory.
//!
//! A chain may wait for its last member, so nothing that it reads may depend on what it makes. A node joins
//! the chain of an input if its other inputs do not, which is looked for a few nodes back.

use std::ops::Range;

use smallvec::SmallVec;

use crate::{
    Array, Dtype,
    primitives::{Primitive, Program, ProgramStep},
    tape::Tape,
};

/// Operations of a chain at most: longer kernels run out of registers.
const MOST_STEPS: usize = 48;
/// Arrays that a chain reads, and makes, at most.
const MOST_INPUTS: usize = 24;
const MOST_OUTPUTS: usize = 8;
/// Nodes that are looked at to find out whether something depends on a chain.
const LOOKED_AT: usize = 64;

/// Elementwise nodes of a tape that can be done together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Their places, ascending.
    pub members: SmallVec<[usize; 16]>,
    /// Those whose results are needed by others, the program's outputs in order.
    pub kept: SmallVec<[usize; 3]>,
    /// The program's inputs, each by a member that reads it (its place, and which of its inputs it is), and
    /// how often members read it.
    pub inputs: SmallVec<[(usize, usize, usize); 8]>,
    /// What they compute, without broadcasts: all values have one shape. Members that compute the same are
    /// one step.
    pub program: Program,
    /// Dtypes of the program's values: inputs, then steps.
    pub dtypes: SmallVec<[Dtype; 16]>,
}

/// The chains of at least two operations, or of one that may be `alone`, among those of `places` that `may`
/// be in one, each place in one at most, in the order of their last members.
pub fn find(
    tape: &Tape,
    places: Range<usize>,
    may: impl Fn(usize) -> bool,
    alone: impl Fn(usize) -> bool,
) -> Vec<Chain> {
    let of = vec![NONE; places.len()];
    let mut finder = Finder { tape, first: places.start, of, chains: Vec::new() };
    for place in places {
        if is_elementwise(&tape.node(place).primitive) && may(place) {
            finder.add(place);
        }
    }
    let Finder { chains: found, .. } = finder;
    let mut chains = Vec::with_capacity(found.len());
    found.iter().for_each(|members| add_chains(tape, members, &alone, &mut chains));
    chains.sort_unstable_by_key(Chain::name);
    chains
}

/// Adds the chain of members, in parts if it is too large: the later ones read what the earlier ones make.
fn add_chains(
    tape: &Tape,
    members: &[usize],
    alone: &impl Fn(usize) -> bool,
    chains: &mut Vec<Chain>,
) {
    match members {
        [] => {}
        &[one] if !alone(one) => {}
        _ => match chain(tape, members) {
            Some(chain) => chains.push(chain),
            None if members.len() == 1 => {}
            None => {
                let (earlier, later) = members.split_at(members.len() / 2);
                add_chains(tape, earlier, alone, chains);
                add_chains(tape, later, alone, chains);
            }
        },
    }
}

/// Whether a primitive can be a step of a chain.
pub(crate) fn is_elementwise(primitive: &Primitive) -> bool {
    Program::takes(primitive) && !Program::is_broadcast(primitive)
}

/// Instead of the chain of a place that is in none.
const NONE: u32 = u32::MAX;

/// Chains while they grow.
struct Finder<'a> {
    tape: &'a Tape,
    /// The first place that may be in a chain.
    first: usize,
    /// The chain of each place from there on.
    of: Vec<u32>,
    /// Places of each chain, ascending; empty once it became part of another.
    chains: Vec<SmallVec<[usize; 16]>>,
}

impl Finder<'_> {
    /// The chain of a place.
    fn of(&self, place: usize) -> Option<usize> {
        let &number = self.of.get(place.checked_sub(self.first)?)?;
        (number != NONE).then_some(number as usize)
    }

    /// Puts a place into the chain of one of its inputs, or into a new one.
    fn add(&mut self, place: usize) {
        let (new, tape) = (self.chains.len(), self.tape);
        self.chains.push(SmallVec::from_slice(&[place]));
        self.of[place - self.first] = new as u32;
        let mut own = new;
        for input in tape.inputs(place) {
            let Some(other) = self.of(input) else { continue };
            if other != own && self.fit(other, own) {
                own = self.join(other, own);
            }
        }
        if own != new {
            self.chains.truncate(new);
        }
    }

    /// Whether two chains can be one.
    fn fit(&self, a: usize, b: usize) -> bool {
        let (first, second) = (self.chains[a][0], self.chains[b][0]);
        self.chains[a].len() + self.chains[b].len() <= MOST_STEPS
            && self.tape.node(first).stream == self.tape.node(second).stream
            && self.tape.array(first).shape() == self.tape.array(second).shape()
            && !self.depends(a, b)
            && !self.depends(b, a)
    }

    /// Whether something outside of both chains that the chain `a` reads depends on the chain `b`. Yes if
    /// that is far away.
    fn depends(&self, a: usize, b: usize) -> bool {
        let (first, chain) = (self.chains[b][0], &self.chains[a]);
        if chain.last().is_none_or(|&last| last < first) {
            return false;
        }
        let is_in = |place: usize, chain: usize| self.of(place) == Some(chain);
        let outside = |&input: &usize| input > first && !is_in(input, a) && !is_in(input, b);
        let mut open: SmallVec<[usize; LOOKED_AT]> = SmallVec::new();
        for &place in chain.iter().filter(|&&place| place > first) {
            self.tape.inputs(place).filter(outside).for_each(|input| open.push(input));
        }
        let mut next = 0;
        while let Some(&place) = open.get(next) {
            for input in self.tape.inputs(place).filter(|&input| input >= first) {
                if is_in(input, b) {
                    return true;
                }
                if !open.contains(&input) {
                    open.push(input);
                }
            }
            next += 1;
            if open.len() >= LOOKED_AT {
                return true;
            }
        }
        false
    }

    /// Makes two chains one: which of them.
    fn join(&mut self, a: usize, b: usize) -> usize {
        let is_less = self.chains[a].len() < self.chains[b].len();
        let (from, to) = if is_less { (a, b) } else { (b, a) };
        let members = std::mem::take(&mut self.chains[from]);
        members.iter().for_each(|&place| self.of[place - self.first] = to as u32);
        self.chains[to].extend_from_slice(&members);
        self.chains[to].sort_unstable();
        to
    }
}

impl Chain {
    /// The place that stands for it, its last member's.
    pub fn name(&self) -> usize {
        *self.members.last().expect("a chain has members")
    }

    /// How often members read the member at a place.
    pub fn reads(&self, tape: &Tape, place: usize) -> usize {
        let read = self.members.iter().flat_map(|&member| tape.inputs(member));
        read.filter(|&read| read == place).count()
    }
}

/// The chain of these members, if it is not too large.
fn chain(tape: &Tape, members: &[usize]) -> Option<Chain> {
    let kept = kept(tape, members);
    if kept.len() > MOST_OUTPUTS {
        return None;
    }
    let mut maker = Maker {
        tape,
        inputs: SmallVec::new(),
        arrays: SmallVec::new(),
        reads: SmallVec::new(),
        steps: SmallVec::new(),
        step_of: SmallVec::new(),
    };
    members.iter().for_each(|&place| maker.add(members, place, kept.contains(&place)));
    let Maker { inputs, arrays, reads, steps, step_of, .. } = maker;
    if inputs.len() > MOST_INPUTS {
        return None;
    }
    let value = |read: &Read| match *read {
        Read::Input(number) => number,
        Read::Step(step) => inputs.len() + step,
    };
    let of_steps = steps.iter().map(|step| tape.array(step.place).dtype());
    let dtypes = arrays.iter().map(|array| array.dtype()).chain(of_steps).collect();
    let of_kept = members.iter().zip(step_of).filter(|(place, _)| kept.contains(place));
    let outputs = of_kept.map(|(_, step)| step).collect();
    let steps = steps.iter().map(|step| ProgramStep {
        primitive: tape.node(step.place).primitive.clone(),
        inputs: reads[step.reads.clone()].iter().map(value).collect(),
    });
    let program = Program { inputs: inputs.len(), steps: steps.collect(), outputs };
    Some(Chain { members: members.into(), kept, inputs, program, dtypes })
}

/// Those of the members that others read or may see.
fn kept(tape: &Tape, members: &[usize]) -> SmallVec<[usize; 3]> {
    let mut inner_uses: SmallVec<[usize; 16]> = SmallVec::from_elem(0, members.len());
    for input in members.iter().flat_map(|&place| tape.inputs(place)) {
        if let Ok(member) = members.binary_search(&input) {
            inner_uses[member] += 1;
        }
    }
    let uses = members.iter().zip(inner_uses);
    let kept =
        uses.filter(|&(&place, inner)| !(tape.is_private(place) && tape.uses(place) == inner));
    kept.map(|(&place, _)| place).collect()
}

/// What a step of a chain reads, by its number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    Input(usize),
    Step(usize),
}

/// A step of a chain in the making.
struct Step {
    /// The first member that computes it.
    place: usize,
    /// Where what it reads is.
    reads: Range<usize>,
    is_output: bool,
}

/// A chain in the making.
struct Maker<'a> {
    tape: &'a Tape,
    /// As of [`Chain`], and the arrays that they are.
    inputs: SmallVec<[(usize, usize, usize); 8]>,
    arrays: SmallVec<[&'a Array; 8]>,
    /// What all steps read, one after the other.
    reads: SmallVec<[Read; 32]>,
    steps: SmallVec<[Step; 16]>,
    /// The step of each member that was added.
    step_of: SmallVec<[usize; 16]>,
}

impl<'a> Maker<'a> {
    /// Adds a member, which is a step of its own unless another one computes the same. Nobody stores a step
    /// twice.
    fn add(&mut self, members: &[usize], place: usize, is_kept: bool) {
        let (tape, first) = (self.tape, self.reads.len());
        for (nth, array) in tape.node(place).inputs.iter().enumerate() {
            let member = tape.input(place, nth).and_then(|p| members.binary_search(&p).ok());
            let read = match member {
                Some(member) => Read::Step(self.step_of[member]),
                None => Read::Input(self.input(array, place, nth)),
            };
            self.reads.push(read);
        }
        let is_same = |step: &Step| {
            self.reads[step.reads.clone()] == self.reads[first..]
                && !(is_kept && step.is_output)
                && tape.node(step.place).primitive == tape.node(place).primitive
        };
        let same = self.steps.iter().position(is_same);
        self.step_of.push(same.unwrap_or(self.steps.len()));
        match same {
            Some(step) => {
                self.reads.truncate(first);
                self.steps[step].is_output |= is_kept;
            }
            None => {
                let reads = first..self.reads.len();
                self.steps.push(Step { place, reads, is_output: is_kept });
            }
        }
    }

    /// The number of an input, which the member at a place reads as its `nth`.
    fn input(&mut self, array: &'a Array, place: usize, nth: usize) -> usize {
        let known = self.arrays.iter().position(|known| known.is_same(array));
        let number = known.unwrap_or(self.arrays.len());
        match known {
            Some(number) => self.inputs[number].2 += 1,
            None => {
                self.inputs.push((place, nth, 1));
                self.arrays.push(array);
            }
        }
        number
    }
}
