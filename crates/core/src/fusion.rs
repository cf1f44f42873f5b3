//! Groups of nodes that a backend evaluates at once, and the order that they are evaluated in.
//!
//! Before an evaluation begins, a backend may look at the tape
//! ([`crate::backend::Backend::plan`]) and claim groups of nodes that one of its kernels does
//! together. What is only needed inside of a group never gets memory.

use smallvec::SmallVec;

use crate::{Result, Stream, backend::Output, tape::Tape};

/// Encodes a group.
pub trait Fusion {
    /// Encodes the work of a group whose members are still on the tape and whose outer inputs are
    /// evaluated, and sets the data of the results that it keeps, in the group's order. `false`
    /// when the inputs do not lie as the kernel needs them: then the members are evaluated one by one.
    ///
    /// # Errors
    /// When memory or the device fails.
    fn eval(&self, stream: Stream, tape: &Tape, kept: &mut [Output]) -> Result<bool>;
}

/// Nodes of one stream that are evaluated at once.
pub struct Group {
    /// Their places on the tape. One with several outputs may be among them if the group alone needs them.
    pub members: SmallVec<[usize; 16]>,
    /// Those whose results somebody else needs, nodes with one output.
    pub kept: SmallVec<[usize; 3]>,
    /// How.
    pub fusion: Box<dyn Fusion>,
}

/// Who evaluates which place of a tape.
pub(crate) struct Groups {
    groups: Vec<Option<Group>>,
    /// The last member of each.
    last: Vec<usize>,
    /// The group of each place, counted from 1; 0 for none. Empty when there are no groups.
    of: Vec<u32>,
}

impl Groups {
    /// Of groups that share a member, the first one stays.
    pub(crate) fn new(groups: Vec<Group>, places: usize) -> Groups {
        let mut of = vec![0; if groups.is_empty() { 0 } else { places }];
        let mut last = vec![0; groups.len()];
        let mut kept = Vec::with_capacity(groups.len());
        for (i, group) in groups.into_iter().enumerate() {
            let free = group.members.iter().all(|&place| of[place] == 0);
            if free {
                for &place in &group.members {
                    of[place] = i as u32 + 1;
                    last[i] = last[i].max(place);
                }
            }
            kept.push(free.then_some(group));
        }
        Groups { groups: kept, last, of }
    }

    fn index(&self, place: usize) -> Option<usize> {
        self.of.get(place)?.checked_sub(1).map(|group| group as usize)
    }

    /// Whether `place` waits for later members of its group.
    pub(crate) fn waits(&self, place: usize) -> bool {
        self.index(place).is_some_and(|i| self.last[i] > place && self.groups[i].is_some())
    }

    /// Takes the group of `place` to evaluate it; nothing waits for it any more.
    pub(crate) fn take(&mut self, place: usize) -> Option<Group> {
        let i = self.index(place)?;
        self.groups[i].take()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::shape::tests::cases;

    /// A group that nobody evaluates.
    struct Nothing;

    impl Fusion for Nothing {
        fn eval(&self, _: Stream, _: &Tape, _: &mut [Output]) -> Result<bool> {
            Ok(false)
        }
    }

    const PLACES: usize = 24;

    fn members() -> impl Strategy<Value = Vec<Vec<usize>>> {
        let group = prop::collection::btree_set(0..PLACES, 1..6);
        prop::collection::vec(group.prop_map(Vec::from_iter), 0..8)
    }

    proptest! {
        #![proptest_config(cases())]

        /// Against a list of the groups that share nothing with those before them.
        #[test]
        fn a_place_waits_for_the_last_member_of_its_group(
            groups in members(),
            order in Just(Vec::from_iter(0..PLACES)).prop_shuffle(),
        ) {
            let mut free: Vec<Vec<usize>> = Vec::new();
            for group in &groups {
                if free.iter().flatten().all(|place| !group.contains(place)) {
                    free.push(group.clone());
                }
            }
            let made = groups.iter().map(|members| Group {
                members: members.iter().copied().collect(),
                kept: SmallVec::new(),
                fusion: Box::new(Nothing),
            });
            let mut got = Groups::new(made.collect(), PLACES);
            // Evaluation goes by demand: places come in any order.
            for place in order {
                let at = free.iter().position(|group| group.contains(&place));
                let waits = at.is_some_and(|i| free[i].iter().any(|&member| member > place));
                prop_assert_eq!(got.waits(place), waits, "{}", place);
                if !waits {
                    let group = at.map(|i| free.remove(i));
                    prop_assert_eq!(got.take(place).map(|g| g.members.to_vec()), group, "{}", place);
                }
            }
            prop_assert!((0..PLACES).all(|place| !got.waits(place) && got.take(place).is_none()));
        }
    }
}
