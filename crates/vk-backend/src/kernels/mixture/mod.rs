//! Mixtures of experts, but for those of long prompts: the experts that each token picks, and products with
//! their matrices; and all of that for one token.

mod rows;
pub(crate) mod token;

use mlx_vulkan_core::{Dtype, Result, primitives::Packing};

use smallvec::{SmallVec, smallvec};

use crate::{
    kernels::{
        Ctx, Dispatch, Operand, Region,
        layouts::{
            mixture_experts, mixture_route, mixture_router,
            scores::{DIVIDED_SHARES, ROUNDED_SCORES, SIGMOIDS},
        },
        matvec::{Format, Weights},
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

/// Which experts tokens pick, from the rows before the norm on.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    /// (tokens, inner) of 16-bit floats, dense.
    pub x: Operand,
    /// The weight of RMS norm, (inner).
    pub norm: Operand,
    pub eps: f32,
    pub router: Router,
    /// The normalized rows.
    pub normal: Operand,
    /// (tokens, count), uint32.
    pub picks: Operand,
    /// (tokens, count).
    pub shares: Operand,
    /// That of an expert that all tokens have: `picks` and `shares` have a last one more for it, under the
    /// number behind the others'.
    pub shared: Option<SharedShare>,
    /// How they are made, if not as softmax over the picks.
    pub scores: Option<Scores>,
    pub share_dtype: Dtype,
    pub dtype: Dtype,
    pub tokens: usize,
    pub inner: usize,
    pub experts: usize,
    pub count: usize,
}

/// The share of an expert that all tokens have.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SharedShare {
    One,
    /// The sigmoid of the normalized row times a row that has the router's format.
    Sigmoid(Weights),
}

/// Sigmoids of logits, of which the largest are picked, and how shares are made of these.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scores {
    /// Where the float32 (experts) are that are added to scores while experts are picked; or 0.
    pub bias: u64,
    /// Scores have the logits' dtype, else float32.
    pub rounded: bool,
    /// Shares are divided by their sum and this.
    pub eps: Option<f32>,
    /// What shares are multiplied with.
    pub factor: f32,
}

/// The same as kernels have it.
pub(crate) struct Scoring {
    pub bits: u32,
    pub bias: u64,
    pub eps: f32,
    pub factor: f32,
}

impl From<Option<Scores>> for Scoring {
    fn from(scores: Option<Scores>) -> Self {
        let Some(Scores { bias, rounded, eps, factor }) = scores else {
            return Scoring { bits: 0, bias: 0, eps: 0.0, factor: 1.0 };
        };
        let of = |has: bool, bit: u32| if has { bit } else { 0 };
        let bits = SIGMOIDS | of(rounded, ROUNDED_SCORES) | of(eps.is_some(), DIVIDED_SHARES);
        Scoring { bits, bias, eps: eps.unwrap_or_default(), factor }
    }
}

/// The matrix (experts, inner) of the logits, with its bias (experts).
#[derive(Debug, Clone)]
pub(crate) struct Router {
    pub matrix: Weights,
    pub format: Format,
    pub reads: SmallVec<[Region; 4]>,
}

/// Bits of a router's elements that kernels read.
const ROUTER_BITS: [u32; 3] = [4, 8, 16];
/// Tokens up to which each reads the router's matrix by itself.
const MOST_TOKENS: usize = 64;
/// Logits for each multiprocessor up to which a workgroup makes one, and not each of its subgroups. Measured
/// on an H200 with 128 experts, µs by workgroups and by subgroups: 8 tokens 11.3 and 12.5, 16 14.4 and 13.4;
/// 64 34.2 and 21.7, before words came by octets, 17.4 since.
const LOGITS_AT_ONCE: usize = 12;

/// Whether [`choose`] serves rows of `inner` elements of `dtype`, of so many tokens, and a router of this
/// format.
pub(crate) fn chooses(
    dtype: Dtype,
    [tokens, inner, experts]: [usize; 3],
    format: Format,
    caps: &Capabilities,
) -> bool {
    let (row, matrix) = (inner.is_multiple_of(8), inner.checked_mul(experts));
    tokens <= MOST_TOKENS
        && dtype.is_floating()
        && dtype.size() == 2
        && ROUTER_BITS.contains(&format.bits)
        && !format.floats
        && row
        && matrix.is_some_and(|elements| elements < 1 << 28)
        && experts < caps.max_groups[0] as usize
}

