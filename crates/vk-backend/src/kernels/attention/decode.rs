//! Attention of one query token (`attention/decode.comp`), with the norms, rotations and cache writes that
//! come before it, over keys and values that are dense or quantized.

use mlx_vulkan_core::{Dtype, Result, primitives::Affine};
use smallvec::SmallVec;

use crate::{
    kernels::{
        Ctx, Region,
        attention::planner::{self, Decode, DecodeShape, Sizes},
        layouts::attention_decode::{
            self as shader, ATTENTION_DECODE, ATTENTION_DECODE_BFLOAT16, ATTENTION_DECODE_FIELDS,
            ATTENTION_DECODE_FLOAT16, ATTENTION_DECODE_QUANTIZED, Constants, More, Push,
        },
    },
    runtime::{commit::Call, stats},
};

/// Attention of one query token of every sequence. Heads of all sequences are counted through: those of one
/// lie behind those of another everywhere.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Attention {
    /// (heads, width), dense; not used where the kernel prepares the query itself.
    pub(crate) q: u64,
    /// Words of a quantized cache.
    pub(crate) keys: u64,
    /// The same.
    pub(crate) values: u64,
    /// (heads, width), dense.
    pub(crate) result: u64,
    pub(crate) heads: u32,
    pub(crate) kv_heads: u32,
    pub(crate) count: u32,
    pub(crate) width: u32,
    /// Strides of heads and rows, in elements, of the keys and of the values; of quantized ones in elements
    /// that they stand for, multiples of 32 and of the group size.
    pub(crate) strides: [u32; 4],
    pub(crate) scale: f32,
    pub(crate) dtype: u32,
    pub(crate) quantized: Option<Quantized>,
    pub(crate) sinks: Option<Sinks>,
    pub(crate) mask: Option<Mask>,
    pub(crate) marked: Option<Marked>,
}

/// Where results of an attention in splits go once more: as words of a value's 16 bits and a run's tag, so
/// that the run may begin before the attention has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Marked {
    pub(crate) region: Region,
    pub(crate) tag: u32,
}

/// Which keys heads see: bools, or numbers of the dtype that are added to scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mask {
    pub(crate) at: u64,
    /// From sequence to sequence, head to head and key to key, in elements.
    pub(crate) strides: [i64; 3],
    pub(crate) additive: bool,
}

/// Scores of heads, which those of all sequences share, that take their share and add no value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sinks {
    pub(crate) at: u64,
    pub(crate) count: u32,
}

/// What makes keys and values quantized ones, both of one format.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quantized {
    pub(crate) affine: Affine,
    /// Scales and biases of the keys, then of the values.
    pub(crate) parts: [u64; 4],
    /// A float of the dtype that scores are multiplied with beside the scale; 0 for none.
    pub(crate) factor: u64,
}

impl Attention {
    /// Whether cooperative matrices can take its quantized cache where it lies: rows are whole, begin where
    /// the longest loads may, and are counted in 32 bits.
    pub(crate) fn fits_fields(&self) -> bool {
        let Some(Quantized { parts, .. }) = self.quantized else { return false };
        let near = |stride: u32| u64::from(stride) * u64::from(self.count) < 1 << 31;
        self.strides.iter().all(|stride| stride.is_multiple_of(self.width))
            && [self.keys, self.values].iter().all(|at| at.is_multiple_of(16))
            && parts.iter().all(|at| at.is_multiple_of(4))
            && near(self.strides[1])
            && near(self.strides[3])
    }
}

/// What angle a feature is rotated by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Angle {
    /// The position, an int32, or those of all sequences.
    pub(crate) offset: u64,
    /// Whether every sequence has its own.
    pub(crate) of_sequences: bool,
    /// Pairs of float32, or divisors.
    pub(crate) frequencies: u64,
    pub(crate) divisors: bool,
    pub(crate) traditional: bool,
    /// Features of a head that are rotated, the first ones.
    pub(crate) features: u32,
    pub(crate) scale: f32,
}

/// Where the query, the new key and its value come from when the kernel prepares them itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Projections {
    /// Heads of `width` elements, `query_head` apart.
    pub(crate) q: u64,
    pub(crate) query_head: u32,
    /// (kv heads, width).
    pub(crate) key: u64,
    /// (kv heads, width).
    pub(crate) value: u64,
    /// Weights of the norms of queries and keys, and their eps.
    pub(crate) norms: Option<([u64; 2], f32)>,
    pub(crate) angle: Angle,
}

/// The attention of one token with what comes before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) plan: Decode,
    pub(crate) sizes: Sizes,
    pub(crate) attention: Attention,
    pub(crate) projections: Projections,
}

