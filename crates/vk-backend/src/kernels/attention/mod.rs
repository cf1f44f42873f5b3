//! Scaled dot product attention with an online softmax.

pub(crate) mod decode;
mod dispatch;
pub(crate) mod heads;
pub(crate) mod latent;
mod operands;
pub(crate) mod planner;
pub(crate) mod prefill;
pub(crate) mod vjp;

use std::array;

use mlx_vulkan_core::{
    Array, Dtype, Result,
    backend::Output,
    primitives::{self, AttentionMask},
    shape::Layout,
};
use smallvec::{SmallVec, smallvec};

use super::{
    Ctx, Operand, Region, copy,
    fragment::fragment,
    layouts::{
        attention as lanes, attention_derivatives as derivatives, attention_matrix as matrices,
    },
    operands::Dtypes,
    scaled::{self, Source, whole},
};
use crate::runtime::{
    capabilities::{Capabilities, Fragment},
    config::Config,
    stats,
};
use dispatch::{Way, run};
use operands::Heads;
use planner::{LanesPlan, Sizes};
use prefill::Prefill;

/// All kernels number masks alike.
const _: () = assert!(
    lanes::CAUSAL == matrices::CAUSAL
        && lanes::KEEP == matrices::KEEP
        && lanes::ADDITIVE == matrices::ADDITIVE
        && lanes::CAUSAL == derivatives::CAUSAL
        && lanes::KEEP == derivatives::KEEP
        && lanes::ADDITIVE == derivatives::ADDITIVE
);

/// Everything a dispatch needs.
struct Attention<'a> {
    q: Heads,
    k: Heads,
    v: Heads,
    mask: Option<&'a Array>,
    mask_at: Operand,
    sizes: Sizes,
    scale: f32,
    kind: u32,
    /// Of queries, keys and values, and of everything else.
    dtypes: Dtypes,
    /// Of the heads, dense, if there are any.
    sinks: Operand,
    /// Of float32 queries, keys and values that were scaled (`scaled/whole.rs`), else none.
    factors: Region,
}

/// Encodes attention.
///
/// # Errors
/// When memory or the device fails, or a head is too wide for the device.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    attention: primitives::Attention,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    let (scale, mask) = (attention.scale.0, attention.mask);
    let (inputs, sinks) = attention.split(inputs);
    let sinks = sinks.map(|sinks| copy::dense(ctx, sinks)).transpose()?;
    let (q, k, v) = (&inputs[0], &inputs[1], &inputs[2]);
    let sizes = sizes(inputs);
    let result = self::output(ctx, output)?;
    if output.size() == 0 {
        return Ok(());
    }
    let Some(plan) = planner::plan(&sizes, ctx.capabilities(), ctx.config()) else {
        return Err(ctx.unsupported(q, "a head is wider than the device's shared memory"));
    };
    if !counts_rows(&sizes, plan.splits) {
        return Err(ctx.unsupported(q, "more than 2^31 query rows or keys"));
    }
    let (q, k, v) = (Heads::new(ctx, q)?, Heads::new(ctx, k)?, Heads::new(ctx, v)?);
    let mask_array = (mask == AttentionMask::Array).then(|| &inputs[3]);
    let attention = Attention {
        mask_at: mask_array.map_or(Ok(q.at), |m| ctx.input(m))?,
        mask: mask_array,
        q,
        k,
        v,
        sizes,
        scale,
        kind: kind_of(mask, inputs),
        dtypes: output.dtype.into(),
        sinks: sinks.unwrap_or_default(),
        factors: Region::default(),
    };
    attend(ctx, attention, plan, strides_of(output), result)
}

/// Attention as a program writes it out: keys are (batches, heads, features, keys).
pub(crate) struct Written<'a> {
    pub(crate) q: &'a Array,
    pub(crate) keys: &'a Array,
    pub(crate) v: &'a Array,
    /// Of the scores' shape, to be added.
    pub(crate) mask: Option<&'a Array>,
    pub(crate) scale: f32,
}

