//! Mixtures of experts for a few tokens: the experts that each picks, and products with their matrices.

use mlx_vulkan_core::{Dtype, Result, primitives::Packing};

use smallvec::{SmallVec, smallvec};

use crate::{
    kernels::{
        Ctx, Dispatch, Operand, Region,
        layouts::{mixture_experts, mixture_route},
        quantized::format_of,
        team::Team,
    },
    runtime::capabilities::Capabilities,
};

/// Logits that a lane has at most.
const MOST_EACH: u32 = 32;

/// Which experts tokens pick.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    /// (tokens, experts), dense.
    pub logits: Operand,
    /// (tokens, count), uint32.
    pub picks: Operand,
    /// (tokens, count).
    pub shares: Operand,
    pub dtype: Dtype,
    pub tokens: usize,
    pub experts: usize,
    pub count: usize,
}

/// Whether [`route`] serves.
pub(crate) fn routes(experts: usize, count: usize, caps: &Capabilities) -> bool {
    let team = Team::of(caps, true);
    let each = experts.div_ceil(team.subgroup as usize);
    team.subgroups
        && count <= team.subgroup as usize
        && count <= experts
        && each <= MOST_EACH as usize
}

/// Encodes the choice of experts.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn route(ctx: &mut Ctx<'_>, r: &Route) -> Result<()> {
    let team = Team::of(ctx.capabilities(), true);
    let each = (r.experts as u32).div_ceil(team.subgroup);
    let (workgroup, dtype, subgroup) = (team.subgroup, r.dtype as u32, team.subgroup);
    let constants = mixture_route::Constants { workgroup, dtype, subgroup, each };
    let push = mixture_route::Push {
        logits: r.logits.address,
        picks: r.picks.address,
        shares: r.shares.address,
        tokens: r.tokens as u32,
        experts: r.experts as u32,
        count: r.count as u32,
    };
    let pipeline = ctx.team_pipeline(mixture_route::MIXTURE_ROUTE, &constants, team);
    let writes = [r.picks.region, r.shares.region];
    ctx.run(&pipeline, &push, r.tokens as u64, 1, &[r.logits.region], &writes)
}

/// Products of rows with the matrices of the experts that they pick.
#[derive(Debug, Clone)]
pub(crate) struct Experts {
    /// Rows of `inner` elements: of each pick if these are summed, else of each token.
    pub x: Operand,
    /// (tokens, per token), uint32, dense.
    pub picks: Operand,
    pub after: After,
    /// Words, scales and biases of (experts, outputs, inner): of gate and up, or of one matrix twice.
    pub matrices: [[Operand; 3]; 2],
    /// What is added to their products, (experts, outputs).
    pub biases: [Option<Operand>; 2],
    pub result: Operand,
    pub packing: Packing,
    pub dtype: Dtype,
    pub tokens: usize,
    pub per_token: usize,
    pub outputs: usize,
    pub inner: usize,
    pub experts: usize,
}

/// What happens to the products.
#[derive(Debug, Clone, Copy)]
pub(crate) enum After {
    /// They are stored, those of the second matrix at `second`.
    Store { second: Operand },
    /// `silu(first) * second`.
    Gate,
    /// Those of a token's picks are weighed by `shares` and summed, with `addend`, of the sum's shape.
    Sum { shares: Operand, addend: Option<Operand> },
}

impl Experts {
    fn reads(&self) -> Vec<Region> {
        let parts = self.matrices.iter().flatten();
        let others = match &self.after {
            After::Sum { shares, addend } => [Some(shares), addend.as_ref()],
            After::Store { .. } | After::Gate => [None; 2],
        };
        let others = others.into_iter().flatten().chain(self.biases.iter().flatten());
        [self.x, self.picks].iter().chain(parts).chain(others).map(|at| at.region).collect()
    }
}

/// Outputs of a team at once, of each matrix.
fn outputs_at_once(caps: &Capabilities) -> u32 {
    if caps.is_software() { 4 } else { 2 }
}

/// Encodes the products.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn experts(ctx: &mut Ctx<'_>, e: &Experts) -> Result<()> {
    let caps = ctx.capabilities();
    let team = Team::of(caps, true);
    let workgroup = team.workgroup(caps, 128);
    let words = e.matrices.iter().all(|[words, ..]| words.is_aligned(16));
    let constants = mixture_experts::Constants {
        workgroup,
        dtype: e.dtype as u32,
        bits: e.packing.bits() as u32,
        group: e.packing.group_size() as u32,
        subgroup: team.subgroup,
        rows: 1,
        outputs: outputs_at_once(caps),
        aligned: u32::from(e.x.is_aligned(16)) | (u32::from(words) << 1),
        format: format_of(e.packing),
        after: match e.after {
            After::Store { .. } => mixture_experts::STORE,
            After::Gate => mixture_experts::GATE,
            After::Sum { .. } => mixture_experts::SUM,
        },
    };
    let (shares, other) = match e.after {
        After::Store { second } => (None, Some(second)),
        After::Gate => (None, None),
        After::Sum { shares, addend } => (Some(shares), addend),
    };
    let address = |at: Option<Operand>| at.map_or(0, |at| at.address);
    let part = |i: usize| e.matrices.map(|matrix| matrix[i].address);
    let push = mixture_experts::Push {
        x: e.x.address,
        result: e.result.address,
        picks: e.picks.address,
        shares: address(shares),
        other: address(other),
        words: part(0),
        scales: part(1),
        biases: part(2),
        added: e.biases.map(address),
        tokens: e.tokens as u32,
        per_token: e.per_token as u32,
        outputs: e.outputs as u32,
        inner: e.inner as u32,
        experts: e.experts as u32,
    };
    let (rows, teams) = match e.after {
        After::Sum { .. } => (e.tokens, 1),
        After::Store { .. } | After::Gate => (e.tokens * e.per_token, team.teams(workgroup)),
    };
    let rows = rows as u32;
    let blocks = push.outputs.div_ceil(constants.outputs);
    let groups =
        [caps.groups_1d(u64::from(blocks), u64::from(teams)), rows.min(caps.max_groups[1]), 1];
    let pipeline = ctx.team_pipeline(mixture_experts::MIXTURE_EXPERTS, &constants, team);
    let writes: SmallVec<[Region; 2]> = match e.after {
        After::Store { second } => smallvec![e.result.region, second.region],
        After::Gate | After::Sum { .. } => smallvec![e.result.region],
    };
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push: &push,
        groups,
        reads: &e.reads(),
        writes: &writes,
    })
}
