//! Experts that are picked by scores, which are sigmoids of the router's logits, as DeepSeek-V3 and many
//! after it do: a number of each expert may be added to its score while experts are picked; shares are the
//! scores, divided by their sum or not, times a factor.

use mlx_vulkan_core::{
    Dtype, Result,
    graph::Node,
    primitives::{BinaryOp, CopyOp, IndexingOp, Primitive, UnaryOp},
    tape::Tape,
};

use super::{Members, Routing, column_of, is_float, ordered, routes, sums_axis, widens};
use crate::{
    graph::fusion::{
        bias,
        gate::constant,
        heads::{Cursor, input},
        inner,
        products::dense,
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
    let pass = |at: usize, members: &mut Members| -> Option<&Node> {
        members.push(at);
        Some(tape.node(at))
    };
    let mut place = shares;
    let mut node = pass(place, &mut members)?;
    if is_conversion(node) {
        place = inner(tape, (place, 0), 1, stream)?;
        node = pass(place, &mut members)?;
    }
    let mut factor = 1.0;
    if node.primitive == Primitive::Binary(BinaryOp::Multiply) {
        let numbers = [(0, 1), (1, 0)].into_iter();
        let found = |(i, other)| Some((constant(tape, (place, i))?, other));
        let (number, other) = numbers.into_iter().find_map(found)?;
        factor = number;
        place = inner(tape, (place, other), 1, stream)?;
        node = pass(place, &mut members)?;
    }
    let mut eps = None;
    if node.primitive == Primitive::Binary(BinaryOp::Divide) {
        let (values, added) = divided(tape, place, &mut members)?;
        (place, eps) = (values, Some(added));
        node = pass(place, &mut members)?;
    }
    let last = tape.array(place).ndim().checked_sub(1)?;
    let is_taken = node.primitive == Primitive::Indexing(IndexingOp::TakeAlongAxis { axis: last });
    let picks = is_taken.then(|| tape.input(place, 1))??;
    let sorted = ordered(tape, picks, &mut members)?;
    // What is sorted is made of the scores that are taken.
    let (mut bias, mut readers) = (None, 2);
    let mut score = inner(tape, (place, 0), readers, stream)?;
    if !input(tape, sorted).is_same(&node.inputs[0]) {
        let sum = inner(tape, sorted, 1, stream)?;
        let is_sum = tape.node(sum).primitive == Primitive::Binary(BinaryOp::Add);
        // Scores of 16 bits are made wider for the sum.
        let wide = |i| inner(tape, (sum, i), 1, stream).filter(|&at| widens(tape.node(at)));
        let is_score = |at: Cursor| input(tape, at).is_same(&node.inputs[0]);
        let mine =
            (0..2).find(|&i| is_score((sum, i)) || wide(i).is_some_and(|w| is_score((w, 0))));
        let mine = mine.filter(|_| is_sum)?;
        members.extend(wide(mine));
        let (from, views) = bias::row(tape, (sum, 1 - mine))?;
        members.push(sum);
        members.extend(views);
        bias = Some(from);
    }
    if is_conversion(tape.node(score)) {
        // Scores of the logits' dtype that are made wider for both.
        members.push(score);
        readers = 1;
        score = inner(tape, (score, 0), readers, stream)?;
    }
    let rounded = tape.array(score).dtype() != Dtype::Float32;
    let is_sigmoid = tape.node(score).primitive == Primitive::Unary(UnaryOp::Sigmoid);
    is_sigmoid.then(|| members.push(score))?;
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

/// What the division at `place` divides by its sum, and what is added to that.
fn divided(tape: &Tape, place: usize, members: &mut Members) -> Option<(usize, f32)> {
    let stream = tape.node(place).stream;
    let values = inner(tape, (place, 0), 2, stream)?;
    let mut below = inner(tape, column_of(tape, (place, 1), members)?, 1, stream)?;
    let mut eps = 0.0;
    if tape.node(below).primitive == Primitive::Binary(BinaryOp::Add) {
        members.push(below);
        let found = |(i, other)| Some((constant(tape, (below, i))?, other));
        let (number, other) = [(0, 1), (1, 0)].into_iter().find_map(found)?;
        (below, eps) = (inner(tape, (below, other), 1, stream)?, number);
    }
    let sum = tape.node(below);
    let ours = sum.inputs.first()?.is_same(tape.array(values));
    (ours && sums_axis(sum, 1)).then(|| members.push(below))?;
    Some((values, eps))
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