impl Written<'_> {
    /// Its sizes.
    pub(crate) fn sizes(&self) -> Sizes {
        let Written { q, keys, v, .. } = self;
        Sizes {
            batches: q.dim(0),
            heads: q.dim(1),
            kv_heads: keys.dim(1),
            queries: q.dim(2),
            keys: keys.dim(3),
            key_width: q.dim(3),
            value_width: v.dim(3),
        }
    }

    /// Encodes it, if the keys are dense along their features; whether they are.
    ///
    /// # Errors
    /// When memory or the device fails.
    pub(crate) fn encode(&self, ctx: &mut Ctx<'_>, output: &mut Output) -> Result<bool> {
        let sizes = self.sizes();
        let plan = planner::plan(&sizes, ctx.capabilities(), ctx.config());
        let plan = plan.filter(|plan| counts_rows(&sizes, plan.splits));
        let (Some(plan), Some(k)) = (plan, Heads::turned(ctx, self.keys)?) else {
            return Ok(false);
        };
        let (q, v) = (Heads::new(ctx, self.q)?, Heads::new(ctx, self.v)?);
        let attention = Attention {
            mask_at: self.mask.map_or(Ok(q.at), |m| ctx.input(m))?,
            mask: self.mask,
            q,
            k,
            v,
            sizes,
            scale: self.scale,
            kind: if self.mask.is_some() { lanes::ADDITIVE } else { 0 },
            dtypes: output.dtype.into(),
            sinks: Operand::default(),
            factors: Region::default(),
        };
        let result = self::output(ctx, output)?;
        attend(ctx, attention, plan, strides_of(output), result)?;
        Ok(true)
    }
}

/// Whether a kernel made for such sizes runs, rather than the one for everything, where the device has them.
pub(crate) fn has_kernel(
    sizes: &Sizes,
    dtype: Dtype,
    caps: &Capabilities,
    config: &Config,
) -> bool {
    let own = fragment(dtype, [0; 2], caps, config);
    let fragment = match dtype {
        Dtype::Float32 => scaled_fragment(sizes, dtype, caps, config),
        _ => own,
    };
    let has_none = self::fragment(Dtype::Float16, [0; 2], caps, config).is_none();
    has_none
        || planner::decode(sizes, own, caps, config).is_some()
        || prefill::plan(sizes, fragment, caps, config).is_some()
}

/// Whether kernels count rows of queries, of so many parts of the keys, and keys.
fn counts_rows(sizes: &Sizes, splits: u32) -> bool {
    let rows = sizes.batches.saturating_mul(sizes.heads).saturating_mul(sizes.queries);
    rows.saturating_mul(splits as usize) < 1 << 31 && sizes.keys < 1 << 31
}

/// Encodes an attention by the kernel for its sizes; `plan` is that of the one for everything.
fn attend(
    ctx: &mut Ctx<'_>,
    mut attention: Attention<'_>,
    plan: LanesPlan,
    out: [i64; 3],
    result: Operand,
) -> Result<()> {
    let (sizes, sinks) = (attention.sizes, attention.sinks);
    let dtype = attention.dtypes.operands;
    let fragment = fragment(dtype, [0; 2], ctx.capabilities(), ctx.config());
    if let Some(plan) = planner::decode(&sizes, fragment, ctx.capabilities(), ctx.config())
        && let Some((token, mut reads)) = decode_token(ctx, &attention, result)?
    {
        let count = sizes.heads as u32;
        let has_sinks = sinks.address != 0;
        let token = decode::Attention {
            sinks: has_sinks.then_some(decode::Sinks { at: sinks.address, count }),
            ..token
        };
        reads.extend(has_sinks.then_some(sinks.region));
        return decode::encode(ctx, &plan, &sizes, &token, None, &reads, &[result.region]);
    }
    report(ctx.config(), &sizes, planner::closed_decode(&sizes, ctx.capabilities(), ctx.config()));
    let way = match scaled(ctx, &attention) {
        Some(plan) => {
            attention.scale(ctx)?;
            Way::Matrix(plan)
        }
        None => matrix(ctx, &attention).map_or(Way::Lanes(plan), Way::Matrix),
    };
    let kind = attention.kind;
    stats::hit(ctx.config(), "sdpa", || format!("{way:?} {sizes:?} mask {kind}"));
    if ctx.config().debug_sdpa_splitk {
        tracing::info!("sdpa split-k: {} parts for {sizes:?}", way.splits());
    }
    run(ctx, &attention, &way, out, result)
}

