//! Groups of nodes that a backend evaluates at once, and the order that they are evaluated in.
//!
//! Before an evaluation begins, a backend may look at the tape
//! ([`crate::backend::Backend::plan`]) and claim groups of nodes that one of its kernels does
//! together. What is only needed inside of a group never gets memory.

use smallvec::SmallVec;

use crate::{
    Result, Stream,
    backend::{Encoded, Output},
    tape::Tape,
};

/// Encodes a group.
pub trait Fusion {
    /// Encodes the work of a group whose members are still on the tape and whose outer inputs are
    /// evaluated, and sets the data of the results that it keeps, in the group's order. Nothing
    /// when the inputs do not lie as the kernel needs them: then the members are evaluated one by one.
    ///
    /// # Errors
    /// When memory or the device fails.
    fn eval(&self, stream: Stream, tape: &Tape, kept: &mut [Output]) -> Result<Option<Encoded>>;
}

/// Nodes of one stream that are evaluated at once.
pub struct Group {
    /// Their places on the tape. One with several outputs may be among them if the group alone needs them.
    pub members: SmallVec<[usize; 16]>,
    /// Those whose results somebody else needs. Of a node with several outputs all are kept, in their order.
    /// All other members are [private](Tape::is_private), and only members read them.
    pub kept: SmallVec<[usize; 3]>,
    /// How.
    pub fusion: Box<dyn Fusion>,
}

/// Who evaluates which place of a tape.
pub(crate) struct Groups {
    claims: Vec<Claim>,
    /// What each place is to groups. Empty while there are none.
    of: Vec<Part>,
    places: usize,
}

/// A group that stays.
struct Claim {
    group: Group,
    /// The last member.
    last: usize,
    /// Its evaluation has begun: nothing waits for it any more.
    begun: bool,
}

/// What a place is to groups.
#[derive(Clone, Copy)]
enum Part {
    None,
    /// Nobody but the members of this group reads it.
    Inner(u32),
    Kept(u32),
}

impl Groups {
    /// None yet, of a tape of so many places.
    pub(crate) fn new(places: usize) -> Groups {
        Groups { claims: Vec::new(), of: Vec::new(), places }
    }

    /// Adds groups. Of those that share a member, the first one stays.
    pub(crate) fn add(&mut self, groups: Vec<Group>) {
        let Groups { claims, of, places } = self;
        if !groups.is_empty() {
            of.resize(*places, Part::None);
        }
        claims.reserve(groups.len());
        for group in groups {
            if !group.members.iter().all(|&place| matches!(of[place], Part::None)) {
                continue;
            }
            let (number, mut last) = (claims.len() as u32, 0);
            for &place in &group.members {
                of[place] = Part::Inner(number);
                last = last.max(place);
            }
            group.kept.iter().for_each(|&place| of[place] = Part::Kept(number));
            claims.push(Claim { group, last, begun: false });
        }
    }

    /// Whether nothing is to be done when the evaluation comes to `place`: it waits for later members of
    /// its group, or is evaluated only if the group needs it.
    pub(crate) fn sees_to(&self, place: usize) -> bool {
        let waits = |group: u32| {
            let claim = &self.claims[group as usize];
            !claim.begun && claim.last > place
        };
        match self.of.get(place) {
            None | Some(Part::None) => false,
            Some(&Part::Inner(group)) => self.claims[group as usize].begun || waits(group),
            Some(&Part::Kept(group)) => waits(group),
        }
    }

    /// The number of the group of `place`, unless its evaluation has begun; now it has.
    pub(crate) fn begin(&mut self, place: usize) -> Option<usize> {
        let (Part::Inner(group) | Part::Kept(group)) = *self.of.get(place)? else { return None };
        let claim = &mut self.claims[group as usize];
        (!std::mem::replace(&mut claim.begun, true)).then_some(group as usize)
    }

    /// Whether `place` is a member of the group of this number.
    pub(crate) fn has(&self, number: usize, place: usize) -> bool {
        let of = self.of.get(place);
        of.is_some_and(
            |part| matches!(*part, Part::Inner(g) | Part::Kept(g) if g as usize == number),
        )
    }

    /// All groups that stay.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Group> {
        self.claims.iter().map(|claim| &claim.group)
    }

    /// The group of this number.
    pub(crate) fn get(&self, number: usize) -> &Group {
        &self.claims[number].group
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
        fn eval(&self, _: Stream, _: &Tape, _: &mut [Output]) -> Result<Option<Encoded>> {
            Ok(None)
        }
    }

    const PLACES: usize = 24;

    fn members() -> impl Strategy<Value = Vec<Vec<usize>>> {
        let group = prop::collection::btree_set(0..PLACES, 1..6);
        prop::collection::vec(group.prop_map(Vec::from_iter), 0..8)
    }

    proptest! {
        #![proptest_config(cases())]

        /// Against a list of the groups that share nothing with those before them. Of each the last
        /// member is kept.
        #[test]
        fn a_place_waits_for_the_last_member_of_its_group(
            groups in members(),
            order in Just(Vec::from_iter(0..PLACES)).prop_shuffle(),
        ) {
            let mut claimed: Vec<(Vec<usize>, bool)> = Vec::new();
            for group in &groups {
                if claimed.iter().flat_map(|(members, _)| members).all(|place| !group.contains(place)) {
                    claimed.push((group.clone(), false));
                }
            }
            let made = groups.iter().map(|members| Group {
                members: members.iter().copied().collect(),
                kept: members.last().copied().into_iter().collect(),
                fusion: Box::new(Nothing),
            });
            let mut got = Groups::new(PLACES);
            got.add(made.collect());
            // Evaluation goes by demand: places come in any order.
            for place in order {
                let group = claimed.iter_mut().find(|(members, _)| members.contains(&place));
                // An inner place is never evaluated for its own sake, a kept one once the group is done.
                let inner = group.as_ref().is_some_and(|(members, _)| members.last() != Some(&place));
                prop_assert_eq!(got.sees_to(place), inner, "{}", place);
                let begins = group.filter(|(_, begun)| !begun).map(|(members, begun)| {
                    *begun = true;
                    members.clone()
                });
                let number = got.begin(place);
                let members = number.map(|number| got.get(number).members.to_vec());
                prop_assert_eq!(members, begins, "{}", place);
            }
            prop_assert!((0..PLACES).all(|place| got.begin(place).is_none()));
        }
    }
}
