//! One token's mixture of experts as one group: from the norm before router and experts to the sum with the
//! residual.

use mlx_vulkan_core::{Result, backend::Output, fusion::Group, primitives::Packing, tape::Tape};
use smallvec::smallvec;

use super::{
    After, Members, Mixed, Routing, Width,
    builder::Part,
    choice::{Source, source},
    is_view, optional, parts,
    scored::{self, Scored},
    shared::SharedExpert,
    views,
};
use crate::{
    graph::fusion::{
        GroupKernel, Grouped, device,
        heads::{Cursor, input},
        inner,
        operands::dense,
    },
    kernels::{
        Ctx,
        mixture::token::{self, TokenMixture},
    },
};

/// A token's mixture, by places on the tape.
struct Token {
    source: Source,
    /// Gate, up and down.
    products: [usize; 3],
    packing: Packing,
    shared: Option<SharedExpert>,
    scored: Option<Scored>,
    /// Where the residual is read.
    residual: Option<Cursor>,
    replaces: u64,
}

/// The group that ends with a weighted sum, if it is of one token and nobody sees what is inside; its parts
/// are taken out of those that were found.
pub(super) fn join(
    tape: &Tape,
    sum: &Part<Mixed>,
    pairs: &mut Vec<Part<Mixed>>,
    routings: &mut Vec<Part<Routing>>,
) -> Option<Group> {
    let After::Sum(shares, addend) = sum.of.after else { return None };
    let down = sum.of.products[0];
    let stream = tape.node(down).stream;
    let (gated, shares) = (inner(tape, (down, 0), 1, stream)?, inner(tape, shares, 1, stream)?);
    let pair_at = pairs.iter().position(|pair| pair.result == gated)?;
    let routing_at = routings.iter().position(|routing| routing.result == shares);
    let scored = match routing_at {
        Some(_) => None,
        None => Some(scored::routing(tape, shares, device(tape.node(shares))?)?),
    };
    let pair = &pairs[pair_at];
    let routing = match (&scored, routing_at) {
        (Some((_, routing, _)), _) => routing,
        (None, at) => &routings[at?].of,
    };
    let [gate, up] = pair.of.products[..] else { return None };
    // Gate, up, down and the shares are of the same picks.
    let picked = |product: usize| (product, tape.node(product).inputs.len() - 1);
    let picks = inner(tape, picked(down), 4, stream)?;
    let ours = picks == routing.picks && tape.input(gate, picked(gate).1) == Some(picks);
    let source = source(tape, routing)?;
    let experts = (tape.array(gate).dim(-1), sum.of.packing);
    let is_like = |shared: &SharedExpert| shared.is_like(tape, source.norm, experts, source.format);
    let shared = addend.and_then(|at| SharedExpert::find(tape, at)).filter(is_like);
    let (result, residual) = end(sum, addend, shared.is_some());
    // The norm is read by the router, for gate and up by a view, and by the shared expert.
    let readers = 2 + shared.as_ref().map_or(0, SharedExpert::readers);
    let rows = inner(tape, (gate, 0), 2, stream).filter(|&view| is_view(tape.node(view)))?;
    let mut members: Members = smallvec![rows];
    let norm = inner(tape, views(tape, (rows, 0), &mut members), readers, stream)?;
    let normed = tape.array(norm);
    let stacks = [gate, up, down].map(|product| tape.node(product).inputs[1].dim(0));
    let unbiased = |biases: &[Option<Cursor>]| biases.iter().all(Option::is_none);
    let fits = ours
        && source.norm == norm
        && source.bias.is_none()
        && [gate, result].iter().all(|&at| tape.array(at).dtype() == normed.dtype())
        && normed.size() == normed.dim(-1)
        && tape.array(result).size() == normed.size()
        && stacks == [tape.array(source.router).dim(-1); 3]
        && pair.of.packing == sum.of.packing
        && sum.of.width != Width::Wide
        && unbiased(&pair.of.biases)
        && unbiased(&sum.of.biases)
        && residual.is_none_or(|at| input(tape, at).dtype() == normed.dtype());
    fits.then_some(())?;
    let pair = pairs.remove(pair_at);
    let (routed, scored) = match (scored, routing_at) {
        (Some((members, _, scored)), _) => (members, Some(scored)),
        (None, at) => (routings.remove(at?).members, None),
    };
    let parts = [&source.members, &pair.members, &routed, &sum.members];
    members.extend(parts.into_iter().flatten().copied());
    if let Some(shared) = &shared {
        let behind = sum.behind.iter().flat_map(|behind| &behind.members);
        members.extend(shared.members.iter().chain(behind).copied());
    }
    let (replaces, products) = (members.len() as u64, [gate, up, down]);
    let packing = sum.of.packing;
    let token = Token { source, products, packing, shared, scored, residual, replaces };
    Some(Group { members, kept: smallvec![result], fusion: Box::new(Grouped(token)) })
}

/// Where a mixture ends, and what its residual is: with an expert that all tokens have, which is the sum's
/// addend then, what is added behind that.
fn end(sum: &Part<Mixed>, addend: Option<Cursor>, shared: bool) -> (usize, Option<Cursor>) {
    match (shared, &sum.behind) {
        (false, _) => (sum.result, addend),
        (true, None) => (sum.result, None),
        (true, Some(behind)) => (behind.result, Some(behind.addend)),
    }
}

impl GroupKernel for Token {
    fn name(&self) -> usize {
        self.products[0]
    }

    fn counted(&self) -> &[usize] {
        &self.products
    }

    fn replaces(&self) -> u64 {
        self.replaces
    }

    fn describe(&self, tape: &Tape) -> String {
        let [hidden, width] = [self.source.norm, self.products[0]].map(|at| tape.array(at).dim(-1));
        let shared = if self.shared.is_some() { " and shared" } else { "" };
        format!("mixture {hidden}x{width} b{}{shared}", self.packing.bits())
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let (row, weight) = self.source.rows(tape);
        let (Some(x), Some(norm)) = (dense(ctx, row)?, dense(ctx, weight)?) else {
            return Ok(false);
        };
        let Some(mut router) = self.source.router(ctx, tape)? else { return Ok(false) };
        let mut matrices = [None; 3];
        for (at, &product) in matrices.iter_mut().zip(&self.products) {
            let inputs = &tape.node(product).inputs;
            *at = parts(ctx, &inputs[1..inputs.len() - 2])?;
        }
        let [Some(gate), Some(up), Some(down)] = matrices else { return Ok(false) };
        let shared = optional(self.shared.as_ref(), |expert| expert.operand(ctx, tape))?;
        let operand = |scored: &Scored| scored.operand(ctx, tape, &mut router.reads);
        let scores = optional(self.scored.as_ref(), operand)?;
        let residual = optional(self.residual, |at| dense(ctx, input(tape, at)))?;
        let (Some(shared), Some(scores), Some(residual)) = (shared, scores, residual) else {
            return Ok(false);
        };
        let picks = tape.node(self.products[0]).inputs.last().map_or(0, |picks| picks.size());
        let mixture = TokenMixture {
            x,
            norm,
            eps: self.source.eps,
            router,
            gate,
            up,
            down,
            shared,
            scores,
            residual,
            result: ctx.output(&mut kept[0])?,
            packing: self.packing,
            dtype: row.dtype(),
            inner: row.dim(-1),
            width: tape.array(self.products[0]).dim(-1),
            experts: tape.array(self.source.router).dim(-1),
            count: picks,
        };
        token::encode(ctx, mixture)?;
        Ok(true)
    }
}