/// How kernels number a mask.
fn kind_of(mask: AttentionMask, inputs: &[Array]) -> u32 {
    match mask {
        AttentionMask::None => 0,
        AttentionMask::Causal => lanes::CAUSAL,
        AttentionMask::Array if inputs[3].dtype() == Dtype::Bool => lanes::KEEP,
        AttentionMask::Array => lanes::ADDITIVE,
    }
}

/// Tells the statistics which gate kept an attention from the kernel made for its shape.
fn report(config: &Config, sizes: &Sizes, gate: Option<&'static str>) {
    let Some(gate) = gate else { return };
    // Not the exact number of keys: every token of a decode would be another one.
    let (rows, keys) = (stats::row_bucket(sizes.queries), sizes.keys.next_power_of_two());
    let Sizes { heads, kv_heads, key_width, .. } = sizes;
    stats::reject(config, "sdpa", || {
        format!("{gate} for rows {rows}, heads {heads}/{kv_heads} width {key_width} keys<={keys}")
    });
}

/// The plan for cooperative matrices, where the device has them and the operands lie as they want it.
fn matrix(ctx: &Ctx<'_>, a: &Attention<'_>) -> Option<Prefill> {
    let (caps, config) = (ctx.capabilities(), ctx.config());
    // The kernel's offsets among queries and keys have 32 bits.
    let rows = (a.sizes.heads * a.sizes.value_width) as i64;
    let dtype = a.dtypes.operands;
    let fragment = fragment(dtype, [a.k.strides[2], a.v.strides[2]], caps, config)
        .and(fragment(dtype, [a.q.strides[2], rows], caps, config))?;
    let aligned = [&a.q, &a.k, &a.v].iter().all(|h| h.vectors());
    if aligned {
        report(config, &a.sizes, prefill::closed(&a.sizes, caps, config));
    }
    let plan = prefill::plan(&a.sizes, aligned.then_some(fragment), caps, config)?;
    counts(&a.sizes, &plan).then_some(plan)
}

/// Whether rows of all parts of the keys are counted in 32 bits.
fn counts(s: &Sizes, plan: &Prefill) -> bool {
    s.batches * s.heads * s.queries * (plan.splits as usize) < 1 << 31
}

/// The same for float32 whose products may be made of scaled float16.
fn scaled(ctx: &Ctx<'_>, a: &Attention<'_>) -> Option<Prefill> {
    let s = &a.sizes;
    let fragment = scaled_fragment(s, a.dtypes.operands, ctx.capabilities(), ctx.config())?;
    let plan = prefill::plan(s, Some(fragment), ctx.capabilities(), ctx.config())?;
    counts(s, &plan).then_some(plan)
}

/// What multiplies those.
fn scaled_fragment(
    s: &Sizes,
    dtype: Dtype,
    caps: &Capabilities,
    config: &Config,
) -> Option<Fragment> {
    let leading = [(s.heads * s.value_width) as i64, 0];
    scaled::fragment_of(dtype, s.multiplications(), leading, caps, config)
        .filter(|_| s.elements() <= scaled::MOST)
}

/// Rows of queries, keys and values to be scaled.
fn rows<'a>(
    [q, k, v]: [&Heads; 3],
    s: &Sizes,
    [queries, keys]: &'a [[usize; 2]; 2],
) -> [Source<'a>; 3] {
    [
        q.rows(queries, s.queries, s.key_width),
        k.rows(keys, s.keys, s.key_width),
        v.rows(keys, s.keys, s.value_width),
    ]
}

impl Attention<'_> {
    /// Makes its queries, keys and values float16.
    fn scale(&mut self, ctx: &mut Ctx<'_>) -> Result<()> {
        let s = &self.sizes;
        let scaled = whole::convert(ctx, rows([&self.q, &self.k, &self.v], s, &s.of_rows()))?;
        let widths = [s.key_width, s.key_width, s.value_width];
        ([self.q, self.k, self.v], self.factors) = (Heads::scaled(&scaled, widths), scaled.factors);
        self.dtypes.operands = scaled::DTYPES.operands;
        Ok(())
    }
}

