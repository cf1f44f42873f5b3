//! One token's mixture of experts with everything before and after it: the norm, the router, the picks, and
//! the sum with a residual. A step where the stream makes runs of such, else three dispatches.

use mlx_vulkan_core::{Dtype, Result, primitives::Packing};
use smallvec::SmallVec;

use super::{After, Choice, Experts, Router, Scores, SharedShare, scratch};
use crate::kernels::{Ctx, Operand, Region, matvec::Format};

/// A token's mixture.
#[derive(Debug, Clone)]
pub(crate) struct TokenMixture {
    /// A row of `inner` elements, dense.
    pub x: Operand,
    /// RMS norm before router and experts.
    pub norm: Operand,
    pub eps: f32,
    pub router: Router,
    /// Words, scales and biases of (experts, width, inner).
    pub gate: [Operand; 3],
    pub up: [Operand; 3],
    /// Of (experts, inner, width).
    pub down: [Operand; 3],
    /// An expert that all tokens have.
    pub shared: Option<Shared>,
    /// How shares are made, if not as softmax over the picks.
    pub scores: Option<Scores>,
    /// What is added to the weighted sum, as long as `x`.
    pub residual: Option<Operand>,
    pub result: Operand,
    pub packing: Packing,
    pub dtype: Dtype,
    pub inner: usize,
    pub width: usize,
    pub experts: usize,
    /// Experts that the token picks.
    pub count: usize,
}

/// An expert of the same size and format as the others that all tokens have.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    /// Words, scales and biases of (width, inner), and of (inner, width).
    pub gate: [Operand; 3],
    pub up: [Operand; 3],
    pub down: [Operand; 3],
    pub share: SharedShare,
    /// What the share reads.
    pub reads: SmallVec<[Region; 4]>,
}

impl TokenMixture {
    /// How many experts the token has.
    pub(crate) fn each(&self) -> usize {
        self.count + usize::from(self.shared.is_some())
    }

    /// How the experts' elements are stored.
    pub(crate) fn format(&self) -> Format {
        Format::packed(self.dtype, self.packing)
    }

    fn reads(&self) -> SmallVec<[Region; 16]> {
        let matrices = [&self.gate, &self.up, &self.down].into_iter().flatten();
        let operands = [&self.x, &self.norm].into_iter().chain(matrices).chain(&self.residual);
        let shared = self.shared.iter().flat_map(|s| [&s.gate, &s.up, &s.down]).flatten();
        let others = self.shared.iter().flat_map(|shared| &shared.reads);
        let regions = operands.chain(shared).map(|at| at.region);
        regions.chain(self.router.reads.iter().chain(others).copied()).collect()
    }
}

/// Encodes a mixture, as a step where the stream makes runs of such.
///
/// # Errors
/// When memory is out, the driver refuses a pipeline, or the device fails.
pub(crate) fn encode(ctx: &mut Ctx<'_>, mixture: TokenMixture) -> Result<()> {
    if ctx.runs().is_some_and(|runs| runs.serves_mixture(&mixture)) {
        let (reads, writes) = (mixture.reads(), [mixture.result.region]);
        return ctx.put_off(Box::new(mixture), &reads, &writes);
    }
    dispatch(ctx, &mixture)
}

/// Encodes a mixture as dispatches.
///
/// # Errors
/// When memory is out, the driver refuses a pipeline, or the device fails.
pub(crate) fn dispatch(ctx: &mut Ctx<'_>, m: &TokenMixture) -> Result<()> {
    let size = m.dtype.size();
    let each = m.each();
    let [normal, picks, shares, gated] =
        [size * m.inner, 4 * each, size * each, size * each * m.width]
            .map(|bytes| scratch(ctx, bytes));
    let (normal, picks, shares, gated) = (normal?, picks?, shares?, gated?);
    let &TokenMixture { dtype, experts, count, inner, .. } = m;
    let choice = Choice {
        x: m.x,
        norm: m.norm,
        eps: m.eps,
        router: m.router.clone(),
        normal,
        picks,
        shares,
        shared: m.shared.as_ref().map(|shared| shared.share),
        scores: m.scores,
        share_dtype: dtype,
        dtype,
        tokens: 1,
        inner,
        experts,
        count,
    };
    super::choose(ctx, &choice)?;
    let pair = Experts {
        x: normal,
        picks,
        after: After::Gate,
        matrices: [m.gate, m.up],
        biases: [None; 2],
        shared: m.shared.as_ref().map(|shared| [shared.gate, shared.up]),
        result: gated,
        packing: m.packing,
        dtype,
        tokens: 1,
        per_token: each,
        outputs: m.width,
        inner,
        experts,
    };
    super::experts(ctx, &pair)?;
    let sum = Experts {
        x: gated,
        after: After::Sum { shares, dtype, addend: m.residual },
        matrices: [m.down; 2],
        shared: m.shared.as_ref().map(|shared| [shared.down; 2]),
        result: m.result,
        outputs: inner,
        inner: m.width,
        ..pair
    };
    super::experts(ctx, &sum)
}
