//! Chains: elementwise operations of the tape that one kernel can do together.
//!
//! A chain is a program ([`Program`]) that nobody wrote: nodes of one stream and one shape, of which each
//! reads another one. Compiled functions give the same, because their programs are expanded before the tape
//! is made. What only the chain needs gets no memory.
//!
//! A chain may wait for its last member, so nothing that it reads may depend on what it makes. A node joins
//! the chain of an input if its other inputs do not, which is looked for a few nodes back.

use std::ops::Range;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    Dtype,
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
    /// What they compute, without broadcasts: all values have one shape.
    pub program: Program,
    /// Dtypes of the program's values: inputs, then steps.
    pub dtypes: SmallVec<[Dtype; 16]>,
}

/// The chains of at least two operations among those of `places` that `may` be in one, each place in one at
/// most.
pub fn find(tape: &Tape, places: Range<usize>, may: impl Fn(usize) -> bool) -> Vec<Chain> {
    let mut finder = Finder { tape, of: FxHashMap::default(), chains: Vec::new() };
    for place in places {
        if is_elementwise(&tape.node(place).primitive) && may(place) {
            finder.add(place);
        }
    }
    let long = finder.chains.into_iter().filter(|members| members.len() > 1);
    long.filter_map(|members| chain(tape, members)).collect()
}

/// Whether a primitive can be a step of a chain.
fn is_elementwise(primitive: &Primitive) -> bool {
    Program::takes(primitive) && !Program::is_broadcast(primitive)
}

/// Chains while they grow.
struct Finder<'a> {
    tape: &'a Tape,
    /// The chain of a place.
    of: FxHashMap<usize, usize>,
    /// Places of each chain, ascending; empty once it became part of another.
    chains: Vec<SmallVec<[usize; 16]>>,
}

impl Finder<'_> {
    /// Puts a place into the chain of one of its inputs, or into a new one.
    fn add(&mut self, place: usize) {
        let number = self.chains.len();
        self.chains.push(SmallVec::from_slice(&[place]));
        self.of.insert(place, number);
        for nth in 0..self.tape.node(place).inputs.len() {
            let own = self.of[&place];
            let input = self.tape.input(place, nth);
            let Some(&other) = input.and_then(|input| self.of.get(&input)) else { continue };
            if other != own && self.fit(other, own) {
                self.join(other, own);
            }
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
        let first = self.chains[b][0];
        let inputs = |place: usize| {
            let count = self.tape.node(place).inputs.len();
            (0..count).filter_map(move |nth| self.tape.input(place, nth))
        };
        let is_in = |place: &usize, chain: usize| self.of.get(place) == Some(&chain);
        let outside = |&input: &usize| input > first && !is_in(&input, a) && !is_in(&input, b);
        let mut open: SmallVec<[usize; LOOKED_AT]> = SmallVec::new();
        open.extend(self.chains[a].iter().flat_map(|&place| inputs(place)).filter(outside));
        let mut next = 0;
        while let Some(&place) = open.get(next) {
            for input in inputs(place).filter(|&input| input >= first) {
                if is_in(&input, b) {
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

    fn join(&mut self, from: usize, to: usize) {
        let members = std::mem::take(&mut self.chains[from]);
        self.of.extend(members.iter().map(|&place| (place, to)));
        self.chains[to].extend(members);
        self.chains[to].sort_unstable();
    }
}

/// The chain of these members, if it is not too large.
fn chain(tape: &Tape, members: SmallVec<[usize; 16]>) -> Option<Chain> {
    let mut inputs: SmallVec<[(usize, usize, usize); 8]> = SmallVec::new();
    // For each member what it reads: an input's number, or a member's.
    let mut reads: Vec<SmallVec<[Result<usize, usize>; 3]>> = Vec::with_capacity(members.len());
    let mut inner_uses: SmallVec<[usize; 16]> = SmallVec::from_elem(0, members.len());
    for &place in &members {
        let node = tape.node(place);
        let read = (0..node.inputs.len()).map(|nth| {
            let producer = tape.input(place, nth);
            if let Some(member) = producer.and_then(|p| members.binary_search(&p).ok()) {
                inner_uses[member] += 1;
                return Err(member);
            }
            let array = &node.inputs[nth];
            let known =
                inputs.iter().position(|&(at, i, _)| tape.node(at).inputs[i].is_same(array));
            let number = known.unwrap_or(inputs.len());
            match known {
                Some(number) => inputs[number].2 += 1,
                None => inputs.push((place, nth, 1)),
            }
            Ok(number)
        });
        reads.push(read.collect());
    }
    let is_kept =
        |i: usize| !(tape.is_private(members[i]) && tape.uses(members[i]) == inner_uses[i]);
    let outputs: Vec<usize> = (0..members.len()).filter(|&i| is_kept(i)).collect();
    if inputs.len() > MOST_INPUTS || outputs.len() > MOST_OUTPUTS {
        return None;
    }
    let value = |read: &Result<usize, usize>| read.unwrap_or_else(|member| inputs.len() + member);
    let steps = members.iter().zip(&reads).map(|(&place, read)| ProgramStep {
        primitive: tape.node(place).primitive.clone(),
        inputs: read.iter().map(value).collect(),
    });
    let of_inputs = inputs.iter().map(|&(place, nth, _)| tape.node(place).inputs[nth].dtype());
    let of_members = members.iter().map(|&place| tape.array(place).dtype());
    Some(Chain {
        kept: outputs.iter().map(|&i| members[i]).collect(),
        dtypes: of_inputs.chain(of_members).collect(),
        program: Program { inputs: inputs.len(), steps: steps.collect(), outputs },
        members,
        inputs,
    })
}