/// Encodes the attention of one token with what comes before it, as a step where the stream makes runs
/// of such.
///
/// # Errors
/// When memory or the device fails, or the driver refuses the pipeline.
pub(crate) fn encode_token(
    ctx: &mut Ctx<'_>,
    token: &Token,
    reads: &[Region],
    writes: &[Region],
) -> Result<()> {
    if ctx.runs().is_some_and(|runs| runs.serves_attention(token)) {
        return ctx.put_off(*token, reads, writes);
    }
    dispatch_token(ctx, token, reads, writes)
}

/// Encodes the same as a dispatch.
///
/// # Errors
/// When memory or the device fails, or the driver refuses the pipeline.
pub(crate) fn dispatch_token(
    ctx: &mut Ctx<'_>,
    token: &Token,
    reads: &[Region],
    writes: &[Region],
) -> Result<()> {
    let Token { plan, sizes, attention, projections } = token;
    encode(ctx, plan, sizes, attention, Some(projections), reads, writes)
}

/// Encodes an attention with what comes before it.
///
/// # Errors
/// When memory or the device fails, or the driver refuses the pipeline.
pub(crate) fn encode(
    ctx: &mut Ctx<'_>,
    plan: &Decode,
    sizes: &Sizes,
    attention: &Attention,
    fused: Option<&Projections>,
    reads: &[Region],
    writes: &[Region],
) -> Result<()> {
    stats::hit(ctx.config(), "sdpa", || {
        // A line per token would be no statistic.
        let keys = sizes.keys.next_power_of_two();
        format!("{plan:?} {:?}", Sizes { keys, ..*sizes })
    });
    let mut writes: SmallVec<[Region; 9]> = writes.into();
    let mut for_splits = [0; 2];
    if plan.splits > 1 {
        let bytes = u64::from(attention.heads * plan.splits) * u64::from(attention.width + 4) * 4;
        let (parts, counters) = (ctx.scratch(bytes)?, ctx.counters(attention.heads.into())?);
        for_splits = [parts.address, counters.address];
        writes.extend([parts, counters]);
    }
    let positions = fused.is_some_and(|f| f.angle.of_sequences);
    let more = match more(attention, positions, sizes.kv_heads) {
        Some(more) => ctx.args(bytemuck::bytes_of(&more))?,
        None => 0,
    };
    let call = call(ctx, *plan, for_splits, more, attention, fused)?;
    match attention.marked {
        Some(marked) => {
            writes.push(marked.region);
            ctx.encode_leading(call, reads, &writes)
        }
        None => ctx.encode(call, reads, &writes),
    }
}

/// The rest of a quantized cache, sinks, a mask, how many heads share `positions` of sequences, and where
/// results go with a tag.
fn more(attention: &Attention, positions: bool, sequence_heads: usize) -> Option<More> {
    let Attention { quantized, sinks, mask, marked, .. } = attention;
    let plain = quantized.is_none() && sinks.is_none() && mask.is_none();
    if plain && marked.is_none() && !positions {
        return None;
    }
    let [mask_sequence, mask_head, mask_key] = mask.map_or([0; 3], |mask| mask.strides);
    let [key_scales, key_biases, value_scales, value_biases] =
        quantized.map_or([0; 4], |q| q.parts);
    Some(More {
        key_scales,
        key_biases,
        value_scales,
        value_biases,
        factor: quantized.map_or(0, |q| q.factor),
        sinks: sinks.map_or(0, |sinks| sinks.at),
        mask: mask.map_or(0, |mask| mask.at),
        mask_sequence,
        mask_head,
        mask_key,
        marked: marked.map_or(0, |marked| marked.region.address),
        tag: marked.map_or(0, |marked| marked.tag),
        unused: 0,
        sequence_heads: sequence_heads as u32,
        sinks_count: sinks.map_or(1, |sinks| sinks.count),
    })
}