/// Encodes the choice of experts, with the norm and the router before it.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn choose(ctx: &mut Ctx<'_>, c: &Choice) -> Result<()> {
    let caps = ctx.capabilities();
    let team = Team::of(caps, true);
    let subgroup = team.subgroup;
    let (matrix, format) = (&c.router.matrix, c.router.format);
    let workgroup = team.workgroup(caps, 256);
    let by_subgroups = c.tokens * c.experts > caps.compute_units as usize * LOGITS_AT_ONCE;
    let constants = mixture_router::Constants {
        workgroup,
        dtype: c.dtype as u32,
        subgroup,
        each: (c.experts as u32).div_ceil(subgroup),
        bits: format.bits,
        group_log: format.group.ilog2(),
        by_subgroups: u32::from(by_subgroups),
    };
    let logits = scratch(ctx, c.dtype.size() * c.tokens * (c.experts + 1))?;
    let counters = ctx.counters(c.tokens as u64)?;
    let [scales, biases] = format.affine(matrix);
    let shared = match &c.shared {
        Some(SharedShare::Sigmoid(row)) => Some(row),
        Some(SharedShare::One) | None => None,
    };
    let [shared_scales, shared_biases] = shared.map_or([0; 2], |row| format.affine(row));
    let Scoring { bits, bias, eps, factor } = c.scores.into();
    let more = mixture_router::More {
        words: shared.map_or(0, |row| row.words),
        scales: shared_scales,
        biases: shared_biases,
        score_bias: bias,
        shared_experts: c.shared.is_some().into(),
        scoring: bits,
        share_eps: eps,
        share_factor: factor,
        share_dtype: c.share_dtype as u32,
        unused: 0,
    };
    // Softmax has the dtype of the logits.
    let is_plain = c.shared.is_none() && c.scores.is_none();
    let more = if is_plain { 0 } else { ctx.args(bytemuck::bytes_of(&more))? };
    let push = mixture_router::Push {
        x: c.x.address,
        weight: c.norm.address,
        normal: c.normal.address,
        words: matrix.words,
        scales,
        biases,
        bias: matrix.bias.map_or(0, |bias| bias.at),
        logits: logits.address,
        picks: c.picks.address,
        shares: c.shares.address,
        counters: counters.address,
        more,
        inner: c.inner as u32,
        experts: c.experts as u32,
        count: c.count as u32,
        at_once: matrix.bias.is_some_and(|bias| bias.at_once).into(),
        eps: c.eps,
    };
    let all = push.experts + u32::from(shared.is_some());
    let each = if by_subgroups { workgroup / subgroup } else { 1 };
    let pipeline = ctx.team_pipeline(mixture_router::MIXTURE_ROUTER, &constants, team);
    let mut reads = c.router.reads.clone();
    reads.extend([c.x.region, c.norm.region]);
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push: &push,
        groups: [all.div_ceil(each), c.tokens as u32, 1],
        reads: &reads,
        writes: &[c.normal.region, logits.region, c.picks.region, c.shares.region, counters],
    })
}

fn scratch(ctx: &mut Ctx<'_>, bytes: usize) -> Result<Operand> {
    let region = ctx.scratch(bytes as u64)?;
    Ok(Operand { address: region.address, region })
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
    /// The same matrices of an expert that all tokens have, whose number is behind the others'.
    pub shared: Option<[[Operand; 3]; 2]>,
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
    /// Those of a token's picks are weighed by `shares`, of `dtype`, and summed, with `addend`, of the sum's
    /// shape.
    Sum { shares: Operand, dtype: Dtype, addend: Option<Operand> },
}

impl Experts {
    fn reads(&self) -> Vec<Region> {
        let parts = self.matrices.iter().flatten();
        let others = match &self.after {
            After::Sum { shares, addend, .. } => [Some(shares), addend.as_ref()],
            After::Store { .. } | After::Gate => [None; 2],
        };
        let others = others.into_iter().flatten().chain(self.biases.iter().flatten());
        let others = others.chain(self.shared.iter().flatten().flatten());
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
    if e.shared.is_none() && rows::experts(ctx, e)? { Ok(()) } else { one_by_one(ctx, e) }
}

/// The same by a kernel that reads an expert's weights for each pick.
fn one_by_one(ctx: &mut Ctx<'_>, e: &Experts) -> Result<()> {
    let caps = ctx.capabilities();
    let team = Team::of(caps, true);
    let workgroup = team.workgroup(caps, 128);
    let stacks = e.matrices.iter().chain(e.shared.iter().flatten());
    let words = stacks.into_iter().all(|[words, ..]| words.is_aligned(16));
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
    let (shares, share_dtype, other) = match e.after {
        After::Store { second } => (None, e.dtype, Some(second)),
        After::Gate => (None, e.dtype, None),
        After::Sum { shares, dtype, addend } => (Some(shares), dtype, addend),
    };
    let address = |at: Option<Operand>| at.map_or(0, |at| at.address);
    let part = |i: usize| e.matrices.map(|matrix| matrix[i].address);
    let others = if e.shared.is_some() || e.biases.iter().any(Option::is_some) {
        let shared = |i: usize| e.shared.map_or([0; 2], |pair| pair.map(|parts| parts[i].address));
        let [words, scales, biases] = [0, 1, 2].map(shared);
        let added = e.biases.map(address);
        ctx.args(bytemuck::bytes_of(&mixture_experts::Others { added, words, scales, biases }))?
    } else {
        0
    };
    let push = mixture_experts::Push {
        x: e.x.address,
        result: e.result.address,
        picks: e.picks.address,
        shares: address(shares),
        other: address(other),
        words: part(0),
        scales: part(1),
        biases: part(2),
        others,
        tokens: e.tokens as u32,
        per_token: e.per_token as u32,
        outputs: e.outputs as u32,
        inner: e.inner as u32,
        experts: e.experts as u32,
        share_dtype: share_dtype as u32,
        shared_experts: e.shared.is_some().into(),
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
