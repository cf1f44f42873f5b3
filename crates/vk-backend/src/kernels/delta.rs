//! The gated delta rule: a row of a state in the registers of a team, over all tokens.

use mlx_vulkan_core::{Array, Dtype, Result, backend::Output, primitives::GatedDelta};

use super::{
    Capabilities, Ctx, Dispatch, Operand, Region, args, copy,
    layouts::delta::{
        Constants, DELTA_GATED, DELTA_SINGLE, DELTA_SUBGROUP, FEATURES_FLAG, GatedPush, Push,
        VECTOR_FLAG,
    },
    team::Team,
};

/// Threads of a workgroup.
const THREADS: u32 = 128;

/// Key features of a thread, of which there may be fewer, or more where a team is a subgroup.
const FEATURES: u32 = 16;

/// The same of one token's, where a workgroup of many threads leaves them few registers.
const FEATURES_OF_TOKEN: u32 = 8;

/// Threads that share a row of `keys` features, `each` a thread: a power of two.
fn team(keys: u32, each: u32, caps: &Capabilities) -> u32 {
    if !caps.subgroup_ops.shuffle {
        return 1;
    }
    keys.div_ceil(each).next_power_of_two().min(caps.subgroup_size)
}

/// Heads of the tokens of every batch as a kernel reads them.
#[derive(Debug, Clone, Copy)]
struct Tokens {
    at: Operand,
    /// Elements from a token to the next one, of the same batch or not.
    stride: u32,
}

/// An input (batch, time, heads, features) in place if its tokens lie one after the other, else a dense copy.
fn tokens(ctx: &mut Ctx<'_>, input: &Array) -> Result<Tokens> {
    let strides = &input.evaluated().layout.strides;
    let [batch, time, heads, width] = input.shape()[..] else { unreachable!("four axes") };
    let features = (width == 1 || strides[3] == 1) && (heads == 1 || strides[2] == width as isize);
    let stride = match (batch, time) {
        (_, 1) => strides[0],
        (1, _) => strides[1],
        _ if strides[0] == strides[1] * time as isize => strides[1],
        _ => -1,
    };
    let stride = if batch * time == 1 { Some(0) } else { u32::try_from(stride).ok() };
    match stride.filter(|_| features) {
        Some(stride) => Ok(Tokens { at: ctx.input(input)?, stride }),
        None => {
            let stride = u32::try_from(heads * width);
            let stride = stride.map_err(|_| ctx.unsupported(input, "a token is too large"))?;
            Ok(Tokens { at: copy::dense(ctx, input)?, stride })
        }
    }
}

/// Encodes the steps of all tokens.
///
/// # Errors
/// When sizes are beyond 32 bits, or memory or the device fails.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    GatedDelta: GatedDelta,
    inputs: &[Array],
    output: &mut Output,
    others: &mut [Output],
) -> Result<()> {
    let [q, k, v, gamma, beta, state] = args(inputs);
    let [batch, heads, values, keys] = size(ctx, state)?;
    let time = u32::try_from(v.dim(1)).map_err(|_| ctx.unsupported(v, "tokens are too many"))?;
    let [queries, keys_at, values_at] = [tokens(ctx, q)?, tokens(ctx, k)?, tokens(ctx, v)?];
    let [decays, rates, before] =
        [copy::dense(ctx, gamma)?, copy::dense(ctx, beta)?, copy::dense(ctx, state)?];
    let y = ctx.output(output)?;
    // A team reads its row before it writes it.
    let after = ctx.output_or_donate(&[state], &mut others[0])?;
    let features = gamma.ndim() == 4;
    let decays_lie = !features || decays.is_aligned(4 * gamma.dtype().size() as u64);
    let vector =
        decays_lie && are_quads([&queries, &keys_at], [&before, &after], output.dtype, keys);
    let caps = ctx.capabilities();
    let workgroup = if caps.is_software() { caps.subgroup_size } else { THREADS };
    let heads = Heads { heads, group: heads / q.dim(2) as u32, values, keys };
    let team = team(keys, FEATURES, caps);
    let mut constants = constants(&heads, output.dtype, [workgroup, team], vector, caps);
    constants.gamma_dtype = gamma.dtype() as u32;
    constants.beta_dtype = beta.dtype() as u32;
    constants.part = constants.workgroup / constants.team;
    if features {
        constants.flags |= FEATURES_FLAG;
    }
    let push = Push {
        q: queries.at.address,
        k: keys_at.at.address,
        v: values_at.at.address,
        gamma: decays.address,
        beta: rates.address,
        state: before.address,
        y: y.address,
        next: after.address,
        heads: batch * heads.heads,
        time,
        query_stride: queries.stride,
        key_stride: keys_at.stride,
        value_stride: values_at.stride,
    };
    let kernel = if constants.team > 1 { DELTA_SUBGROUP } else { DELTA_SINGLE };
    let subgroups = Team { subgroups: constants.team > 1, subgroup: caps.subgroup_size };
    let pipeline = ctx.team_pipeline(kernel, &constants, subgroups);
    let parts = u64::from(values.div_ceil(constants.part));
    let groups = [caps.groups_1d(u64::from(push.heads) * parts, 1), 1, 1];
    let reads = [queries.at, keys_at.at, values_at.at, decays, rates, before].map(|at| at.region);
    let writes = [y.region, after.region];
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push: &push,
        groups,
        reads: &reads,
        writes: &writes,
    })
}

