//! Products of the same rows with different matrices, with a gate or a residual after them and, where the
//! rows are few, their biases, the norm of the rows before them, and the sum of a residual and a norm before
//! that.

mod encode;
mod find;

use mlx_vulkan_core::{Dtype, fusion::Group, tape::Tape};
use smallvec::{SmallVec, smallvec};

use super::{
    Grouped,
    bias::Biased,
    gate::{self, Gated},
    inner,
    norms::{self, Summed},
};
use crate::{
    kernels::matvec::{Format, MOST_MATRICES, planner},
    runtime::{capabilities::Fragment, config::Config, device::DeviceState},
};
use find::product_at;
pub(super) use find::{few_rows, packed};

/// What happens to the results, by places on the tape.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Then {
    Store,
    /// The sum with its `other`-th input.
    Add {
        sum: usize,
        other: usize,
    },
    /// One gates the other.
    Gate(Gated),
}

/// The kernels of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Mat-vecs.
    Few,
    /// Several rows, with fragments.
    Several,
    /// Tiles of cooperative matrices, of halves of this dtype.
    Many(Fragment, Dtype),
}

/// Products of the same rows.
#[derive(Debug, Clone)]
struct Products {
    places: SmallVec<[usize; 3]>,
    /// Of each of them, if it has one.
    biases: SmallVec<[Option<Biased>; 3]>,
    way: Way,
    rows: usize,
    inner: usize,
    format: Format,
    sum: Option<Summed>,
    norm: Option<usize>,
    then: Then,
    config: &'static Config,
}

/// Products that may still find others of their rows: those of the last few.
const OPEN: usize = 8;

/// Products of one group; those of a few rows are as many dispatches as their matrices need.
const MOST_PRODUCTS: usize = 2 * MOST_MATRICES;

/// Collects products in the order of the tape.
pub(super) struct Builder {
    found: Vec<Products>,
}

impl Builder {
    /// Without products yet, of a tape of so many places: of a language model's, each seventh is one.
    pub(super) fn new(places: usize) -> Self {
        Builder { found: Vec::with_capacity(places / 4) }
    }

    /// Adds the product at `place`, if the fused kernel serves it: to others of the same rows if there are
    /// any.
    pub(super) fn product(&mut self, tape: &Tape, place: usize, device: &DeviceState) {
        let Some(new) = product_at(tape, place, device) else { return };
        let node = tape.node(place);
        let sibling = self.recent().find(|p| {
            let first = tape.node(p.places[0]);
            device.config.enable_fused_siblings
                && p.then == Then::Store
                && p.places.len() < p.most()
                && (p.way, p.rows, p.inner, p.format) == (new.way, new.rows, new.inner, new.format)
                && first.stream == node.stream
                && first.inputs[0].is_same(&node.inputs[0])
        });
        match sibling {
            Some(products) => {
                products.places.extend(new.places);
                products.biases.extend(new.biases);
            }
            None => self.found.push(new),
        }
    }

    /// The products with the one of which the result is at `end` that have nothing after them yet.
    fn of(&mut self, end: usize) -> Option<&mut Products> {
        self.recent().find(|p| p.then == Then::Store && p.with(end).is_some())
    }

    /// The last products, newest first.
    fn recent(&mut self) -> impl Iterator<Item = &mut Products> {
        self.found.iter_mut().rev().take(OPEN)
    }

    /// `silu(gate) * up`, or with gelu, that ends at `result`.
    pub(super) fn gate(&mut self, tape: &Tape, result: usize) {
        if self.found.is_empty() {
            return;
        }
        let Some((gate, up, mut gated)) = gate::find(tape, result) else { return };
        let has_halves = |p: &&mut Products| {
            p.config.enable_fused_gate && p.places.len() == 1 && p.biases[0].is_none()
        };
        if let Some(product) = gated.take_halves(tape, gate, up) {
            if let Some(products) = self.of(product).filter(has_halves) {
                products.then = Then::Gate(gated);
            }
            return;
        }
        let fits = |p: &&mut Products| {
            p.config.enable_fused_gate && p.places.len() == 2 && p.with(up).is_some()
        };
        if tape.array(gate).shape() == tape.array(up).shape()
            && let Some(products) = self.of(gate).filter(fits)
        {
            if products.with(gate) == Some(1) {
                products.places.swap(0, 1);
                products.biases.swap(0, 1);
            }
            products.then = Then::Gate(gated);
        }
    }

    /// The sum of a product and a bias. Whether it is one, though products of many rows do not take it.
    pub(super) fn bias(&mut self, tape: &Tape, sum: usize) -> bool {
        if self.found.is_empty() {
            return false;
        }
        for (input, other) in [(0, 1), (1, 0)] {
            let Some(product) = inner(tape, (sum, input), 1, tape.node(sum).stream) else {
                continue;
            };
            let Some(products) = self.of(product) else { continue };
            let Some(bias) = Biased::of_sum(tape, sum, other) else { continue };
            products.take(product, bias);
            return true;
        }
        false
    }

    /// The sum of a product, if it is the only one of its rows, and something else.
    pub(super) fn residual(&mut self, tape: &Tape, sum: usize) {
        if self.found.is_empty() {
            return;
        }
        let node = tape.node(sum);
        for (input, other) in [(0, 1), (1, 0)] {
            let Some(product) = inner(tape, (sum, input), 1, node.stream) else { continue };
            let alike = node.inputs[other].shape() == tape.array(product).shape();
            let alone = |p: &&mut Products| p.config.enable_fused_residual && p.places.len() == 1;
            if alike && let Some(products) = self.of(product).filter(alone) {
                products.then = Then::Add { sum, other };
                return;
            }
        }
    }

