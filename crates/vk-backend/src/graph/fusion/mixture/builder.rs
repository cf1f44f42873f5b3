//! Collects the parts of mixtures in the order of the tape. Those of one token become one group in the end.

use mlx_vulkan_core::{fusion::Group, tape::Tape};
use smallvec::{SmallVec, smallvec};

use super::{
    After, Members, Mixed, Routing, Width, choice, gated, pair, routing, said, summed, token, views,
};
use crate::{
    graph::fusion::{heads::Cursor, inner},
    runtime::device::DeviceState,
};

/// A part of a mixture, by the place of its result, with all nodes that it is made of.
pub(super) struct Part<T> {
    pub(super) result: usize,
    pub(super) members: Members,
    pub(super) of: T,
    /// A second addition to a sum, which only a token's mixture with a shared expert takes.
    pub(super) behind: Option<Behind>,
}

/// An addition, by the place of its result, what is added, and the nodes before it.
pub(super) struct Behind {
    pub(super) result: usize,
    pub(super) addend: Cursor,
    pub(super) members: Members,
}

impl<T> Part<T> {
    fn new(result: usize, (members, of): (Members, T)) -> Self {
        Part { result, members, of, behind: None }
    }
}

/// Sums that something may still be added to: the last few.
const OPEN: usize = 4;

/// The parts so far.
#[derive(Default)]
pub(in crate::graph::fusion) struct Builder {
    routings: Vec<Part<Routing>>,
    gated: Vec<Part<Mixed>>,
    sums: Vec<Part<Mixed>>,
    /// Gates and ups with biases, whatever is made of them.
    pairs: Vec<Group>,
    /// The last addition that may be one of such two.
    open: Option<usize>,
}

impl Builder {
    /// What picks experts, if that ends with the shares at `shares`.
    pub(in crate::graph::fusion) fn route(
        &mut self,
        tape: &Tape,
        shares: usize,
        device: &DeviceState,
    ) {
        self.routings.extend(routing(tape, shares, device).map(|found| Part::new(shares, found)));
    }

    /// `silu(gate) * up` of picked experts, if that is at `result`.
    pub(in crate::graph::fusion) fn gate(
        &mut self,
        tape: &Tape,
        result: usize,
        device: &DeviceState,
    ) {
        self.gated.extend(gated(tape, result, device).map(|found| Part::new(result, found)));
    }

    /// The weighted sum of what picked experts say, if that is at `result`.
    pub(in crate::graph::fusion) fn sum(
        &mut self,
        tape: &Tape,
        result: usize,
        device: &DeviceState,
    ) {
        self.sums.extend(summed(tape, result, device).map(|found| Part::new(result, found)));
    }

    /// What is added to such a sum, or the experts' biases, if that is done at `result`.
    pub(in crate::graph::fusion) fn add(
        &mut self,
        tape: &Tape,
        result: usize,
        device: &DeviceState,
    ) {
        if self.residual(tape, result).is_none() {
            let pair = self.pair(tape, result, device);
            self.pairs.extend(pair);
        }
    }

    /// The conversion of such a sum to the dtype of the rows, if that is at `result`.
    pub(in crate::graph::fusion) fn cast(&mut self, tape: &Tape, result: usize) {
        if self.sums.is_empty() {
            return;
        }
        let mut members = Members::new();
        let at = views(tape, (result, 0), &mut members);
        let Some(end) = inner(tape, at, 1, tape.node(result).stream) else { return };
        let mut recent = self.sums.iter_mut().rev().take(OPEN);
        let Some(sum) = recent.find(|sum| sum.result == end) else { return };
        let rows = tape.array(sum.of.products[0]);
        if sum.of.width == Width::Wide && tape.array(result).dtype() == rows.dtype() {
            sum.of.width = Width::Narrowed;
            sum.members.extend(members);
            sum.members.push(result);
            sum.result = result;
        }
    }

    fn residual(&mut self, tape: &Tape, result: usize) -> Option<()> {
        if self.sums.is_empty() {
            return None;
        }
        let node = tape.node(result);
        [(0, 1), (1, 0)].into_iter().find_map(|(input, other)| {
            let mut members = SmallVec::new();
            let end = inner(tape, views(tape, (result, input), &mut members), 1, node.stream)?;
            let sum = self.sums.iter_mut().rev().take(OPEN).find(|sum| sum.result == end)?;
            let addend = &node.inputs[other];
            let alike = addend.shape() == tape.array(result).shape()
                && addend.dtype() == tape.array(end).dtype()
                && addend.size() == tape.array(end).size();
            let After::Sum(_, more) = &mut sum.of.after else { return None };
            // What is added in float32 is no operand of kernels.
            let takes = alike && sum.of.width != Width::Wide;
            (takes && sum.behind.is_none()).then_some(())?;
            members.push(result);
            if more.is_some() {
                sum.behind = Some(Behind { result, addend: (result, other), members });
                return Some(());
            }
            *more = Some((result, other));
            sum.members.extend(members);
            sum.of.replaces = sum.members.len() as u64;
            sum.result = result;
            Some(())
        })
    }

    fn pair(&mut self, tape: &Tape, end: usize, device: &DeviceState) -> Option<Group> {
        said(tape, end, device, &mut SmallVec::new())?;
        let before = self.open.replace(end)?;
        let (members, mixed) = pair(tape, [before, end], After::Store, device)?;
        self.open = None;
        Some(mixed.group(members, smallvec![before, end]))
    }

    /// The groups. What one token's are made of is in no other one.
    pub(in crate::graph::fusion) fn finish(mut self, tape: &Tape, groups: &mut Vec<Group>) {
        for sum in self.sums {
            let whole = token::join(tape, &sum, &mut self.gated, &mut self.routings);
            if whole.is_none() {
                groups.extend(choice::scored(tape, &sum.of));
            }
            let is_stored = sum.of.width != Width::Wide;
            let alone = || is_stored.then(|| sum.of.group(sum.members, smallvec![sum.result]));
            groups.extend(whole.or_else(alone));
        }
        for Part { result, members, of, .. } in self.gated {
            groups.push(of.group(members, smallvec![result]));
        }
        groups.extend(self.routings.into_iter().map(|routing| choice::group(tape, routing)));
        groups.extend(self.pairs);
    }
}