/// Heads of a sequence: value heads, how many share a key head, and their features.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heads {
    pub heads: u32,
    pub group: u32,
    pub values: u32,
    pub keys: u32,
}

/// What all kernels are made with; a workgroup has all values of a head.
fn constants(
    heads: &Heads,
    dtype: Dtype,
    [workgroup, team]: [u32; 2],
    vector: bool,
    caps: &Capabilities,
) -> Constants {
    Constants {
        workgroup: workgroup.max(team).min(caps.max_workgroup),
        dtype: dtype as u32,
        gamma_dtype: Dtype::Float32 as u32,
        beta_dtype: Dtype::Float32 as u32,
        heads: heads.heads,
        group: heads.group,
        values: heads.values,
        keys: heads.keys,
        team,
        flags: if vector { VECTOR_FLAG } else { 0 },
        part: heads.values,
        subgroup: caps.subgroup_size,
        query_scale: 0,
        key_scale: 0,
    }
}

/// Whether rows of queries and keys, of `width` features, and of states are aligned quads.
fn are_quads(tokens: [&Tokens; 2], states: [&Operand; 2], dtype: Dtype, width: u32) -> bool {
    let quad = 4 * dtype.size() as u64;
    let lie = |tokens: &&Tokens| tokens.at.is_aligned(quad) && tokens.stride.is_multiple_of(4);
    width.is_multiple_of(4)
        && tokens.iter().all(lie)
        && states.iter().all(|state| state.is_aligned(16))
}

/// One token of every sequence with its gates: queries and keys before their norms, which are multiplied with
/// `scales`; decays are `exp(decay softplus(a + shift))` and rates `sigmoid(b)`; the outputs are normalized
/// and multiplied with `silu(z)`.
pub(crate) struct Gated<'a> {
    pub q: &'a Array,
    pub k: &'a Array,
    pub v: &'a Array,
    pub a: &'a Array,
    pub b: &'a Array,
    pub state: &'a Array,
    pub decay: &'a Array,
    pub shift: &'a Array,
    pub z: &'a Array,
    pub weight: &'a Array,
    pub scales: [f32; 2],
    /// Of the norms of queries and keys, and of that of outputs.
    pub eps: [f32; 2],
}

/// Values of a head that fit in shared memory.
const MOST_VALUES: usize = 2048;

/// Whether a device has the kernel of [`Gated`], for heads of so many values.
pub(crate) fn has_gated(values: usize, caps: &Capabilities) -> bool {
    let ops = &caps.subgroup_ops;
    ops.arithmetic && ops.shuffle && (1..=MOST_VALUES).contains(&values) && caps.subgroup_size > 1
}

/// The same as kernels take it, with where the gated outputs go, those before, and the new state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenDelta {
    q: Tokens,
    k: Tokens,
    v: Tokens,
    pub a: Operand,
    pub b: Operand,
    pub decay: Operand,
    pub shift: Operand,
    pub z: Operand,
    pub weight: Operand,
    pub state: Operand,
    pub result: Operand,
    pub y: Operand,
    pub next: Operand,
    pub batch: u32,
    pub heads: Heads,
    pub dtype: Dtype,
    pub scales: [f32; 2],
    pub eps: [f32; 2],
}

impl TokenDelta {
    /// Queries, keys and values, dense of one token.
    pub(crate) fn rows(&self) -> [Operand; 3] {
        [self.q, self.k, self.v].map(|tokens| tokens.at)
    }

    fn reads(&self) -> [Region; 10] {
        let [q, k, v] = self.rows();
        let &TokenDelta { a, b, decay, shift, z, weight, state, .. } = self;
        [q, k, v, state, a, b, decay, shift, z, weight].map(|at| at.region)
    }

    fn writes(&self) -> [Region; 3] {
        [self.result, self.y, self.next].map(|at| at.region)
    }
}

