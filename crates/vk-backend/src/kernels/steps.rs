//! Steps: products of one row, and mixtures of experts, attentions, convolutions and delta rules of one
//! token, which are not encoded at once but wait until something else is, so that the layer above can make
//! one dispatch of many.

use std::{any::Any, sync::Arc};

use mlx_vulkan_core::{Error, Result, Stream, buffer::BufferRef};
use smallvec::SmallVec;

use super::{
    attention::decode::Token, convolution::token as convolution, delta::TokenDelta, layouts,
    matvec::fused::Fused, mixture::token::TokenMixture,
};
use crate::runtime::{
    builders::Pipeline,
    encoder::{Deferred, Encoder, Recent},
    hazards::Region,
};

/// What a step does.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Product(Fused),
    Attention(Token),
    Mixture(Box<TokenMixture>),
    Convolution(Box<convolution::Token>),
    Delta(Box<TokenDelta>),
}

impl From<Fused> for Kind {
    fn from(product: Fused) -> Self {
        Kind::Product(product)
    }
}

impl From<Token> for Kind {
    fn from(token: Token) -> Self {
        Kind::Attention(token)
    }
}

impl From<Box<convolution::Token>> for Kind {
    fn from(token: Box<convolution::Token>) -> Self {
        Kind::Convolution(token)
    }
}

impl From<Box<TokenDelta>> for Kind {
    fn from(token: Box<TokenDelta>) -> Self {
        Kind::Delta(token)
    }
}

impl From<Box<TokenMixture>> for Kind {
    fn from(mixture: Box<TokenMixture>) -> Self {
        Kind::Mixture(mixture)
    }
}

/// A step that is not encoded yet, with the memory that it touches.
pub(crate) struct Step {
    pub(crate) kind: Kind,
    pub(crate) reads: SmallVec<[Region; 12]>,
    pub(crate) writes: SmallVec<[Region; 3]>,
    pub(crate) held: SmallVec<[BufferRef; 6]>,
    pub(crate) recent: Recent,
    pub(crate) stream: Stream,
    pub(crate) op: &'static str,
}

impl Step {
    /// A step with the memory that it touches, of an operation on a stream.
    pub(super) fn new(
        kind: Kind,
        reads: &[Region],
        writes: &[Region],
        (stream, op): (Stream, &'static str),
    ) -> Self {
        let (reads, writes) = (reads.into(), writes.into());
        let (held, recent) = (SmallVec::new(), Recent::default());
        Step { kind, reads, writes, held, recent, stream, op }
    }
}

/// Who encodes steps: which it takes, and what it makes of them.
pub(crate) trait Runs: Send {
    /// Whether a product can be a step.
    fn serves_product(&self, product: &Fused) -> bool;

    /// Whether an attention can be a step.
    fn serves_attention(&self, token: &Token) -> bool;

    /// Whether a token's mixture can be a step.
    fn serves_mixture(&self, mixture: &TokenMixture) -> bool;

    /// Whether a token's convolution with those before it can be a step.
    fn serves_convolution(&self, token: &convolution::Token) -> bool;

    /// Whether a token's step of the gated delta rule can be a step.
    fn serves_delta(&self, token: &TokenDelta) -> bool;

    /// The last of `steps` was put off: what runs of them will need is ordered.
    fn expect(&mut self, steps: &[Step]);

    /// A pipeline that runs of `steps` need and that is not made yet.
    fn missing(&self, steps: &[Step]) -> Option<Arc<Pipeline>>;

    /// Whether runs may end behind `steps`: as many as make one, and no later one has to be in the same.
    fn may_end(&self, steps: &[Step]) -> bool;

    /// Encodes all of them, in their order.
    ///
    /// # Errors
    /// When memory is out or the device fails.
    fn encode(&mut self, steps: &mut Vec<Step>, encoder: &mut Encoder) -> Result<()>;

    /// Gives up memory that is kept from one run to the next; nothing uses it now.
    fn rest(&mut self);
}

/// The steps of a stream.
pub(crate) struct Steps {
    waiting: Vec<Step>,
    runs: Box<dyn Runs>,
}

impl Steps {
    /// None yet; those that come go to `runs`.
    pub(crate) fn new(runs: Box<dyn Runs>) -> Self {
        Steps { waiting: Vec::new(), runs }
    }

    /// The steps of an encoder's stream, if it has any runs.
    pub(super) fn of(encoder: &mut Encoder) -> Option<&mut Steps> {
        let deferred: &mut dyn Any = encoder.deferred()?;
        deferred.downcast_mut()
    }

    /// Who encodes them.
    pub(super) fn runs(&self) -> &dyn Runs {
        &*self.runs
    }

    /// Puts a step off until something else is encoded.
    ///
    /// # Errors
    /// When the device fails.
    pub(super) fn put_off(encoder: &mut Encoder, step: Step) -> Result<()> {
        encoder.open()?;
        encoder.note_used(layouts::interpreter::INTERPRETER.kernel().name());
        let (held, recent) = (std::mem::take(&mut encoder.held), encoder.recent);
        let Some(steps) = Steps::of(encoder) else { return Ok(()) };
        steps.waiting.push(Step { held, recent, ..step });
        steps.runs.expect(&steps.waiting);
        Ok(())
    }
}

impl Deferred for Steps {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn touches(&self, reads: &[Region], writes: &[Region]) -> bool {
        let meet = |a: &[Region], b: &[Region]| a.iter().any(|a| b.iter().any(|b| a.overlaps(*b)));
        let touched = |step: &Step| {
            meet(&step.writes, reads) || meet(&step.writes, writes) || meet(&step.reads, writes)
        };
        // What depends on a step mostly depends on the last one.
        self.waiting.iter().rev().any(touched)
    }

    fn missing(&self) -> Option<Arc<Pipeline>> {
        self.runs.missing(&self.waiting)
    }

    fn may_end(&self) -> bool {
        self.waiting.is_empty() || self.runs.may_end(&self.waiting)
    }

    fn encode(&mut self, encoder: &mut Encoder) -> Result<()> {
        let result = self.runs.encode(&mut self.waiting, encoder);
        match &result {
            // What is left is tried again by whoever flushes next: memory may have been freed.
            Err(Error::OutOfMemory { .. }) => {}
            Err(error) => {
                encoder.timer().fail(encoder.timer().tick().value, error.clone());
                // The next steps find the room of these.
                self.waiting.clear();
            }
            Ok(()) => {}
        }
        result
    }

    fn rest(&mut self) {
        self.runs.rest();
    }
}
