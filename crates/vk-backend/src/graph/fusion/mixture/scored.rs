//! Experts that are picked by scores, which are sigmoids of the router's logits, as DeepSeek-V3 and many
//! after it do: a number of each expert may be added to its score while experts are picked; shares are the
//! scores, divided by their sum or not, times a factor.

use mlx_vulkan_core::{
    Array, Dtype, Result,
    graph::Node,
    primitives::{BinaryOp, CopyOp, IndexingOp, Primitive, UnaryOp},
    tape::Tape,
};

use super::{Members, Routing, divided, is_float, ordered, routes};
use crate::{
    graph::fusion::{
        bias,
        gate::{constant_beside, does},
        heads::{Cursor, input},
        inner,
        operands::dense,
        widens,
    },
    kernels::{Ctx, Region, mixture::Scores},
    runtime::device::DeviceState,
};

/// How scores and shares are made, by places on the tape.
pub(super) struct Scored {
    bias: Option<Cursor>,
    rounded: bool,
    eps: Option<f32>,
    factor: f32,
}

/// What ends with the shares of experts that are picked by scores at `shares`.
pub(super) fn routing(
    tape: &Tape,
    shares: usize,
    device: &DeviceState,
) -> Option<(Members, Routing, Scored)> {
    let stream = tape.node(shares).stream;
    let mut members = Members::new();
    let Shares { taken, eps, factor } = shares_of(tape, shares, &mut members)?;
    let picks = tape.input(taken, 1)?;
    let sorted = ordered(tape, picks, &mut members)?;
    let mut score = inner(tape, (taken, 0), 2, stream)?;
    let bias = preference(tape, sorted, tape.array(score), &mut members)?;
    if is_conversion(tape.node(score)) {
        // Scores of the logits' dtype that are made wider for both.
        members.push(score);
        score = inner(tape, (score, 0), 1, stream)?;
    }
    let rounded = tape.array(score).dtype() != Dtype::Float32;
    does(UnaryOp::Sigmoid)(tape.node(score)).then(|| members.push(score))?;
    let mut from = (score, 0);
    if let Some(wide) = inner(tape, from, 1, stream).filter(|&at| is_conversion(tape.node(at))) {
        members.push(wide);
        from = (wide, 0);
    }
    let replaces = members.len() as u64;
    let routing = Routing { picks, shares, from, readers: 1, replaces };
    let experts = input(tape, from).dim(-1);
    let fits = routes(tape, picks, experts, device)
        && tape.node(picks).stream == stream
        && bias.is_none_or(|at| input(tape, at).dtype() == Dtype::Float32)
        && tape.array(shares).size() == tape.array(picks).size();
    fits.then_some((members, routing, Scored { bias, rounded, eps, factor }))
}

/// How picked scores become shares.
struct Shares {
    /// What takes the picked ones along the last axis.
    taken: usize,
    /// What is added to their sum, which divides them.
    eps: Option<f32>,
    factor: f32,
}

/// How the shares at a place are made of scores.
fn shares_of(tape: &Tape, mut place: usize, members: &mut Members) -> Option<Shares> {
    let stream = tape.node(place).stream;
    let (mut eps, mut factor) = (None, 1.0);
    if is_conversion(tape.node(place)) {
        members.push(place);
        place = inner(tape, (place, 0), 1, stream)?;
    }
    if does(BinaryOp::Multiply)(tape.node(place)) {
        members.push(place);
        let (number, other) = constant_beside(tape, place)?;
        (place, factor) = (inner(tape, (place, other), 1, stream)?, number);
    }
    if does(BinaryOp::Divide)(tape.node(place)) {
        members.push(place);
        let (values, added) = divided(tape, place, members)?;
        (place, eps) = (values, Some(added.unwrap_or_default()));
    }
    let axis = tape.array(place).ndim().checked_sub(1)?;
    does(IndexingOp::TakeAlongAxis { axis })(tape.node(place)).then(|| members.push(place))?;
    Some(Shares { taken: place, eps, factor })
}

/// Where the numbers are read that are added to `scores` before these are sorted, if any are; nothing where
/// something else is sorted.
fn preference(
    tape: &Tape,
    sorted: Cursor,
    scores: &Array,
    members: &mut Members,
) -> Option<Option<Cursor>> {
    let is_score = |at: Cursor| input(tape, at).is_same(scores);
    if is_score(sorted) {
        return Some(None);
    }
    let stream = tape.node(sorted.0).stream;
    let sum = inner(tape, sorted, 1, stream)?;
    does(BinaryOp::Add)(tape.node(sum)).then_some(())?;
    // Scores of 16 bits are made wider for the sum.
    let wide = |i| inner(tape, (sum, i), 1, stream).filter(|&at| widens(tape.node(at)));
    let mine = (0..2).find(|&i| is_score((sum, i)) || wide(i).is_some_and(|w| is_score((w, 0))))?;
    let (from, views) = bias::row(tape, (sum, 1 - mine))?;
    members.extend(wide(mine));
    members.push(sum);
    members.extend(views);
    Some(Some(from))
}

/// Whether a node converts floats to others.
fn is_conversion(node: &Node) -> bool {
    matches!(node.primitive, Primitive::Copy(CopyOp::AsType { dtype })
        if is_float(dtype) && is_float(node.inputs[0].dtype()))
}

impl Scored {
    /// The scores as kernels take them, if the bias lies so.
    ///
    /// # Errors
    /// When memory or the device fails.
    pub(super) fn operand(
        &self,
        ctx: &mut Ctx<'_>,
        tape: &Tape,
        reads: &mut impl Extend<Region>,
    ) -> Result<Option<Scores>> {
        let mut bias = 0;
        if let Some(at) = self.bias {
            let Some(from) = dense(ctx, input(tape, at))? else { return Ok(None) };
            reads.extend([from.region]);
            bias = from.address;
        }
        let &Scored { rounded, eps, factor, .. } = self;
        Ok(Some(Scores { bias, rounded, eps, factor }))
    }
}
