//! The gated delta rule: a row of a state in the registers of a team, over all tokens.

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::GatedDelta};

use super::{
    Capabilities, Ctx, Dispatch, Operand, args, copy,
    layouts::delta::{Constants, DELTA_SINGLE, DELTA_SUBGROUP, FEATURES_FLAG, Push, VECTOR_FLAG},
};

/// Threads of a workgroup.
const THREADS: u32 = 128;

/// Key features of a thread, of which there may be fewer, or more where a team is a subgroup.
const FEATURES: u32 = 16;

/// Threads that share a row of `keys` features: a power of two.
fn team(keys: u32, caps: &Capabilities) -> u32 {
    if !caps.subgroup_ops.shuffle {
        return 1;
    }
    keys.div_ceil(FEATURES).next_power_of_two().min(caps.subgroup_size)
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
    let [queries, keys_at, values_at] = [tokens(ctx, q)?, tokens(ctx, k)?, tokens(ctx, v)?];
    let [decays, rates, before] =
        [copy::dense(ctx, gamma)?, copy::dense(ctx, beta)?, copy::dense(ctx, state)?];
    let y = ctx.output(output)?;
    // A team reads its row before it writes it.
    let after = ctx.output_or_donate(&[state], &mut others[0])?;
    let quad = 4 * output.dtype.size() as u64;
    let aligned = |tokens: &Tokens| tokens.at.is_aligned(quad) && tokens.stride.is_multiple_of(4);
    let features = gamma.ndim() == 4;
    let vector = keys.is_multiple_of(4)
        && aligned(&queries)
        && aligned(&keys_at)
        && [before, after].iter().all(|state| state.is_aligned(16))
        && (!features || decays.is_aligned(4 * gamma.dtype().size() as u64));
    let flag = |on: bool, flag: u32| if on { flag } else { 0 };
    let caps = ctx.capabilities();
    let team = team(keys, caps);
    let workgroup = if caps.is_software() { caps.subgroup_size } else { THREADS };
    let workgroup = workgroup.max(team).min(caps.max_workgroup);
    let constants = Constants {
        workgroup,
        dtype: output.dtype as u32,
        gamma_dtype: gamma.dtype() as u32,
        beta_dtype: beta.dtype() as u32,
        heads,
        group: heads / q.dim(2) as u32,
        values,
        keys,
        team,
        flags: flag(vector, VECTOR_FLAG) | flag(features, FEATURES_FLAG),
        part: workgroup / team,
        subgroup: caps.subgroup_size,
        query_scale: 0,
        key_scale: 0,
    };
    let push = Push {
        q: queries.at.address,
        k: keys_at.at.address,
        v: values_at.at.address,
        gamma: decays.address,
        beta: rates.address,
        state: before.address,
        y: y.address,
        next: after.address,
        heads: batch * heads,
        time: v.dim(1) as u32,
        query_stride: queries.stride,
        key_stride: keys_at.stride,
        value_stride: values_at.stride,
    };
    let kernel = if team > 1 { DELTA_SUBGROUP } else { DELTA_SINGLE };
    let pipeline = ctx.pipeline(kernel, &constants);
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

/// Batches, value heads, values and key features.
///
/// # Errors
/// When there are too many heads, or a head's state is too large.
fn size(ctx: &Ctx<'_>, state: &Array) -> Result<[u32; 4]> {
    let sizes = state.shape().iter().map(|&size| u32::try_from(size).ok());
    let sizes: Option<Vec<u32>> = sizes.collect();
    let fits = |sizes: &[u32; 4]| {
        let [batch, heads, values, keys] = sizes;
        batch.checked_mul(*heads).is_some() && values.checked_mul(*keys).is_some()
    };
    let sizes = sizes.and_then(|sizes| sizes.try_into().ok()).filter(fits);
    sizes.ok_or_else(|| ctx.unsupported(state, "heads or features are too many"))
}
