//! The attention of one token of every sequence over growing caches of one length, with the norms and
//! rotations of the new query and key, and the cache's new rows.

use mlx_vulkan_core::{
    Result,
    backend::Output,
    fusion::Group,
    primitives::{self, AttentionMask, Primitive},
    tape::Tape,
};
use smallvec::smallvec;

use super::{
    Grouped,
    heads::{Cursor, TokenHeads, Walk, cache_strides, caches_in_place, input},
    operands::dense,
};
use crate::{
    kernels::{
        Ctx, Operand,
        attention::{
            self,
            decode::{self, Attention, Sinks, Token},
            planner::{self, Decode, Sizes},
        },
        fragment::fragment,
    },
    runtime::device::DeviceState,
};

/// An attention with what comes before it, by places on the tape.
struct Found {
    attention: usize,
    /// The updates of the caches of keys and values.
    updates: [usize; 2],
    /// The first rows that are seen of them.
    first: [usize; 2],
    token: TokenHeads,
    scale: f32,
    sizes: Sizes,
    plan: Decode,
    mask: AttentionMask,
    sinks: Option<Cursor>,
}

/// The group that ends with the attention at `place`.
pub(super) fn find(tape: &Tape, place: usize, device: &DeviceState) -> Option<Group> {
    let node = tape.node(place);
    let Primitive::Attention(attention) = node.primitive else { return None };
    let primitives::Attention { scale, mask, .. } = attention;
    let config = device.config;
    if !config.enable_fused_attention {
        return None;
    }
    let sizes = attention::sizes(&node.inputs);
    let (dtype, caps) = (node.inputs[0].dtype(), device.capabilities());
    let plan = planner::decode(&sizes, fragment(dtype, [0; 2], caps, config), caps, config)?;
    let mut walk = Walk::new(tape, node.stream, dtype);
    walk.members.push(place);
    let batches = sizes.batches;
    let query = walk.rotated((place, 0), [batches, sizes.heads, sizes.key_width])?;
    let keys = walk.update((place, 1), [batches, sizes.keys], dtype, 1)?;
    let values = walk.update((place, 2), [batches, sizes.keys], dtype, 1)?;
    // The new rows of a cache are the second input of its update.
    let key = walk.rotated((keys.place, 1), [batches, sizes.kv_heads, sizes.key_width])?;
    let value = walk.stripped((values.place, 1));
    let token = walk.together(query, key, value).filter(|_| keys.place != values.place)?;
    let members = walk.members;
    let (updates, first) = ([keys.place, values.place], [keys.first, values.first]);
    // They are the last input.
    let sinks = attention.sinks.then(|| (place, node.inputs.len() - 1));
    let scale = scale.0;
    let found = Found { attention: place, updates, token, first, scale, sizes, plan, mask, sinks };
    let kept = smallvec![place, updates[0], updates[1]];
    Some(Group { members, kept, fusion: Box::new(Grouped(found)) })
}

impl super::GroupKernel for Found {
    fn name(&self) -> usize {
        self.attention
    }

    fn counted(&self) -> &[usize] {
        std::slice::from_ref(&self.attention)
    }

    fn replaces(&self) -> u64 {
        1 + self.updates.len() as u64 + self.token.operations()
    }

    fn describe(&self, _: &Tape) -> String {
        let Sizes { batches, heads, kv_heads, key_width, .. } = self.sizes;
        let name = self.token.name();
        match batches {
            1 => format!("{name}attention {heads}:{kv_heads}x{key_width}"),
            _ => format!("{name}attention {batches}x{heads}:{kv_heads}x{key_width}"),
        }
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let Some((projections, mut reads)) = self.token.projections(ctx, tape)? else {
            return Ok(false);
        };
        let [result, updated @ ..] = kept else { return Ok(false) };
        let Some([keys, values]) = caches_in_place(ctx, tape, self.updates, updated)? else {
            return Ok(false);
        };
        let to = attention::output(ctx, result)?;
        let sinks = match self.sinks.map(|at| dense(ctx, input(tape, at))).transpose()? {
            Some(Some(at)) => {
                reads.push(at.region);
                Some(Sinks { at: at.address, count: self.sizes.heads as u32 })
            }
            Some(None) => return Ok(false),
            None => None,
        };
        let mask = (self.mask == AttentionMask::Array).then_some((self.attention, 3));
        let mask = attention::token_mask(ctx, mask.map(|at| input(tape, at)))?;
        reads.extend(mask.map(|(_, region)| region));
        let s = &self.sizes;
        let row = (s.key_width * tape.array(self.attention).dtype().size()) as u64;
        let from = |cache: Operand, first: usize| cache.address + first as u64 * row;
        let attention = Attention {
            q: 0,
            keys: from(keys, self.first[0]),
            values: from(values, self.first[1]),
            result: to.address,
            heads: (s.batches * s.heads) as u32,
            kv_heads: (s.batches * s.kv_heads) as u32,
            count: s.keys as u32,
            width: s.key_width as u32,
            strides: cache_strides(tape, self.updates, s.key_width),
            scale: self.scale,
            dtype: tape.array(self.attention).dtype() as u32,
            quantized: None,
            sinks,
            mask: mask.map(|(mask, _)| mask),
            marked: None,
        };
        reads.extend([keys.region, values.region]);
        let writes = [to.region, keys.region, values.region];
        let token = Token { plan: self.plan, sizes: self.sizes, attention, projections };
        decode::encode_token(ctx, &token, &reads, &writes)?;
        Ok(true)
    }
}
