//! Nodes at which a graph falls into two parts.
//!
//! What is built behind such a node reads nothing that was built before it, but for the node itself, arrays
//! that the program holds anyway (caches), and those that so many read that all of the graph does (masks).
//! The node needs most of what was built before it, and no group has members in both parts. The end of a
//! transformer's layer is such a node.

use std::{collections::HashMap, sync::Arc};

use super::{Parts, Seen, Sum};
use crate::{fusion::Groups, tape::Tape};

/// Nodes of the first part for who waits for the results: devices have nothing to do until it comes. Further
/// parts are so many times as large as what was before.
const FIRST: usize = 56;
const GROWS: usize = 4;

/// The part of a graph up to which parts are made: the rest takes no longer to build than to begin another.
const UP_TO: f32 = 0.7;

/// Readers of an array from which on it is one that all of the graph reads.
const MANY: usize = 6;

/// Where a part ends: behind so many nodes, with the hash of these.
pub(super) struct Cut {
    pub(super) nodes: usize,
    pub(super) hash: u64,
    /// The groups of what the last of these needs.
    pub(super) up_to: Sum,
}

/// Looks for cuts of a graph that is being evaluated.
pub(in crate::eval) struct Look {
    pub(super) seen: Vec<Seen>,
    pub(super) is_awaited: bool,
    /// Cuts that are passed over before one is taken, because the program held what lies before others.
    pub(super) passed_over: usize,
    pub(super) parts: Arc<Parts>,
}

impl Look {
    /// Looks at a tape that is planned as a whole.
    pub(in crate::eval) fn find(self, tape: &Tape, groups: &Groups) {
        let search = Search::new(&self.seen, tape);
        let cuts = if self.is_awaited {
            search.growing(groups, self.passed_over)
        } else {
            search.middle(groups, self.passed_over)
        };
        *self.parts.cuts.lock() = Some(cuts);
    }
}

/// A range of numbers of nodes.
type Numbers = Option<(usize, usize)>;

fn union(a: Numbers, b: Numbers) -> Numbers {
    match (a, b) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (one, other) => one.or(other),
    }
}

/// A search for where a graph can be cut.
struct Search<'a> {
    seen: &'a [Seen],
    tape: &'a Tape,
    /// Places behind whose node nothing is read that was built before it, by the node's number.
    places: Vec<Option<usize>>,
    /// Of each place, the node's number if it was seen.
    numbers: Vec<Option<usize>>,
}

impl<'a> Search<'a> {
    fn new(seen: &'a [Seen], tape: &'a Tape) -> Self {
        // Where an array was freed, another one may have come to lie: that counts.
        let numbers: HashMap<usize, usize> =
            seen.iter().enumerate().map(|(number, seen)| (seen.array, number)).collect();
        let number_of = |place| numbers.get(&tape.array(place).address()).copied();
        let numbers: Vec<Option<usize>> = (0..tape.len()).map(number_of).collect();
        // Readers of each place. What was not seen (operations of compiled functions) is read by its readers'
        // readers instead.
        let mut readers: Vec<Numbers> = vec![None; tape.len()];
        let mut crossed = vec![0i32; seen.len() + 1];
        let mut places = vec![None; seen.len()];
        for place in (0..tape.len()).rev() {
            let number = numbers[place];
            let reads = number.map_or(readers[place], |number| Some((number, number)));
            for input in tape.inputs(place) {
                readers[input] = union(readers[input], reads);
            }
            let is_free = tape.uses(place) >= MANY || !tape.is_private(place);
            let (Some((first, last)), false) = (readers[place], is_free) else {
                number.into_iter().for_each(|number| places[number] = Some(place));
                continue;
            };
            match number {
                // Cuts behind the node and before its last reader are none.
                Some(number) => {
                    places[number] = Some(place);
                    if number < last {
                        crossed[number + 1] += 1;
                        crossed[last] -= 1;
                    }
                }
                // When it was built is not known: before its first reader.
                None => {
                    crossed[first] += 1;
                    crossed[last] -= 1;
                }
            }
        }
        let mut open = 0;
        for (place, crossed) in places.iter_mut().zip(crossed) {
            open += crossed;
            if open > 0 {
                *place = None;
            }
        }
        Search { seen, tape, places, numbers }
    }

    /// The cut behind a node, if there is one.
    fn cut(&self, number: usize, groups: &Groups) -> Option<Cut> {
        let needed = self.needed((*self.places.get(number)?)?);
        let seen =
            needed.iter().zip(&self.numbers).filter(|(needed, seen)| **needed && seen.is_some());
        if 2 * seen.count() <= number {
            return None;
        }
        let mut up_to = Sum::default();
        for group in groups.all() {
            let inside = group.members.iter().filter(|&&member| needed[member]).count();
            if inside == group.members.len() {
                up_to.add(group.members.iter().copied(), self.tape);
            } else if inside > 0 {
                return None;
            }
        }
        Some(Cut { nodes: number + 1, hash: self.seen[number].hash, up_to })
    }

    /// Which places are needed for the array at one.
    fn needed(&self, end: usize) -> Vec<bool> {
        let mut needed = vec![false; self.tape.len()];
        needed[end] = true;
        for place in (0..=end).rev() {
            if needed[place] {
                self.tape.inputs(place).for_each(|input| needed[input] = true);
            }
        }
        needed
    }

    /// Cuts behind a small part, and behind parts that grow.
    fn growing(&self, groups: &Groups, passed_over: usize) -> Vec<Cut> {
        let last = (self.seen.len() as f32 * UP_TO) as usize;
        let (mut cuts, mut from) = (Vec::new(), FIRST);
        while let Some(cut) =
            (from..last).filter_map(|number| self.cut(number, groups)).nth(passed_over)
        {
            from = GROWS * cut.nodes;
            cuts.push(cut);
        }
        cuts
    }

    /// The cut that is nearest to the middle.
    fn middle(&self, groups: &Groups, passed_over: usize) -> Vec<Cut> {
        let middle = self.seen.len() / 2;
        let near = (0..middle / 2).flat_map(|distance| [middle - distance, middle + distance]);
        near.filter_map(|number| self.cut(number, groups)).skip(passed_over).take(1).collect()
    }
}