/// The dispatch; `parts` is scratch memory for splits of the keys, `counters` zeroed words for finished ones,
/// `more` where the rest of a quantized cache, sinks and a mask are.
fn call(
    ctx: &Ctx<'_>,
    Decode { splits, fragments }: Decode,
    [parts, counters]: [u64; 2],
    more: u64,
    attention: &Attention,
    fused: Option<&Projections>,
) -> Result<Call> {
    let caps = ctx.capabilities();
    let group = attention.heads / attention.kv_heads;
    let groups = [attention.kv_heads, group];
    let shape = match fragments {
        true => planner::fragment_shape(groups, attention.quantized.is_none(), caps),
        false => planner::decode_shape(attention.width, groups, splits, caps),
    };
    let norms = fused.and_then(|f| f.norms);
    let angle = fused.map(|f| f.angle);
    let quantized = attention.quantized;
    // With several, one has the new row alone.
    let shares = splits - u32::from(quantized.is_some() && fused.is_some() && splits > 1);
    let many_rounds = quantized.is_some_and(|q| planner::asks_far(q.affine, fragments))
        && attention.count / shares >= planner::MANY_ROUNDS;
    let bit = |on: bool, flag: u32| if on { flag } else { 0 };
    let flags = bit(fused.is_some(), shader::FUSED_FLAG)
        | bit(norms.is_some(), shader::NORM_FLAG)
        | bit(angle.is_some_and(|a| a.traditional), shader::TRADITIONAL_FLAG)
        | bit(angle.is_some_and(|a| a.divisors), shader::DIVISORS_FLAG)
        | bit(splits > 1, shader::SPLIT_FLAG)
        | bit(attention.sinks.is_some(), shader::SINKS_FLAG)
        | bit(attention.mask.is_some_and(|m| !m.additive), shader::KEEP_FLAG)
        | bit(attention.mask.is_some_and(|m| m.additive), shader::ADDITIVE_FLAG)
        | bit(angle.is_some_and(|a| a.of_sequences), shader::POSITIONS_FLAG)
        | bit(many_rounds, shader::MANY_ROUNDS_FLAG)
        | bit(attention.marked.is_some(), shader::MARKED_FLAG)
        | bit(ctx.config().enable_known_fragments, shader::FRAGMENTS_FLAG);
    let DecodeShape { subgroup, workgroup, heads } = shape;
    let mut constants = Constants {
        workgroup,
        dtype: attention.dtype,
        width: attention.width,
        subgroup,
        heads,
        sharing: group,
        flags,
        eps: norms.map_or(0, |n| n.1.to_bits()),
        position_scale: angle.map_or(1.0, |a| a.scale).to_bits(),
        bits: 0,
        group: 0,
        rotated: angle.map_or(attention.width, |a| a.features),
        query_head: fused.map_or(attention.width, |f| f.query_head),
    };
    let kernel = match attention.quantized {
        None if !fragments => ATTENTION_DECODE,
        None if attention.dtype == Dtype::Float16 as u32 => ATTENTION_DECODE_FLOAT16,
        None => ATTENTION_DECODE_BFLOAT16,
        Some(Quantized { affine, .. }) => {
            (constants.bits, constants.group) = (affine.bits as u32, affine.group_size as u32);
            if fragments { ATTENTION_DECODE_FIELDS } else { ATTENTION_DECODE_QUANTIZED }
        }
    };
    let [key_head, key_row, value_head, value_row] = attention.strides;
    let push = Push {
        q: fused.map_or(attention.q, |f| f.q),
        new_key: fused.map_or(0, |f| f.key),
        new_value: fused.map_or(0, |f| f.value),
        q_weight: norms.map_or(0, |n| n.0[0]),
        k_weight: norms.map_or(0, |n| n.0[1]),
        frequencies: angle.map_or(0, |a| a.frequencies),
        offset: angle.map_or(0, |a| a.offset),
        keys: attention.keys,
        values: attention.values,
        result: attention.result,
        parts,
        counters,
        key_head,
        key_row,
        value_head,
        value_row,
        count: attention.count,
        score_scale: attention.scale,
        more,
    };
    let pipeline = ctx.pipeline_with_subgroup(kernel, &constants, subgroup);
    let groups = [splits, group / heads, attention.kv_heads];
    Ok(Call::new(pipeline, &push, groups))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_whole_fit_fields() {
        let affine = Affine { group_size: 64, bits: 8 };
        let quantized = Some(Quantized { affine, parts: [4, 8, 12, 16], factor: 0 });
        let whole = Attention {
            q: 0,
            keys: 32,
            values: 16,
            result: 0,
            heads: 8,
            kv_heads: 2,
            count: 1 << 20,
            width: 128,
            strides: [1 << 30, 128, 0, 128],
            scale: 1.0,
            dtype: Dtype::Float16 as u32,
            quantized,
            sinks: None,
            mask: None,
            marked: None,
        };
        assert!(whole.fits_fields());
        let odd_parts = Some(Quantized { affine, parts: [4, 8, 12, 18], factor: 0 });
        for torn in [
            Attention { keys: 40, ..whole },
            Attention { strides: [1 << 30, 128, 0, 64], ..whole },
            Attention { strides: [1 << 30, 2048, 0, 128], ..whole },
            Attention { quantized: odd_parts, ..whole },
            Attention { quantized: None, ..whole },
        ] {
            assert!(!torn.fits_fields(), "{torn:?}");
        }
    }
}