    /// The groups, with the norms and sums before them, if no other group claims these.
    pub(super) fn finish(
        self,
        tape: &Tape,
        is_claimed: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = Group> {
        let residual = |products: &Products| match products.then {
            Then::Add { sum, .. } => Some(sum),
            _ => None,
        };
        let mut sums: SmallVec<[usize; 64]> = self.found.iter().filter_map(residual).collect();
        self.found.into_iter().filter_map(move |mut products| {
            products.leave(&is_claimed);
            // What is left of products of which another group has some is stored.
            products.part_with(&is_claimed).then_some(())?;
            products.norm = products.norm_before(tape);
            // Several groups may read the same sum, but one makes it.
            let is_free = |found: &Summed| !sums.contains(&found.sum) && !is_claimed(found.sum);
            products.sum = products.sum_before(tape).filter(is_free);
            sums.extend(products.sum.iter().map(|found| found.sum));
            products.group()
        })
    }
}

impl Products {
    /// How many there may be.
    fn most(&self) -> usize {
        if self.way == Way::Few { MOST_PRODUCTS } else { MOST_MATRICES }
    }

    /// The results, of which each is a product's or its sum with a bias.
    fn ends(&self) -> impl Iterator<Item = usize> {
        let both = self.places.iter().zip(&self.biases);
        both.map(|(&place, bias)| bias.as_ref().map_or(place, |bias| bias.sum))
    }

    /// The number of the product of which the result is at `end`.
    fn with(&self, end: usize) -> Option<usize> {
        self.ends().position(|other| other == end)
    }

    /// Adds a bias to the product of which the result is at `end`, if its kernel takes one more.
    fn take(&mut self, end: usize, bias: Biased) {
        let takes = self.config.enable_fused_bias && !matches!(self.way, Way::Many(..));
        let free = self.with(end).filter(|&i| takes && self.biases[i].is_none());
        if let Some(i) = free {
            self.biases[i] = Some(bias);
        }
    }

    /// Leaves biases to other groups that claim their sums, with all that follows the products.
    fn leave(&mut self, is_claimed: impl Fn(usize) -> bool) {
        for (bias, &product) in self.biases.iter_mut().zip(&self.places) {
            // An `addmm` is its own sum.
            let leaves = |bias: &mut Biased| bias.sum != product && bias.members().any(&is_claimed);
            if bias.take_if(leaves).is_some() {
                self.then = Then::Store;
            }
        }
    }

    /// Takes out products that other groups claim, with what follows them all. Whether there are any left.
    fn part_with(&mut self, is_claimed: impl Fn(usize) -> bool) -> bool {
        if self.places.iter().any(|&place| is_claimed(place)) {
            self.then = Then::Store;
            let both = self.places.iter().copied().zip(std::mem::take(&mut self.biases));
            let left = both.filter(|&(place, _)| !is_claimed(place));
            (self.places, self.biases) = left.unzip();
        }
        !self.places.is_empty()
    }

    /// The biases that there are.
    fn added(&self) -> impl Iterator<Item = &Biased> {
        self.biases.iter().flatten()
    }

    /// The norm of the rows, if nobody else wants it.
    fn norm_before(&self, tape: &Tape) -> Option<usize> {
        if self.way != Way::Few || !self.config.enable_fused_norm {
            return None;
        }
        let stream = tape.node(self.places[0]).stream;
        let norm = inner(tape, (self.places[0], 0), self.places.len(), stream)?;
        norms::input_of(tape, norm, self.format.dtype).map(|_| norm)
    }

    /// The sum that the rows are, if it is one of a residual and of what a norm makes of an array alike, or
    /// the norm that it shares with others.
    fn sum_before(&self, tape: &Tape) -> Option<Summed> {
        // Norms of both take shared memory for each row.
        let serves = self.way == Way::Few && 2 * self.rows <= planner::MOST_ROWS;
        if !serves || !self.config.enable_fused_norm {
            return None;
        }
        let (from, uses) = match self.norm {
            Some(norm) => (norm, 1),
            None => (self.places[0], self.places.len()),
        };
        let dtype = self.format.dtype;
        let found = Summed::before(tape, from, uses, [self.rows, self.inner], dtype);
        // One product with a norm that is made anyway gains little, and has no cooperative matrices then.
        let is_shared = self.rows == 1 && self.norm.is_none() && self.places.len() > 1;
        let shared = || Summed::shared(tape, self.places[0], self.inner, dtype);
        let found = found.or_else(|| shared().filter(|_| is_shared))?;
        // What is added behind the product may be made of the sum, which is not there before it.
        let adds = matches!(self.then, Then::Add { .. });
        let adds = adds || self.added().any(|bias| bias.is_lazy(tape));
        (!found.is_kept || !adds).then_some(found)
    }

    fn group(self) -> Option<Group> {
        let mut members: SmallVec<[usize; 16]> = self.places.iter().copied().collect();
        members.extend(self.added().flat_map(Biased::members));
        members.extend(self.norm);
        members.extend(self.sum.iter().flat_map(|found| found.members()));
        let mut kept: SmallVec<[usize; 3]> = match &self.then {
            Then::Store => self.ends().collect(),
            &Then::Add { sum, .. } => {
                members.push(sum);
                smallvec![sum]
            }
            Then::Gate(gated) => {
                members.extend(gated.members());
                smallvec![gated.result]
            }
        };
        kept.extend(self.sum.filter(|found| found.is_kept).map(|found| found.sum));
        (members.len() > 1).then(|| Group { members, kept, fusion: Box::new(Grouped(self)) })
    }
}