/// The mask of one query token of every batch, if there is one, and what is read of it.
///
/// # Errors
/// When memory or the device fails.
pub(crate) fn token_mask(
    ctx: &mut Ctx<'_>,
    mask: Option<&Array>,
) -> Result<Option<(decode::Mask, Region)>> {
    let Some(mask) = mask else { return Ok(None) };
    let (operand, strides) = (ctx.input(mask)?, &mask.evaluated().layout.strides);
    let kernel = decode::Mask {
        at: operand.address,
        strides: [0, 1, 3].map(|axis| strides[axis] as i64),
        additive: mask.dtype() != Dtype::Bool,
    };
    Ok(Some((kernel, operand.region)))
}

/// One query token of every batch, with aligned dense rows, as `decode.comp` takes it, and what it reads.
fn decode_token(
    ctx: &mut Ctx<'_>,
    attention: &Attention<'_>,
    result: Operand,
) -> Result<Option<(decode::Attention, SmallVec<[Region; 5]>)>> {
    let Attention { q, k, v, mask, sizes, scale, dtypes, .. } = attention;
    let width = sizes.key_width;
    let of_keys = [sizes.batches, sizes.kv_heads];
    let heads = [k.counted_through(of_keys), v.counted_through(of_keys)];
    let [Some(key_head), Some(value_head)] = heads else { return Ok(None) };
    let between = [key_head, k.strides[2], value_head, v.strides[2]];
    let fits = q.counted_through([sizes.batches, sizes.heads]) == Some(width as i64)
        && between.iter().all(|s| s % 8 == 0 && (0..1 << 32).contains(s))
        && [q, k, v].iter().all(|h| h.at.is_aligned(16))
        && sizes.keys > 0;
    let mask = token_mask(ctx, *mask)?;
    let mut reads = SmallVec::from_slice(&[q.at.region, k.at.region, v.at.region]);
    reads.extend(mask.map(|(_, region)| region));
    let token = decode::Attention {
        q: q.at.address,
        keys: k.at.address,
        values: v.at.address,
        result: result.address,
        heads: (sizes.batches * sizes.heads) as u32,
        kv_heads: (sizes.batches * sizes.kv_heads) as u32,
        count: sizes.keys as u32,
        width: width as u32,
        strides: between.map(|s| s as u32),
        scale: *scale,
        dtype: dtypes.operands as u32,
        quantized: None,
        sinks: None,
        mask: mask.map(|(mask, _)| mask),
        marked: None,
    };
    Ok(fits.then_some((token, reads)))
}

/// Sizes of the attention of queries, keys and values.
pub(crate) fn sizes(inputs: &[Array]) -> Sizes {
    let (q, k, v) = (&inputs[0], &inputs[1], &inputs[2]);
    Sizes {
        batches: q.dim(0),
        heads: q.dim(1),
        kv_heads: k.dim(1),
        queries: q.dim(2),
        keys: k.dim(2),
        key_width: q.dim(3),
        value_width: v.dim(3),
    }
}

/// Allocates the output as (batch, query, head, feature) in memory, so that the transpose and
/// reshape that follow are views.
///
/// # Errors
/// When memory is out.
pub(crate) fn output(ctx: &mut Ctx<'_>, output: &mut Output) -> Result<Operand> {
    let [batch, head, query] = strides_of(output).map(|s| s as isize);
    let strides = smallvec![batch, head, query, 1];
    let layout = Layout::view(&output.shape, strides, 0, output.size(), true);
    ctx.output_like(output, layout)
}

/// Its strides of batch, head and query.
fn strides_of(output: &Output) -> [i64; 3] {
    let [_, heads, queries, width] = [0, 1, 2, 3].map(|i| output.shape[i] as i64);
    [queries * heads * width, width, heads * width]
}

fn bit(on: bool, flag: u32) -> u32 {
    if on { flag } else { 0 }
}

/// From element to element of a mask along its four axes; zeros without one.
fn mask_strides(mask: Option<&Array>) -> [i64; 4] {
    let strides = mask.map(|mask| &mask.evaluated().layout.strides);
    array::from_fn(|axis| strides.map_or(0, |strides| strides[axis] as i64))
}
