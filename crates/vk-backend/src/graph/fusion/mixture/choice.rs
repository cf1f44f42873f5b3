//! What picks experts of a few tokens with the norm and the router before it, as one group: who reads the
//! normalized rows besides finds them in memory.

use mlx_vulkan_core::{
    Array, Result,
    backend::Output,
    fusion::Group,
    primitives::{BinaryOp, NormOp, Primitive},
    tape::Tape,
};
use smallvec::{SmallVec, smallvec};

use super::{
    After, Members, Mixed, Routing,
    builder::Part,
    optional,
    scored::{self, Scored},
};
use crate::{
    graph::fusion::{
        GroupKernel, Grouped,
        bias::Biased,
        device, inner,
        operands::{dense, matrix},
        products::{few_rows, packed},
    },
    kernels::{
        Ctx,
        matvec::Format,
        mixture::{self, Choice, Router},
    },
};

/// The router before a choice, by places on the tape.
pub(super) struct Source {
    pub(super) norm: usize,
    pub(super) eps: f32,
    pub(super) router: usize,
    /// How the router's matrix is stored.
    pub(super) format: Format,
    pub(super) bias: Option<Biased>,
    pub(super) members: Members,
}

/// The router whose logits `routing` reads, and the norm before it, if the kernel serves them.
pub(super) fn source(tape: &Tape, routing: &Routing) -> Option<Source> {
    let stream = tape.node(routing.from.0).stream;
    let logits = inner(tape, routing.from, routing.readers, stream)?;
    let mut bias = Biased::of_addmm(tape, logits);
    let mut router = logits;
    if tape.node(logits).primitive == Primitive::Binary(BinaryOp::Add) {
        let (product, found) = [(0, 1), (1, 0)].into_iter().find_map(|(input, other)| {
            Some((inner(tape, (logits, input), 1, stream)?, Biased::of_sum(tape, logits, other)?))
        })?;
        (router, bias) = (product, Some(found));
    }
    let norm = tape.input(router, 0)?;
    let Primitive::Norm(NormOp::RmsNorm { eps }) = tape.node(norm).primitive else { return None };
    let [x, weight] = &tape.node(norm).inputs[..] else { return None };
    let (experts, dtype, width) = (tape.array(logits).dim(-1), x.dtype(), x.dim(-1));
    let alike = [weight, tape.array(norm), tape.array(router), tape.array(logits)];
    let fits = tape.node(norm).stream == stream
        && weight.ndim() == 1
        && width > 0
        && alike.iter().all(|array| array.dtype() == dtype);
    let format = fits.then(|| packed(tape, router).or_else(|| few_rows(tape, router)))??;
    let caps = device(tape.node(router))?.capabilities();
    mixture::chooses(dtype, [x.size() / width, width, experts], format, caps).then_some(())?;
    let mut members: Members = smallvec![norm, router];
    members.extend(bias.iter().flat_map(Biased::members));
    Some(Source { norm, eps: eps.0, router, format, bias, members })
}

impl Source {
    /// The router as the kernel takes it, if it lies so.
    pub(super) fn router(&self, ctx: &mut Ctx<'_>, tape: &Tape) -> Result<Option<Router>> {
        let (node, outputs) = (tape.node(self.router), tape.array(self.router).dim(-1) as u32);
        let mut reads = SmallVec::new();
        let Some(mut matrix) = matrix(ctx, node, outputs, &mut reads)? else { return Ok(None) };
        if let Some(bias) = &self.bias {
            matrix.bias = bias.operand(ctx, tape, &mut reads)?;
            if matrix.bias.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(Router { matrix, format: self.format, reads }))
    }

    /// The rows before the norm, and its weight.
    pub(super) fn rows<'a>(&self, tape: &'a Tape) -> (&'a Array, &'a Array) {
        let inputs = &tape.node(self.norm).inputs;
        (&inputs[0], &inputs[1])
    }
}

/// A choice of experts.
struct Chosen {
    source: Source,
    routing: Routing,
    scored: Option<Scored>,
    replaces: u64,
}

impl Chosen {
    fn group(self, mut members: Members) -> Group {
        members.extend(self.source.members.iter().copied());
        let kept = smallvec![self.source.norm, self.routing.picks, self.routing.shares];
        let replaces = members.len() as u64;
        Group { members, kept, fusion: Box::new(Grouped(Chosen { replaces, ..self })) }
    }
}

/// The group of what routes with the router and the norm before it, if it is of few tokens.
pub(super) fn group(tape: &Tape, part: Part<Routing>) -> Group {
    let Part { result, members, of: routing, .. } = part;
    let Some(source) = source(tape, &routing) else {
        let kept = smallvec![routing.picks, result];
        return Group { members, kept, fusion: Box::new(Grouped(routing)) };
    };
    Chosen { source, routing, scored: None, replaces: 0 }.group(members)
}

/// The same of what picks experts by scores for a weighted sum.
pub(super) fn scored(tape: &Tape, sum: &Mixed) -> Option<Group> {
    let After::Sum(shares, _) = sum.after else { return None };
    let shares = inner(tape, shares, 1, tape.node(shares.0).stream)?;
    let device = device(tape.node(shares))?;
    let (members, routing, scored) = scored::routing(tape, shares, device)?;
    let source = source(tape, &routing)?;
    Some(Chosen { source, routing, scored: Some(scored), replaces: 0 }.group(members))
}

impl GroupKernel for Chosen {
    fn name(&self) -> usize {
        self.source.router
    }

    fn counted(&self) -> &[usize] {
        std::slice::from_ref(&self.source.router)
    }

    fn replaces(&self) -> u64 {
        self.replaces
    }

    fn describe(&self, tape: &Tape) -> String {
        let (rows, _) = self.source.rows(tape);
        let picks = tape.array(self.routing.picks).dim(-1);
        format!("norm router route {:?} to {picks}", rows.shape())
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let (rows, weight) = self.source.rows(tape);
        let (Some(x), Some(norm)) = (dense(ctx, rows)?, dense(ctx, weight)?) else {
            return Ok(false);
        };
        let Some(mut router) = self.source.router(ctx, tape)? else { return Ok(false) };
        let operand = |scored: &Scored| scored.operand(ctx, tape, &mut router.reads);
        let Some(scores) = optional(self.scored.as_ref(), operand)? else { return Ok(false) };
        let [normal, picks, shares] = kept else { return Ok(false) };
        let choice = Choice {
            x,
            norm,
            eps: self.source.eps,
            router,
            normal: ctx.output(normal)?,
            picks: ctx.output(picks)?,
            shares: ctx.output(shares)?,
            shared: None,
            scores,
            share_dtype: tape.array(self.routing.shares).dtype(),
            dtype: rows.dtype(),
            tokens: rows.size() / rows.dim(-1),
            inner: rows.dim(-1),
            experts: tape.array(self.source.router).dim(-1),
            count: tape.array(self.routing.picks).dim(-1),
        };
        mixture::choose(ctx, &choice)?;
        Ok(true)
    }
}