/// Encodes it, as a step where the stream makes runs of such; outputs are the gated ones, those before, and
/// the new state.
///
/// # Errors
/// When sizes are beyond 32 bits, or memory or the device fails.
pub(crate) fn gated(
    ctx: &mut Ctx<'_>,
    token: &Gated<'_>,
    [result, y, next]: [&mut Output; 3],
) -> Result<()> {
    let [batch, heads, values, keys] = size(ctx, token.state)?;
    let [q, k, v] = [tokens(ctx, token.q)?, tokens(ctx, token.k)?, tokens(ctx, token.v)?];
    let others = [token.a, token.b, token.decay, token.shift, token.z, token.weight];
    let mut dense = [Operand::default(); 6];
    for (at, array) in dense.iter_mut().zip(others) {
        *at = copy::dense(ctx, array)?;
    }
    let [a, b, decay, shift, z, weight] = dense;
    let state = copy::dense(ctx, token.state)?;
    let heads = Heads { heads, group: heads / token.q.dim(2) as u32, values, keys };
    let mut step = TokenDelta {
        q,
        k,
        v,
        a,
        b,
        decay,
        shift,
        z,
        weight,
        state,
        dtype: y.dtype,
        result: ctx.output(result)?,
        y: ctx.output(y)?,
        next: state,
        batch,
        heads,
        scales: token.scales,
        eps: token.eps,
    };
    if ctx.runs().is_some_and(|runs| runs.serves_delta(&step)) {
        // A run may be repeated, so it reads the state that was there before.
        step.next = ctx.output(next)?;
        let (reads, writes) = (step.reads(), step.writes());
        return ctx.put_off(Box::new(step), &reads, &writes);
    }
    step.next = ctx.output_or_donate(&[token.state], next)?;
    dispatch_gated(ctx, &step)
}

/// Encodes it as a dispatch.
///
/// # Errors
/// When the driver refuses the pipeline, or the device fails.
pub(crate) fn dispatch_gated(ctx: &mut Ctx<'_>, step: &TokenDelta) -> Result<()> {
    let &TokenDelta { q, k, v, heads, dtype, .. } = step;
    let caps = ctx.capabilities();
    let vector = are_quads([&q, &k], [&step.state, &step.next], dtype, heads.keys);
    let team = Team::of(caps, true);
    let threads = self::team(heads.keys, FEATURES_OF_TOKEN, caps);
    let workgroup = team.workgroup(caps, (threads * heads.values).min(caps.max_workgroup));
    let mut constants = constants(&heads, dtype, [workgroup, threads], vector, caps);
    [constants.query_scale, constants.key_scale] = step.scales.map(f32::to_bits);
    let pipeline = ctx.team_pipeline(DELTA_GATED, &constants, team);
    let push = GatedPush {
        q: q.at.address,
        k: k.at.address,
        v: v.at.address,
        a: step.a.address,
        b: step.b.address,
        state: step.state.address,
        y: step.y.address,
        next: step.next.address,
        decay: step.decay.address,
        shift: step.shift.address,
        z: step.z.address,
        weight: step.weight.address,
        result: step.result.address,
        heads: step.batch * heads.heads,
        query_stride: q.stride,
        key_stride: k.stride,
        value_stride: v.stride,
        eps: step.eps[0],
        end_eps: step.eps[1],
    };
    let groups = [caps.groups_1d(u64::from(push.heads), 1), 1, 1];
    let (reads, writes) = (step.reads(), step.writes());
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push: &push,
        groups,
        reads: &reads,
        writes: &writes,
    })
}

/// Batches, value heads, values and key features.
///
/// # Errors
/// When there are too many heads, or a head's state is too large.
fn size(ctx: &Ctx<'_>, state: &Array) -> Result<[u32; 4]> {
    let sizes = state.shape().iter().map(|&size| u32::try_from(size).ok());
    let sizes: Option<Vec<u32>> = sizes.collect();
    let fits = |sizes: &[u32; 4]| {
        let [batch, heads, values, keys] = sizes;
        let counted = |a: &u32, b: &u32| a.checked_mul(*b).is_some();
        counted(batch, heads) && counted(values, keys) && counted(heads, values)
    };
    let sizes = sizes.and_then(|sizes| sizes.try_into().ok()).filter(fits);
    sizes.ok_or_else(|| ctx.unsupported(state, "heads or features are too many"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::capabilities::SubgroupOps;

    #[test]
    fn teams_fit_devices() {
        for (subgroup_size, max_workgroup, shuffle) in
            [(32, 1024, true), (8, 128, true), (64, 256, true), (16, 1024, false), (1, 64, false)]
        {
            let subgroup_ops = SubgroupOps { shuffle, ..Capabilities::default().subgroup_ops };
            let caps = Capabilities {
                subgroup_size,
                max_workgroup,
                subgroup_ops,
                ..Capabilities::default()
            };
            for keys in [1, 3, 16, 64, 128, 200, 1024] {
                for (each, values) in [(FEATURES, 128), (FEATURES_OF_TOKEN, 128), (FEATURES, 3)] {
                    let team = team(keys, each, &caps);
                    let heads = Heads { heads: 4, group: 2, values, keys };
                    let c = constants(&heads, Dtype::Bfloat16, [THREADS, team], false, &caps);
                    assert!(team.is_power_of_two() && team <= subgroup_size, "{keys} {caps:?}");
                    assert!(c.workgroup <= max_workgroup && c.workgroup >= team, "{keys} {caps:?}");
                    assert!(shuffle || team == 1, "{keys} {caps:?}");
                }
            }
        }
    }
}
